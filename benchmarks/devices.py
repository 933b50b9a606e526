"""Peak rates of accelerators, and the roofline of a training step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bert_tf.config import BertConfig

# Passes over each activation: written and read in the forward pass, read in the backward pass, and its gradient written
# and read. Rematerialization writes and reads it once more.
_PASSES, _PASSES_AGAIN = 5, 2
# Passes over each float32 parameter: read in the forward and the backward pass; its gradient written, and read by the
# norm and by the optimizer; both moments and the weight read and written.
_PARAMETER_PASSES = 2 + 3 + 6
_FLOAT32 = 4


@dataclass(frozen=True)
class Device:
    """Peak rates of one device.

    Args:
        name: name of the device.
        flops: dense floating-point operations per second by compute dtype.
        bandwidth: bytes per second of its memory.
        source: origin of the rates.
        kinds: patterns of the lower-case names that JAX or TensorFlow give to the device.
    """

    name: str
    flops: Mapping[str, float]
    bandwidth: float
    source: str
    kinds: tuple[str, ...] = ()

    def ridge(self, dtype: str) -> float:
        """Returns the operations per byte above which the peak of `dtype` bounds a program, not the bandwidth."""
        return self.flops[dtype] / self.bandwidth


def _rates(float32: float, bfloat16: float) -> dict[str, float]:
    return {"float32": float32 * 1e12, "bfloat16": bfloat16 * 1e12}


_NVIDIA, _TPU = (
    "NVIDIA's published rates, as third parties quote them, without sparsity; float32 is TF32",
    "Cloud TPU's documents; float32 is one bfloat16 pass",
)
# Devices whose rates were looked up (2026-11-25); the rates of others are measured. By default, matrix products of
# float32 values use TF32 on NVIDIA's devices since A100, and bfloat16 on TPUs.
DEVICES = (
    Device("H200", _rates(494.7, 989.4), 4.8e12, _NVIDIA, ("h200$",)),
    Device("H100", _rates(494.7, 989.4), 3.35e12, _NVIDIA, ("h100 80gb hbm3",)),
    Device("A100 80 GB", _rates(156, 312), 2.039e12, _NVIDIA, ("a100-sxm4-80gb",)),
    Device("TPU v6e", _rates(918, 918), 1.638e12, _TPU, ("tpu v6 lite", "tpu v6e")),
    Device("TPU v5e", _rates(197, 197), 0.819e12, _TPU, ("tpu v5 lite", "tpu v5e")),
    Device("TPU v5p", _rates(459, 459), 2.765e12, _TPU, ("tpu v5$", "tpu v5p")),
)


def find_device(kind: str) -> Device | None:
    """Returns the device with this name of JAX or TensorFlow, None if its rates are unknown."""
    for device in DEVICES:
        if any(re.search(rf"\b{words}", kind.lower()) for words in device.kinds):
            return device
    return None


@dataclass(frozen=True)
class Roofline:
    """The least time of a step by the peak rates of a device (Williams et al. 2009, doi 10.1145/1498765.1498785).

    Args:
        flops: floating-point operations of the step.
        bytes: bytes that it reads from and writes to memory.
        peak: operations per second of the device.
        bandwidth: bytes per second of its memory.
    """

    flops: float
    bytes: float
    peak: float
    bandwidth: float

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.flops / self.bytes

    @property
    def seconds(self) -> float:
        """Least seconds of the step."""
        return max(self.flops / self.peak, self.bytes / self.bandwidth)

    @property
    def bound(self) -> str:
        """Name of the rate that bounds the step: `compute` or `memory`."""
        return "compute" if self.flops / self.peak >= self.bytes / self.bandwidth else "memory"


def step_bytes(
    config: BertConfig, rows: float, length: float, predictions: float, width: int, fused: bool = False,
    rematerialize: bool = False,
) -> float:  # fmt: skip
    """Returns an estimate of the bytes that a training step moves, if each operation fuses with elementwise ones.

    Each output of a matrix product or normalization is written to memory and read from it (`_PASSES`). The plain
    attention also moves the scores, in float32, and the weights; the fused one moves neither.

    Args:
        config: architecture.
        rows: sequences of the batch.
        length: positions of a sequence.
        predictions: predictions of a sequence.
        width: bytes of an activation: 4 for float32, 2 for bfloat16.
        fused: whether the attention is fused.
        rematerialize: whether the activations of the layers are computed again.
    """
    hidden, inner = config.hidden_dim, config.intermediate_dim
    # Query, key, value, context, both sub-layers' outputs and normalizations; the inner layer and its activation.
    layer = length * (8 * hidden + 2 * inner) * width
    if not fused:
        layer += config.num_heads * length * length * (_FLOAT32 + width)
    passes = _PASSES + (_PASSES_AGAIN if rematerialize else 0)
    logits = predictions * config.vocabulary_size * _FLOAT32 * _PASSES
    parameters = config.num_parameters * _FLOAT32 * _PARAMETER_PASSES
    return rows * (config.num_layers * layer * passes + logits) + parameters

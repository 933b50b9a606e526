"""The common layout of all checkpoint formats: the original's tensor names and shapes.

Kernels are (inputs, outputs). The output weights of heads are (outputs, H), as in the original.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.models import MODEL_KINDS

_HEADS = sorted((kind.head for kind in MODEL_KINDS.values() if kind.head), key=lambda head: head.prefix)
# Name prefix of the output weights of each head. The original has the prefixes of sequence classification and question
# answering; it leaves the other heads to its users and ignores unknown tensors.
TASK_PREFIXES = {head.name: head.prefix for head in _HEADS}
# Number of outputs of heads with a fixed number: start and end; one score.
FIXED_OUTPUTS = {head.name: head.outputs for head in _HEADS if head.outputs}
MLM_BIAS = "cls/predictions/output_bias"
WORD_EMBEDDINGS = "bert/embeddings/word_embeddings"


class ConversionError(ValueError):
    """A checkpoint that cannot be read, or cannot be written in the requested format."""


@dataclass(frozen=True)
class Tensor:
    """One array of a checkpoint: its name in the source; shape and values, read on demand, in the original's layout."""

    name: str
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


@dataclass(frozen=True)
class Heads:
    """The heads on the encoder; `task` is a key of `TASK_PREFIXES`, and `num_labels` is the number of its outputs C."""

    masked_lm: bool = False
    next_sentence: bool = False
    task: str | None = None
    num_labels: int | None = None

    def names(self) -> list[str]:
        """Returns the names of the heads."""
        named = {"masked_lm": self.masked_lm, "next_sentence": self.next_sentence}
        return [name for name, present in named.items() if present] + ([self.task] if self.task else [])


def expected_shapes(config: BertConfig, heads: Heads) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of all tensors of a model by name, in the original's order."""
    hidden = config.hidden_dim
    shapes = dict(_encoder(config))
    if config.pooler:
        shapes.update(_dense("bert/pooler/dense", hidden, hidden))
    if heads.masked_lm:
        shapes.update(_transform("cls/predictions/transform/", config))
        shapes[MLM_BIAS] = (config.vocabulary_size,)
    if heads.next_sentence:
        shapes.update(_outputs("cls/seq_relationship/", 2, hidden))
    if heads.task:
        if not config.heads_need_pooler:
            shapes.update(_transform("cls/head/", config))
        shapes.update(_outputs(TASK_PREFIXES[heads.task], heads.num_labels or FIXED_OUTPUTS[heads.task], hidden))
    return shapes


def _encoder(config: BertConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden, inner = config.hidden_dim, config.intermediate_dim
    gates = 2 if config.feed_forward == "gated" else 1
    yield WORD_EMBEDDINGS, (config.vocabulary_size, hidden)
    if config.num_segments:
        yield "bert/embeddings/token_type_embeddings", (config.num_segments, hidden)
    if config.positions == "learned":
        yield "bert/embeddings/position_embeddings", (config.max_sequence_length, hidden)
    if config.embedding_norm:
        yield from _normalization("bert/embeddings/LayerNorm", config)
    for number in range(config.num_layers):
        layer = f"bert/encoder/layer_{number}"
        for name in ("query", "key", "value"):
            yield from _dense(f"{layer}/attention/self/{name}", hidden, hidden, config.biases)
        yield from _dense(f"{layer}/attention/output/dense", hidden, hidden, config.biases)
        if number or not config.skips_first_norm:
            yield from _normalization(f"{layer}/attention/output/LayerNorm", config)
        yield from _dense(f"{layer}/intermediate/dense", hidden, inner * gates, config.biases)
        yield from _dense(f"{layer}/output/dense", inner, hidden, config.biases)
        yield from _normalization(f"{layer}/output/LayerNorm", config)
    if config.final_norm:
        yield from _normalization("bert/encoder/LayerNorm", config)


def _transform(prefix: str, config: BertConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from _dense(f"{prefix}dense", config.hidden_dim, config.hidden_dim, config.biases)
    yield from _normalization(f"{prefix}LayerNorm", config)


def _dense(name: str, inputs: int, outputs: int, has_bias: bool = True) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}/kernel", (inputs, outputs)
    if has_bias:
        yield f"{name}/bias", (outputs,)


def _normalization(name: str, config: BertConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}/gamma", (config.hidden_dim,)
    if config.normalization_bias:
        yield f"{name}/beta", (config.hidden_dim,)


def _outputs(prefix: str, outputs: int, hidden: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{prefix}output_weights", (outputs, hidden)
    yield f"{prefix}output_bias", (outputs,)


def checked_rate(value: object, where: str) -> float | None:
    """Returns a dropout rate of a foreign file, or None. Raises ConversionError, starting with `where`, for others."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0.0 <= value < 1.0:
        raise ConversionError(f"{where} must be a number in [0, 1). Received: {value!r}")
    return float(value)


def heads_among(names: Mapping[str, object], shape: Callable[[str], tuple[int, ...]]) -> Heads:
    """Returns the heads whose tensors are among `names`. Raises ConversionError for output weights of several tasks."""
    tasks = [task for task, prefix in TASK_PREFIXES.items() if f"{prefix}output_weights" in names]
    if len(tasks) > 1:
        raise ConversionError(f"a checkpoint must have output weights of one task. Received: {', '.join(tasks)}")
    task = tasks[0] if tasks else None
    return Heads(
        masked_lm=MLM_BIAS in names,
        next_sentence="cls/seq_relationship/output_weights" in names,
        task=task,
        num_labels=shape(f"{TASK_PREFIXES[task]}output_weights")[0] if task else None,
    )


def check_tensors(tensors: Mapping[str, Tensor], config: BertConfig, heads: Heads, source: object) -> None:
    """Raises ConversionError with all tensors that are missing, unknown or of another shape than those of the model."""
    expected = expected_shapes(config, heads)
    faults = [f"missing: {name} {shape}" for name, shape in expected.items() if name not in tensors]
    faults += [f"unknown: {tensor.name}" for name, tensor in tensors.items() if name not in expected]
    faults += [
        f"{tensors[name].name}: must have shape {shape} by the configuration. Received: {tensors[name].shape}"
        for name, shape in expected.items()
        if name in tensors and tensors[name].shape != shape
    ]
    if faults:
        raise ConversionError(f"{source}: tensors do not match the configuration:\n  " + "\n  ".join(faults))

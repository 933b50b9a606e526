"""Compares the outputs and tensors of two checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes  # noqa: F401  (makes `bfloat16` a name that numpy knows)
import numpy as np

from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.verify.outputs import Answers

# Largest difference of float32 outputs for the same inputs. Programs sum in different orders.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Parity:
    """The comparison of two checkpoints.

    `differences` has the largest absolute difference of each output, and `largest` the largest absolute value of each
    output of the source. `unequal_tensors` has the largest absolute difference of each tensor that is not
    bit-identical; if the target has fewer bits (`rounded`), the source is rounded first and outputs must differ. `lost`
    are heads that the target's format does not support.
    """

    computed_by: tuple[str, str]
    differences: Mapping[str, float]
    largest: Mapping[str, float]
    unequal_tensors: Mapping[str, float]
    tensors: int
    rounded: bool = False
    lost: tuple[str, ...] = field(default=())

    @property
    def max_abs_difference(self) -> float:
        """The largest difference of all outputs."""
        return max(self.differences.values())

    @property
    def faults(self) -> list[str]:
        """Descriptions of all differences that are too large; empty if there are none."""
        outputs = [
            f"{name} differs by {difference:.3g}, more than {TOLERANCE:.0e}"
            for name, difference in self.differences.items()
            if not (self.rounded or difference <= TOLERANCE)
        ]
        return outputs + [f"tensor {name} differs by {value:.3g}" for name, value in self.unequal_tensors.items()]

    def report(self, source: Checkpoint, target: Checkpoint) -> dict[str, Any]:
        """Returns the report that is written beside the target."""
        return {
            "source": {"form": source.form, "path": str(source.path), "dtype": source.dtype},
            "target": {"form": target.form, "dtype": target.dtype},
            "computed_by": {"source": self.computed_by[0], "target": self.computed_by[1]},
            "max_abs_difference": self.max_abs_difference,
            "tolerance": None if self.rounded else TOLERANCE,
            "outputs": {
                name: {"max_abs_difference": value, "largest": self.largest[name]}
                for name, value in self.differences.items()
            },
            "tensors": self.tensors,
            "tensors_bit_equal": self.tensors - len(self.unequal_tensors),
            "heads_lost": list(self.lost),
            "left_out": list(source.left_out),
        }


def compare(
    source: tuple[Checkpoint, Answers],
    target: tuple[Checkpoint, Answers],
    inputs: Mapping[str, np.ndarray],
    lost: list[str],
) -> Parity:
    """Compares outputs and tensors of source and target; outputs at padded positions are ignored."""
    present = inputs["padding_mask"] != 0
    differences, largest = {}, {}
    for name, expected in source[1].outputs.items():
        if name not in target[1].outputs:
            continue
        received = target[1].outputs[name]
        if expected.shape[:2] == present.shape and expected.ndim == 3:
            expected, received = expected[present], received[present]
        gaps = np.abs(expected.astype(np.float64) - received)
        differences[name] = float(gaps.max())
        largest[name] = float(np.abs(expected).max())
    rounded = source[0].dtype != target[0].dtype and target[0].dtype != "float32"
    kept = np.dtype(target[0].dtype if rounded else "float32")
    unequal = {}
    for name in target[0].tensors:
        expected, received = source[0].array(name).astype(kept).astype(np.float32), target[0].array(name)
        if not np.array_equal(expected.view(np.uint32), received.view(np.uint32)):
            unequal[name] = float(np.abs(expected.astype(np.float64) - received).max())
    return Parity(
        computed_by=(source[1].by, target[1].by),
        differences=differences,
        largest=largest,
        unequal_tensors=unequal,
        tensors=len(target[0].tensors),
        rounded=rounded,
        lost=tuple(lost),
    )

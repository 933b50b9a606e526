"""Encoded rows, stored without padding.

Shape legend: E examples, N rows, C choices of a row (1 but for multiple choice), T tokens of all rows, B batch,
S sequence.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import keras
import numpy as np

from bert_tf.data.schema import PADDING_MASK, SEGMENT_IDS, SINGLE_OUTPUT, TOKEN_IDS

Arrays = dict[str, np.ndarray]
# A model as an inference function: arrays by input name to the model's outputs.
Model = Callable[[Mapping[str, np.ndarray]], Any]
_MOST_WIDTHS = {"jax": 4}
# Widths of a batch are multiples of this.
_WIDTH_MULTIPLE = 4


@dataclass(frozen=True)
class EncodedRows:
    """Rows of word pieces.

    Args:
        token_ids: int32 (T,), concatenated tokens of all rows, [CLS] and [SEP] included.
        row_splits: int64 (N C + 1,), start offset of each row, and the end.
        first_lengths: int32 (N C,), tokens of a row's first segment, [CLS] and [SEP] included.
        pad_id: id of the padding token.
        targets: by model output (`SINGLE_OUTPUT` if the model has one): (N,) for one target a row, or (T,) for one
            target a token; {} if the rows have no targets.
        weights: float32, with the names and shapes of `targets`; {} weighs all 1.
        examples: int64 (N,), number of each row's example, in the order of the examples; several rows may be windows
            of one example.
        choices: C.
        most_widths: maximum number of distinct batch widths: fewer shapes, or less padding; fewer if the backend of
            Keras compiles each shape.
    """

    token_ids: np.ndarray
    row_splits: np.ndarray
    first_lengths: np.ndarray
    pad_id: int
    targets: Mapping[str, np.ndarray] = field(default_factory=dict)
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    examples: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    choices: int = 1
    most_widths: int = field(default_factory=lambda: _MOST_WIDTHS.get(keras.config.backend(), 32))

    def __len__(self) -> int:
        return (len(self.row_splits) - 1) // self.choices

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of the longest choice of each row: int64 (N,)."""
        return np.diff(self.row_splits).reshape(-1, self.choices).max(axis=1, initial=0)

    @property
    def longest(self) -> int:
        """Tokens of the longest row."""
        return int(self.lengths.max(initial=0))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all ids, targets and weights."""
        digest = hashlib.sha256()
        arrays = (self.token_ids, self.row_splits, self.first_lengths, *self.targets.values(), *self.weights.values())
        for values in arrays:
            digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()

    def is_by_token(self, output: str) -> bool:
        """Returns True if an output has one target for each token."""
        # A row has at least [CLS] and [SEP], so there are always more tokens than rows.
        return len(self.targets[output]) == len(self.token_ids)

    def inputs(self, rows: np.ndarray, width: int = 0) -> Arrays:
        """Returns the model inputs of `rows`, int (B,), padded to `width` or, if it is 0, to `width(rows)`.

        These are `token_ids`, `segment_ids` and `padding_mask`, int32 (B, S), or (B, C, S) for several choices.
        """
        flat = (rows[:, None] * self.choices + np.arange(self.choices)).ravel()
        width = width or self.width(rows)
        place, mask = self.places(flat, width)
        token_ids = np.where(mask, self.token_ids[place], self.pad_id)
        second = mask & (np.arange(width) >= self.first_lengths[flat][:, None])
        arrays = {TOKEN_IDS: token_ids, SEGMENT_IDS: second, PADDING_MASK: mask}
        shape = (len(rows), width) if self.choices == 1 else (len(rows), self.choices, width)
        return {name: values.astype(np.int32).reshape(shape) for name, values in arrays.items()}

    def with_targets(self, targets: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """Returns the rows with targets (E,) of their examples, and weights of the same shape if they are not all 1."""
        of_rows = {} if weights is None else {SINGLE_OUTPUT: weights[self.examples]}
        return replace(self, targets={SINGLE_OUTPUT: targets[self.examples]}, weights=of_rows)

    def batch(self, rows: np.ndarray, width: int = 0) -> tuple[Arrays, Arrays, Arrays]:
        """Returns inputs, targets and weights of some rows; padding has weight 0.

        Args:
            rows: row numbers, int (B,).
            width: S; 0 for `width(rows)`.
        """
        width = width or self.width(rows)
        targets, weights = {}, {}
        for output, values in self.targets.items():
            weight = self.weights.get(output, np.ones(len(values), np.float32))
            if self.is_by_token(output):
                place, mask = self.places(rows, width)
                targets[output], weights[output] = values[place] * mask, weight[place] * mask
            else:
                targets[output], weights[output] = values[rows], weight[rows]
        return self.inputs(rows, width), targets, weights

    def width(self, rows: np.ndarray) -> int:
        """Returns the padded width of a batch of these rows."""
        step = _WIDTH_MULTIPLE * math.ceil(max(1, self.longest) / (_WIDTH_MULTIPLE * self.most_widths))
        # The model may have no positions beyond the longest row.
        return min(max(1, self.longest), step * math.ceil(max(1, int(self.lengths[rows].max(initial=0))) / step))

    def places(self, flat: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the indices of tokens among all T, and the padding mask, (B, width); `flat` counts each choice."""
        begins, ends = self.row_splits[flat][:, None], self.row_splits[flat + 1][:, None]
        place = begins + np.arange(width)
        return np.minimum(place, len(self.token_ids) - 1), place < ends

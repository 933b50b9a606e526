"""Encoded rows of a task, stored without padding, and training batches of similar length.

Shape legend: N rows, C choices of a row (1 but for multiple choice), T tokens of all rows, B batch, S sequence.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

from bert_tf.data.input.bins import GROUP
from bert_tf.data.input.dataset import Batches
from bert_tf.data.randomness import stream_keys
from bert_tf.data.schema import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_tf.training.losses import SINGLE_OUTPUT

Arrays = dict[str, np.ndarray]
# Random stream of the order of an epoch.
_EPOCH_STREAM = 21
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
        most_widths: maximum number of distinct batch widths: fewer shapes, or less padding.
    """

    token_ids: np.ndarray
    row_splits: np.ndarray
    first_lengths: np.ndarray
    pad_id: int
    targets: Mapping[str, np.ndarray] = field(default_factory=dict)
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    examples: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    choices: int = 1
    most_widths: int = 32

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

    def batch(self, rows: np.ndarray) -> tuple[Arrays, Arrays, Arrays]:
        """Returns inputs, targets and weights of some rows; padding has weight 0."""
        width = self.width(rows)
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
        step = _WIDTH_MULTIPLE * math.ceil(self.longest / (_WIDTH_MULTIPLE * self.most_widths))
        # The model may have no positions beyond the longest row.
        return min(max(1, self.longest), step * math.ceil(max(1, int(self.lengths[rows].max(initial=0))) / step))

    def places(self, flat: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the indices of tokens among all T, and the padding mask, (B, width); `flat` counts each choice."""
        begins, ends = self.row_splits[flat][:, None], self.row_splits[flat + 1][:, None]
        place = begins + np.arange(width)
        return np.minimum(place, len(self.token_ids) - 1), place < ends


def batches_in_epoch(rows: EncodedRows, batch_size: int) -> int:
    """Returns the number of batches in an epoch; the last batch is filled up from the epoch's beginning."""
    return math.ceil(len(rows) / batch_size)


def training_batches(rows: EncodedRows, batch_size: int, seed: int, start_step: int = 0) -> tf.data.Dataset:
    """Returns endless batches of rows of similar length. Their order is a function of (seed, step).

    Each epoch shuffles all rows and cuts them into groups of `GROUP` batches. In a group, rows are sorted by length and
    cut into batches, and the batches are shuffled. Elements are (inputs, targets, weights); targets and weights are
    single tensors if the model has one output. The first `start_step` batches are skipped.
    """

    def numpy_batches() -> Iterator[tuple]:
        epoch, skipped = divmod(start_step, batches_in_epoch(rows, batch_size))
        while True:
            for batch in epoch_order(rows.lengths, batch_size, seed, epoch)[skipped:]:
                inputs, *further = rows.batch(batch)
                yield inputs, *(arrays.get(SINGLE_OUTPUT, arrays) for arrays in further)
            epoch, skipped = epoch + 1, 0

    return _as_dataset(Batches(numpy_batches))


def epoch_order(lengths: np.ndarray, batch_size: int, seed: int, epoch: int) -> np.ndarray:
    """Returns the rows of every batch of an epoch, counted from 0: int64 (batches, batch_size)."""
    count = len(lengths)
    order = np.argsort(stream_keys(seed, _EPOCH_STREAM, epoch, np.arange(count)), kind="stable")
    order = order[np.arange(math.ceil(count / batch_size) * batch_size) % count]
    batches = []
    for begin in range(0, len(order), GROUP * batch_size):
        group = order[begin : begin + GROUP * batch_size]
        cut = group[np.argsort(lengths[group], kind="stable")].reshape(-1, batch_size)
        keys = stream_keys(seed, _EPOCH_STREAM + 1, epoch, begin + np.arange(len(cut)))
        batches.append(cut[np.argsort(keys, kind="stable")])
    return np.concatenate(batches)


def _as_dataset(batches: Batches) -> tf.data.Dataset:
    example = next(iter(batches))
    mask = example[0][PADDING_MASK]
    along, width = mask.ndim - 1, mask.shape[-1]

    def spec(values: np.ndarray) -> tf.TensorSpec:
        shape = [None if axis == along and size == width else size for axis, size in enumerate(values.shape)]
        return tf.TensorSpec(shape, values.dtype)

    signature = tf.nest.map_structure(spec, example)
    return tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=signature).prefetch(4)

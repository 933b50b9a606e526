"""Batches without padding: several examples in a row, one after the other.

A packed batch holds the examples, masks and labels of the batch that it is made of, in fewer rows. Every example keeps
to itself (attention, positions, next sentence), so that loss and gradient are those of the batch it was; dropout draws
other masks.

Shape legend: B batch, S sequence, P predictions; packed: R rows, M examples a row.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bert_tf.data.schema import (
    EXAMPLE_IDS,
    FIRST_POSITIONS,
    MASK_POSITIONS,
    MLM_LOGITS,
    NSP_LOGITS,
    PADDING_MASK,
    POSITION_IDS,
    SEGMENT_IDS,
    TOKEN_IDS,
)

# M: rarely fewer than would fit, few enough that the room for them costs nothing.
MOST_EXAMPLES = 8

Arrays = Mapping[str, np.ndarray]


def first_fit_decreasing(sizes: np.ndarray, capacities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Puts things into rows: the largest first, each into the first row that has room for it.

    Args:
        sizes: int64 (n, k), what each thing takes of k capacities; the first decides which is larger.
        capacities: int64 (k,) of a row; none of the sizes is larger.

    Returns:
        row: int64 (n,), used rows numbered from 0 on.
        start: int64 (n, k), what of each capacity stands in the row before the thing.
    """
    count = len(sizes)
    used = np.zeros_like(sizes)
    row, start = np.zeros(count, np.int64), np.zeros_like(sizes)
    for thing in np.argsort(-sizes[:, 0], kind="stable"):
        # Rows not used yet are empty, so there is always one.
        row[thing] = np.argmax((used + sizes[thing] <= capacities).all(axis=1))
        start[thing] = used[row[thing]]
        used[row[thing]] += sizes[thing]
    return row, start


def pack_batch(inputs: Arrays, targets: Arrays, weights: Arrays, multiple: int = 1) -> tuple[dict, dict, dict]:
    """Packs a batch, leaving out examples whose targets all weigh nothing.

    Args:
        inputs: int32 (B, S) `token_ids`, `segment_ids`, `padding_mask` (ones first) and (B, P) `mask_positions`.
        targets: int32 (B, P) `mlm_logits` and (B,) `nsp_logits`.
        weights: float32, of the same shapes; those of `mlm_logits` positive first, then 0.
        multiple: what R is to be a multiple of; the last rows may be empty.

    Returns:
        inputs: int32 (R, S) `token_ids` (0 where there is none), `segment_ids`, `padding_mask`, `example_ids` and
            `position_ids`, (R, P) `mask_positions`, (R, M) `first_positions`.
        targets: int32 (R, P) `mlm_logits` and (R, M) `nsp_logits`.
        weights: float32 of the same shapes.
    """
    there, predicted = inputs[PADDING_MASK] > 0, weights[MLM_LOGITS] > 0
    kept = np.flatnonzero(predicted.any(axis=1) | (weights[NSP_LOGITS] > 0))
    there, predicted = there[kept], predicted[kept]
    sizes = np.stack([there.sum(axis=1), predicted.sum(axis=1), np.ones(len(kept), np.int64)], axis=1)
    capacities = np.array([there.shape[1], predicted.shape[1], MOST_EXAMPLES])
    row, start = first_fit_decreasing(sizes, capacities)
    rows = max(-(-(row.max(initial=0) + 1) // multiple) * multiple, multiple)

    def placed(values: np.ndarray, where: np.ndarray, capacity: int) -> np.ndarray:
        """Returns `values` (n, w) where they are, in their rows: (R, capacity), 0 elsewhere."""
        result = np.zeros((rows, capacities[capacity]), values.dtype)
        thing, position = np.nonzero(where)
        result[row[thing], start[thing, capacity] + position] = values[where]
        return result

    single = np.ones((len(kept), 1), np.bool_)
    example_ids = np.broadcast_to(start[:, 2:] + 1, there.shape).astype(np.int32)
    position_ids = np.broadcast_to(np.arange(there.shape[1], dtype=np.int32), there.shape)
    first_positions = start[:, :1].astype(np.int32)
    packed_inputs = {name: placed(inputs[name][kept], there, 0) for name in (TOKEN_IDS, SEGMENT_IDS, PADDING_MASK)} | {
        EXAMPLE_IDS: placed(example_ids, there, 0),
        POSITION_IDS: placed(position_ids, there, 0),
        MASK_POSITIONS: placed(inputs[MASK_POSITIONS][kept] + first_positions, predicted, 1),
        FIRST_POSITIONS: placed(first_positions, single, 2),
    }

    def placed_targets(values: Arrays) -> dict[str, np.ndarray]:
        return {
            MLM_LOGITS: placed(values[MLM_LOGITS][kept], predicted, 1),
            NSP_LOGITS: placed(values[NSP_LOGITS][kept, None], single, 2),
        }

    return packed_inputs, placed_targets(targets), placed_targets(weights)

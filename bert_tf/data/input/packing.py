"""Packs several examples into a row to avoid padding.

A packed batch holds the examples, masks and labels of the original batch in fewer rows. Examples in a row are isolated
from each other (attention, positions, next sentence), so loss and gradient are unchanged. Only dropout masks differ.

Shape legend: B batch, S sequence, P predictions; packed: R rows, M examples per row.
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

# M: rarely limits the number of examples that fit in a row, and small enough to cost almost no memory.
MOST_EXAMPLES = 8

Arrays = Mapping[str, np.ndarray]


def first_fit_decreasing(sizes: np.ndarray, capacities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Packs n items into rows: the largest first, each into the first row with enough room.

    `sizes`, int64 (n, k), are the sizes of the items in k dimensions; items are ordered by the first one. `capacities`,
    int64 (k,), is the capacity of a row, which no size may exceed. Returns the row of each item, int64 (n,) from 0, and
    its offset in its row, int64 (n, k).
    """
    count = len(sizes)
    used = np.zeros_like(sizes)
    row, start = np.zeros(count, np.int64), np.zeros_like(sizes)
    for item in np.argsort(-sizes[:, 0], kind="stable"):
        # Unused rows are empty, so a row with enough room always exists.
        row[item] = np.argmax((used + sizes[item] <= capacities).all(axis=1))
        start[item] = used[row[item]]
        used[row[item]] += sizes[item]
    return row, start


def pack_batch(inputs: Arrays, targets: Arrays, weights: Arrays, multiple: int = 1) -> tuple[dict, dict, dict]:
    """Packs a batch; examples without any target of positive weight are dropped.

    `inputs` are int32 (B, S) `token_ids`, `segment_ids`, `padding_mask` (ones first) and (B, P) `mask_positions`;
    `targets` int32 (B, P) `mlm_logits` and (B,) `nsp_logits`; `weights` float32 of the same shapes, those of
    `mlm_logits` positive first, then 0. R is a multiple of `multiple`; the last rows may be empty.

    Returns inputs: int32 (R, S) `token_ids` (0 for padding), `segment_ids`, `padding_mask`, `example_ids` and
    `position_ids`, (R, P) `mask_positions`, (R, M) `first_positions`; targets: int32 (R, P) `mlm_logits` and (R, M)
    `nsp_logits`; and float32 weights of the same shapes.
    """
    is_token, predicted = inputs[PADDING_MASK] > 0, weights[MLM_LOGITS] > 0
    kept = np.flatnonzero(predicted.any(axis=1) | (weights[NSP_LOGITS] > 0))
    is_token, predicted = is_token[kept], predicted[kept]
    sizes = np.stack([is_token.sum(axis=1), predicted.sum(axis=1), np.ones(len(kept), np.int64)], axis=1)
    capacities = np.array([is_token.shape[1], predicted.shape[1], MOST_EXAMPLES])
    row, start = first_fit_decreasing(sizes, capacities)
    rows = max(-(-(row.max(initial=0) + 1) // multiple) * multiple, multiple)

    def placed(values: np.ndarray, where: np.ndarray, capacity: int) -> np.ndarray:
        """Moves `values` (n, w) selected by `where` to their packed rows: (R, capacity), 0 elsewhere."""
        result = np.zeros((rows, capacities[capacity]), values.dtype)
        thing, position = np.nonzero(where)
        result[row[thing], start[thing, capacity] + position] = values[where]
        return result

    single = np.ones((len(kept), 1), np.bool_)
    example_ids = np.broadcast_to(start[:, 2:] + 1, is_token.shape).astype(np.int32)
    position_ids = np.broadcast_to(np.arange(is_token.shape[1], dtype=np.int32), is_token.shape)
    first_positions = start[:, :1].astype(np.int32)
    packed_inputs = {
        name: placed(inputs[name][kept], is_token, 0) for name in (TOKEN_IDS, SEGMENT_IDS, PADDING_MASK)
    } | {
        EXAMPLE_IDS: placed(example_ids, is_token, 0),
        POSITION_IDS: placed(position_ids, is_token, 0),
        MASK_POSITIONS: placed(inputs[MASK_POSITIONS][kept] + first_positions, predicted, 1),
        FIRST_POSITIONS: placed(first_positions, single, 2),
    }

    def placed_targets(values: Arrays) -> dict[str, np.ndarray]:
        return {
            MLM_LOGITS: placed(values[MLM_LOGITS][kept], predicted, 1),
            NSP_LOGITS: placed(values[NSP_LOGITS][kept, None], single, 2),
        }

    return packed_inputs, placed_targets(targets), placed_targets(weights)

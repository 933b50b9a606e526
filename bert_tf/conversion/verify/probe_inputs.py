"""Builds the inputs that both checkpoints of a conversion are compared on.

Shape legend: B batch, S sequence, P predictions.
"""

from __future__ import annotations

import numpy as np

from bert_tf.config import BertConfig

LONGEST, PREDICTIONS = 512, 8


def fixed_inputs(config: BertConfig) -> dict[str, np.ndarray]:
    """Returns four fixed rows for an architecture, the same on every machine.

    The rows are long with both segments, short, half as long with one segment, and padded with both segments. The long
    row has all positions (at most 512); the others are padded to its length. Word pieces are drawn from the whole
    vocabulary; masked positions are tokens and may repeat. `token_ids`, `segment_ids`, `padding_mask` (B, S) and
    `mask_positions` (B, P) are int32, B = 4.
    """
    length = min(config.max_sequence_length, LONGEST)
    lengths = [length, min(7, length), max(1, length // 2), max(1, length * 3 // 4)]
    second = [length // 2, lengths[1], lengths[2], max(1, lengths[3] // 3)]
    random = np.random.Generator(np.random.PCG64(20181011))
    columns = np.arange(length)
    mask = columns < np.array(lengths)[:, np.newaxis]
    segments = (columns >= np.array(second)[:, np.newaxis]) & mask & (config.num_segments > 1)
    ids = random.integers(0, config.vocabulary_size, mask.shape)
    positions = random.integers(0, np.array(lengths)[:, np.newaxis], (len(lengths), PREDICTIONS))
    return {
        "token_ids": np.where(mask, ids, 0).astype(np.int32),
        "segment_ids": segments.astype(np.int32),
        "padding_mask": mask.astype(np.int32),
        "mask_positions": positions.astype(np.int32),
    }

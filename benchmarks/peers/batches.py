"""Batches of random word pieces and constants that are the same for all contenders."""

from __future__ import annotations

import argparse

import numpy as np

from bert_tf.config import BertConfig

SEQUENCES, LENGTH, PREDICTIONS, VOCABULARY_SIZE = 32, 128, 20, 30_522
POSITIONS, SEGMENTS, DROPOUT = 512, 2, 0.1
LEARNING_RATE, WEIGHT_DECAY, EPSILON, CLIP_NORM = 1e-4, 0.01, 1e-6, 1.0
# The values of the paper; no contender runs that many steps.
STEPS, WARMUP_STEPS = 1_000_000, 10_000
_BATCHES = 8
# Share of padded rows, like the short sequences in the paper.
_SHORT = 0.1


def batches(seed: int = 0) -> dict[str, np.ndarray]:
    """Returns N batches of B sequences of S tokens with P predictions.

    Args:
        seed: seed of the random numbers.

    Returns:
        int32 `token_ids`, `segment_ids`, `padding_mask` (N, B, S), `mask_positions`, `mask_ids` (N, B, P) and
        `next_sentence_labels` (N, B); float32 `mask_weights` (N, B, P) and `next_sentence_weights` (N, B).
    """
    rng = np.random.default_rng(seed)
    rows = (_BATCHES, SEQUENCES)
    lengths = np.where(rng.random(rows) < _SHORT, rng.integers(LENGTH // 4, LENGTH, rows), LENGTH)
    position = np.arange(LENGTH)
    present = position < lengths[..., np.newaxis]
    second = present & (position >= lengths[..., np.newaxis] // 2)
    chosen = np.argsort(np.where(present, rng.random((*rows, LENGTH)), 2.0), axis=-1)[..., :PREDICTIONS]
    wanted = np.minimum(PREDICTIONS, np.round(0.15 * lengths))
    weights = (np.arange(PREDICTIONS) < wanted[..., np.newaxis]).astype("float32")
    return {
        "token_ids": (rng.integers(1000, VOCABULARY_SIZE, (*rows, LENGTH)) * present).astype("int32"),
        "segment_ids": second.astype("int32"),
        "padding_mask": present.astype("int32"),
        "mask_positions": np.where(weights > 0, np.sort(chosen, axis=-1), 0).astype("int32"),
        "mask_ids": rng.integers(1000, VOCABULARY_SIZE, (*rows, PREDICTIONS)).astype("int32"),
        "mask_weights": weights,
        "next_sentence_labels": rng.integers(0, 2, rows).astype("int32"),
        "next_sentence_weights": np.ones(rows, "float32"),
    }


def config_of(size: str, vocabulary_size: int = VOCABULARY_SIZE) -> BertConfig:
    """Returns the architecture of a size, a key of `bert_tf.config.model.SIZES`."""
    return BertConfig.from_size(
        size, vocabulary_size=vocabulary_size, max_sequence_length=POSITIONS, num_segments=SEGMENTS, dropout=DROPOUT
    )


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Returns a parser with the arguments of all contenders."""
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    parser.add_argument("--size", default="L4_H256", help="name of the model size; default: %(default)s")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--threads", type=int, default=1)
    return parser

"""Truncates segments and assembles examples as flat tokens."""

from __future__ import annotations

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data.examples.draw import TRUNCATION, Chunks
from bert_tf.data.randomness import random_bits
from bert_tf.text.vocabulary import Vocabulary

_FULL = np.uint64(0xFFFFFFFFFFFFFFFF)


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns the concatenated integer ranges [starts, starts + lengths): int64 [sum]."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)


def truncated_lengths(a: np.ndarray, b: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns segment lengths after truncation.

    Tokens are removed one at a time from the longer segment, from the second if both are equal.

    Args:
        a: int64 [n], lengths of the first segments.
        b: int64 [n], lengths of the second segments.
        longest: maximum sum of both lengths.

    Returns:
        Two int64 [n] arrays, the new lengths of the first and the second segments.
    """
    kept_a = np.minimum(a, np.maximum(longest - b, (longest + 1) // 2))
    kept_b = np.minimum(b, np.maximum(longest - a, longest // 2))
    return kept_a, kept_b


def assemble_rows(
    token_ids: np.ndarray, chunks: Chunks, config: DataConfig, vocabulary: Vocabulary
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Assembles `[CLS] a [SEP] b [SEP]` for pairs, truncated to fit, or `[CLS] a [SEP]` for single segments.

    As in the original, each removed token is taken from the front or the back of its segment with equal probability.

    Args:
        token_ids: int32 [T], tokens of the bucket.
        chunks: token ranges of the segments.
        config: length and kind of the rows.
        vocabulary: vocabulary with [CLS] and [SEP].

    Returns:
        `token_ids`, `row_splits` and `segment_lengths` as in `build.Pairs`.

    Raises:
        ValueError: if a single segment is too long.
    """
    pairs = config.next_sentence
    longest = config.max_seq_length - (3 if pairs else 2)
    before_a, before_b = chunks.a_end - chunks.a_start, chunks.b_end - chunks.b_start
    if not pairs and before_a.max(initial=0) > longest:
        raise ValueError(f"a segment must have at most {longest} tokens. Received: {before_a.max()}")
    a, b = truncated_lengths(before_a, before_b, longest)
    a_start = chunks.a_start + _front_losses(chunks.keys, before_a - a, 0)
    b_start = chunks.b_start + _front_losses(chunks.keys, before_b - b, 1)
    first, second = a + 2, b + 1 if pairs else np.zeros_like(b)
    ends = np.cumsum(first + second)
    begins = ends - (first + second)
    rows = np.empty(ends[-1] if len(ends) else 0, np.int32)
    rows[begins] = vocabulary.cls_id
    rows[begins + a + 1] = vocabulary.sep_id
    rows[ends - 1] = vocabulary.sep_id
    rows[ranges(begins + 1, a)] = token_ids[ranges(a_start, a)]
    rows[ranges(begins + a + 2, b)] = token_ids[ranges(b_start, b)]
    segment_lengths = np.stack([first, second], axis=1).astype(np.int32)
    return rows, np.concatenate([[0], ends]).astype(np.int64), segment_lengths


def _front_losses(keys: np.ndarray, lost: np.ndarray, side: int) -> np.ndarray:
    """Returns the number of `lost` tokens to remove from the front: one coin flip per token, 64 flips per draw."""
    words = (lost + 63) // 64
    number = ranges(np.zeros_like(words), words)
    bits = random_bits(np.repeat(keys, words), TRUNCATION + 2 * number + side)
    coins = np.minimum(np.repeat(lost, words) - 64 * number, 64).astype(np.uint64)
    heads = np.bitwise_count(bits & (_FULL >> (np.uint64(64) - coins))).astype(np.int64)
    return np.bincount(np.repeat(np.arange(len(lost)), words), weights=heads, minlength=len(lost)).astype(np.int64)

"""Reference implementation of whole-word masking, one row and one word at a time."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from bert_tf.config import DataConfig
from bert_tf.data.randomness import random_bits, stream_keys
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

SHORT = Vocabulary((*SPECIAL_TOKENS, "a", "b", "c", "##d", "##e"))


def encode(text: str) -> list[int]:
    return [SHORT.id_of(token) for token in text.split()]


def pad(rows: list[list[int]], width: int, vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    """Returns token ids, int32 [n, width], and lengths, int64 [n]."""
    tokens = np.full((len(rows), width), vocabulary.pad_id, np.int32)
    for row, ids in zip(tokens, rows, strict=True):
        row[: len(ids)] = ids
    return tokens, np.array([len(ids) for ids in rows], np.int64)


def random_rows(rng: np.random.Generator, count: int, width: int, continued: float, special: float) -> list[list[int]]:
    """Returns rows of `SHORT` of all lengths, many full, with shares of `continued` and `special` tokens."""
    rows = []
    for _ in range(count):
        kinds = rng.random(min(rng.integers(0, width + width // 4), width))
        plain = rng.integers(5, 8, len(kinds))
        ids = np.where(kinds < continued, plain % 2 + 8, np.where(kinds > 1 - special, plain % 5, plain))
        rows.append(ids.tolist())
    return rows


def runs_of_words(tokens: list[int], vocabulary: Vocabulary) -> list[list[list[int]]]:
    """Returns the piece positions of each word, by run of tokens that are not special."""
    runs: list[list[list[int]]] = [[]]
    for position, token in enumerate(tokens):
        if token in vocabulary.special_ids:
            runs.append([])
        elif vocabulary.tokens[token].startswith("##") and runs[-1]:
            runs[-1][-1].append(position)
        else:
            runs[-1].append([position])
    return runs


def span_length(draw: int, longest: int) -> int:
    """Returns n words for a draw of 32 bits, in proportion to 1/n."""
    total = sum(Fraction(1, n) for n in range(1, longest + 1))
    reached = Fraction(0)
    for n in range(1, longest):
        reached += Fraction(1, n) / total
        if draw < int(2**32 * reached):
            return n
    return longest


def chosen_positions(tokens: list[int], key: int, config: DataConfig, vocabulary: Vocabulary) -> list[int]:
    """Returns the positions to predict in one row."""
    longest = config.max_ngram if config.mask_unit == "span" else 1
    left = min(config.max_predictions_per_seq, max(1, round(len(tokens) * config.masked_lm_prob)))
    scores = random_bits(stream_keys(key, 1), 3 * np.arange(config.max_seq_length)).tolist()
    bits = (config.max_seq_length - 1).bit_length()
    spans = []
    for run in runs_of_words(tokens, vocabulary):
        for number, word in enumerate(run):
            score = (scores[word[0]] >> bits << bits) + word[0]
            spans.append((score, run[number : number + span_length(score % 2**32, longest)]))
    taken: set[int] = set()
    for _, span in sorted(spans):
        pieces: list[int] = []
        for word in span:
            if len(pieces) + len(word) > left:
                break
            pieces += word
        if not taken & set(pieces):
            taken |= set(pieces)
            left -= len(pieces)
    return sorted(taken)

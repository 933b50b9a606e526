"""Quality metrics of documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from beam_pipelines.cleaning.characters import SPACE, SYMBOL, find_words, in_slices, read_characters


class Measures(NamedTuple):
    """Quality metrics of n documents."""

    words: np.ndarray  # int64 [n], see `characters`
    symbol_ratio: np.ndarray  # float64 [n], share of symbols among non-space characters; 0 without such characters


def measure(documents: Sequence[Sequence[str]]) -> Measures:
    r"""Counts words and symbols of n documents, given as paragraphs.

    Symbols are mathematical, currency and all other signs, emoji, control characters, U+FFFD, private and unassigned
    code points, and ``# * @ \ _ { } •``. Letters, marks, numbers, spaces and format characters (Unicode categories L,
    M, N, Z and Cf, and white space) and the punctuation (P) of ordinary prose are not symbols.
    """
    totals = np.zeros((3, len(documents)), np.int64)
    for owners, texts in in_slices(documents):
        _, classes, starts = read_characters(texts)
        words = find_words(classes)
        bounds = np.searchsorted(words.positions[words.begins], [*starts, len(classes)])
        symbols = np.add.reduceat(classes == SYMBOL, starts, dtype=np.int64)
        visible = np.add.reduceat(classes != SPACE, starts, dtype=np.int64)
        for total, counts in zip(totals, (np.diff(bounds), symbols, visible), strict=True):
            np.add.at(total, owners, counts)
    words_of, symbols_of, visible_of = totals
    return Measures(words_of, symbols_of / np.maximum(visible_of, 1))


def repeated_lines(paragraphs: Sequence[str]) -> float:
    """Returns the share of lines that repeat an earlier line of the document (arXiv 2112.11446, table A1)."""
    return (len(paragraphs) - len(set(paragraphs))) / max(len(paragraphs), 1)

"""Texts as arrays of code points, and where their words begin.

A word is what stands between spaces and holds a letter, mark or number; only these count, so that punctuation at or
in it changes nothing. In scripts that are written without spaces between words (`_UNSPACED_BLOCKS`) every letter,
with the marks on it, is a word: a Chinese or Japanese word is one or two of them, a Thai one about four.

Categories are those of the Unicode version of the Python that runs: what an older one does not know is a symbol.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

OTHER, SPACE, SYMBOL, SPACED, UNSPACED, UNSPACED_MARK = range(6)

CODE_POINTS = 0x110000
# Characters looked at together: few enough that the arrays over them stay in cache, which doubles the speed.
SLICE_CHARACTERS = 1 << 17

# Punctuation by its category that prose does without, and its wide forms.
_SYMBOLS = frozenset("#*@\\_{}•‣＃＊＠＼＿｛｝")
_UNSPACED_BLOCKS = (
    (0x0E00, 0x0FFF),  # Thai, Lao, Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x30FF),  # iteration marks, Hiragana, Katakana
    (0x31F0, 0x31FF),  # more Katakana
    (0x3400, 0x4DBF),  # Han, extension A
    (0x4E00, 0x9FFF),  # Han
    (0xA9E0, 0xA9FF),  # more Myanmar
    (0xAA60, 0xAA7F),
    (0xF900, 0xFAFF),  # Han, compatibility
    (0xFF66, 0xFF9F),  # Katakana, half width
    (0x1AFF0, 0x1B16F),  # more kana
    (0x20000, 0x3FFFF),  # Han, all other extensions
)


class Characters(NamedTuple):
    """The characters of n texts, one after the other, each text followed by a line break: C in all.

    Args:
        code_points: uint32 [C].
        classes: uint8 [C].
        starts: int64 [n], where each text begins.
    """

    code_points: np.ndarray
    classes: np.ndarray
    starts: np.ndarray


class WordCharacters(NamedTuple):
    """Which characters make words: K of them, in W words.

    Args:
        positions: int64 [K], among all characters.
        begins: int64 [W], the first one of each word, among `positions`.
    """

    positions: np.ndarray
    begins: np.ndarray


def read_characters(texts: Sequence[str]) -> Characters:
    """Returns the characters of `texts`."""
    joined = "".join(f"{text}\n" for text in texts)
    code_points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), "<u4")
    ends = np.cumsum([len(text) + 1 for text in texts], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
    return Characters(code_points, character_classes()[code_points], starts)


def find_words(classes: np.ndarray) -> WordCharacters:
    """Returns the words among characters of the given classes, uint8 [C]."""
    positions = np.flatnonzero(classes >= SPACED)
    if not len(positions):
        return WordCharacters(positions, positions)
    kinds = classes[positions]
    spaces = np.cumsum(classes == SPACE, dtype=np.int32)[positions]
    begins = kinds == UNSPACED
    begins[0] = True
    begins[1:] |= spaces[1:] != spaces[:-1]
    begins[1:] |= (kinds[1:] == SPACED) & (kinds[:-1] >= UNSPACED)
    return WordCharacters(positions, np.flatnonzero(begins))


def in_slices(documents: Iterable[Sequence[str]]) -> Iterator[tuple[list[int], list[str]]]:
    """Yields the paragraphs of `documents` in slices of at most `SLICE_CHARACTERS`, in order.

    A longer paragraph is cut, which may cut a word in two.

    Yields:
        The number of the document of each text, and the texts.
    """
    owners: list[int] = []
    texts: list[str] = []
    size = 0
    for number, paragraphs in enumerate(documents):
        for paragraph in paragraphs:
            for begin in range(0, len(paragraph), SLICE_CHARACTERS):
                text = paragraph[begin : begin + SLICE_CHARACTERS]
                if texts and size + len(text) > SLICE_CHARACTERS:
                    yield owners, texts
                    owners, texts, size = [], [], 0
                owners.append(number)
                texts.append(text)
                size += len(text)
    if texts:
        yield owners, texts


@functools.lru_cache(maxsize=1)
def character_classes() -> np.ndarray:
    """Returns the class of every code point, uint8 [CODE_POINTS]."""
    categories = [unicodedata.category(chr(code_point)) for code_point in range(CODE_POINTS)]
    classes = np.array([_class_of(chr(number), category) for number, category in enumerate(categories)], np.uint8)
    for first, last in _UNSPACED_BLOCKS:
        for code_point in range(first, last + 1):
            category = categories[code_point]
            if category[0] == "M":
                classes[code_point] = UNSPACED_MARK
            elif category[0] == "L" or category == "Nl":
                classes[code_point] = UNSPACED
    return classes


def _class_of(character: str, category: str) -> int:
    if character.isspace():
        return SPACE
    if category[0] in "LMN":
        return SPACED
    if category == "Cf" or (category[0] == "P" and character not in _SYMBOLS):
        return OTHER
    return SYMBOL

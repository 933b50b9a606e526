"""Texts as arrays of code points with word boundaries.

A word is a run of characters between spaces with at least one letter, mark or number. Only these characters count, so
punctuation in or around a word is ignored. In scripts without spaces between words (`_UNSPACED_BLOCKS`) every letter
with its marks counts as a word: a Chinese or Japanese word is one or two of them, a Thai word about four.

Categories follow the Unicode version of the running Python; unassigned code points of that version are symbols.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

OTHER, SPACE, SYMBOL, SPACED, UNSPACED, UNSPACED_MARK = range(6)

CODE_POINTS = 0x110000
# Characters per slice: small enough for the arrays to stay in cache, which doubles the speed.
SLICE_CHARACTERS = 1 << 17

# Characters of category P that ordinary prose does not use, and their wide forms.
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
    """The C characters of n concatenated texts, each text followed by a line break."""

    code_points: np.ndarray  # uint32 [C]
    classes: np.ndarray  # uint8 [C], character classes
    starts: np.ndarray  # int64 [n], start of each text


class WordCharacters(NamedTuple):
    """The K word characters of a text and the starts of its W words."""

    positions: np.ndarray  # int64 [K], indices into all characters
    begins: np.ndarray  # int64 [W], index into `positions` of the first character of each word


def read_characters(texts: Sequence[str]) -> Characters:
    """Returns the characters of `texts`."""
    joined = "".join(f"{text}\n" for text in texts)
    code_points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), "<u4")
    ends = np.cumsum([len(text) + 1 for text in texts], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
    return Characters(code_points, character_classes()[code_points], starts)


def find_words(classes: np.ndarray) -> WordCharacters:
    """Returns the words of characters with `classes`, uint8 [C]."""
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
    """Yields the paragraphs of `documents` in slices of at most `SLICE_CHARACTERS`, in order, with their documents.

    A longer paragraph is split, possibly inside a word. A slice has the document index of each text, and the texts.
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

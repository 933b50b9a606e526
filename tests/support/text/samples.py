"""Texts, vocabularies and comparisons shared by the tests of bert_tf.text."""

from __future__ import annotations

import functools
import itertools
import json
import string
import sys
import unicodedata
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from bert_tf.text import build_table
from bert_tf.text.tokenizer import RaggedIds, RaggedWords
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.support.text import bert_oracle

SAME_UNICODE = unicodedata.unidata_version == build_table.UNICODE_VERSION
PIECES = ("un", "##aff", "##able", "want", "##ed", "the", "cafe", "##ing", "mask", "strasse", "中", "文")

# Characters with special rules, which are rarely combined in random texts.
_NOTABLE = (
    " \t\n\r.,'-[]#$aAbBzZ09éÉßẞİıſ"
    "\0\x01\x1f\x7f\x85\xa0\xad\u200b\u200d\u2028\u2029\ufeff\ufffd\u3000"
    "ΣσςΑα\u0345ʰ·’:^"
    "\u0300\u0301\u034f\u0323\u302e\u302f\u1b44\U0001d165\U0001d16d\U0001d15e\u0f73"
    "中\u3400\uf900\U0002f800\U00020000ア한각ᄒ क़हिوﬁ½Ａ！—“…😀\U0001d400"
)


def characters() -> st.SearchStrategy[str]:
    """Any character but a surrogate, mostly a notable one."""
    notable = st.sampled_from(sorted(c for c in set(_NOTABLE) if not is_changed(c)))
    return notable | st.characters(exclude_categories=("Cs",)).filter(lambda c: not is_changed(c))


def texts() -> st.SearchStrategy[list[str]]:
    return st.lists(st.text(characters(), max_size=30), max_size=6)


@functools.cache
def _changed() -> frozenset[int]:
    if SAME_UNICODE:
        return frozenset()
    changed: set[int] = set()
    with np.load(build_table.TABLE_PATH) as arrays:
        for name, lowercase in (("uncased", True), ("cased", False)):
            shipped = arrays[f"cells_{name}"].reshape(-1, build_table.PAGE, build_table.WIDTH + 1)
            shipped = shipped[arrays[f"pages_{name}"]].reshape(build_table.CODE_POINTS, -1)
            differs = (shipped != build_table.build_cells(lowercase)).any(axis=1)
            changed.update(np.flatnonzero(differs).tolist())
    return frozenset(changed)


def is_changed(char: str) -> bool:
    """Returns True if the Unicode version of this Python treats the character differently from the table."""
    return ord(char) in _changed()


def num_changed() -> int:
    return len(_changed())


def conformance_texts() -> list[str]:
    path = Path(__file__).with_name("conformance.txt")
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line and not line.startswith("#")]


@functools.cache
def small_vocabulary() -> Vocabulary:
    """Returns pieces for every character of the normalized conformance texts, cased and uncased."""
    chars = set(string.printable) - set(string.whitespace)
    for lowercase in (True, False):
        for text in conformance_texts():
            chars.update(*bert_oracle.words(text, lowercase))
    # Omitted so that some words are unknown, including words with known first pieces.
    chars -= set("qé😀")
    pieces = dict.fromkeys([*SPECIAL_TOKENS, *PIECES])
    pieces |= dict.fromkeys(form + char for form in ("", "##") for char in sorted(chars))
    return Vocabulary(tuple(pieces))


def ids_of(vocabulary: Vocabulary) -> dict[str, int]:
    return {token: index for index, token in enumerate(vocabulary.tokens)}


def rows(ragged: RaggedIds | RaggedWords) -> list[list]:
    bounds = ragged.row_splits.tolist()
    values = ragged.values.tolist()
    return [values[first:last] for first, last in itertools.pairwise(bounds)]


def differing(texts: list[str], expected: list[list], got: list[list]) -> list[tuple]:
    """Returns the first few differences as (text, expected, got), for readable failures."""
    assert len(expected) == len(got) == len(texts)
    return [case for case in zip(texts, expected, got, strict=True) if case[1] != case[2]][:5]


def code_points() -> list[str]:
    return [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000 and not is_changed(chr(c))]

"""Builds the code point table that `bert_tf.text.normalization` reads: `python -m bert_tf.text.build_table`.

The original text cleaning (drop controls, spaces around CJK characters, lower-case, NFD, drop marks, split at
punctuation) maps each code point independently to a short sequence of code points. The table contains that sequence
for every code point. Two rules depend on neighbours, the final sigma and the order of combining marks; for them the
table contains only character classes. The table is part of the package, so that its content does not depend on the
running Python version.
"""

from __future__ import annotations

import argparse
import sys
import unicodedata
from pathlib import Path

import numpy as np

from bert_tf.config.files import staged_file

# Unicode version of Python 3.11. Released models were trained with older versions, which agree on every character
# that they contain.
UNICODE_VERSION = "14.0.0"
TABLE_PATH = Path(__file__).with_name("unicode_table.npz")

CODE_POINTS = 0x110000
PAGE = 256
WIDTH = 3

# A cell is the difference to its own code point, so that pages of similar characters are equal and stored once.
# WORD is added for a character that is a word by itself.
WORD = 1 << 22
NOTHING = 1 << 30

# Flags of a code point. MARK: a dropped mark. CASED, IGNORED: classes of the final sigma rule (ignored: case-ignorable,
# or dropped before the rule applies). BARRIER: a dropped character that marks are not reordered across. MOVABLE: a
# character that yields a mark which can be reordered.
MARK, CASED, IGNORED, BARRIER, MOVABLE = 1, 2, 4, 8, 16

_SPACE = 0x20
# Blocks of Chinese characters in the original; later extensions are not included.
_CJK_RANGES = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
_ASCII_PUNCTUATION = frozenset(b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def _is_dropped(code_point: int) -> bool:
    category = unicodedata.category(chr(code_point))
    return code_point in (0, 0xFFFD) or (category in ("Cc", "Cf") and code_point not in (0x09, 0x0A, 0x0D))


def _is_space(code_point: int) -> bool:
    # U+2028 and U+2029 are not white space in the original cleaning, but `str.split` splits words at them.
    return code_point in (0x09, 0x0A, 0x0D) or unicodedata.category(chr(code_point)) in ("Zs", "Zl", "Zp")


def _is_punctuation(code_point: int) -> bool:
    return code_point in _ASCII_PUNCTUATION or unicodedata.category(chr(code_point)).startswith("P")


def _sequence(code_point: int, lowercase: bool) -> list[int]:
    """Returns the sequence that a code point maps to, with `WORD` added to each character that is a word by itself."""
    if _is_dropped(code_point):
        return []
    if _is_space(code_point):
        return [_SPACE]
    text = chr(code_point)
    if lowercase:
        text = unicodedata.normalize("NFD", text.lower())
        text = "".join(char for char in text if unicodedata.category(char) != "Mn")
    is_cjk = any(first <= code_point <= last for first, last in _CJK_RANGES)
    return [ord(char) + WORD * (is_cjk or _is_punctuation(ord(char))) for char in text]


def _flags(code_point: int) -> int:
    """Returns the flags of a code point, derived from `str.lower` and NFD of the running Python."""
    char = chr(code_point)
    if _is_dropped(code_point):
        return IGNORED
    # A sigma is final if it follows a cased letter and no cased letter follows it; case-ignorable characters in
    # between are skipped.
    flags = 0
    if ("AΣ" + char).lower()[1] == "σ":
        flags = CASED
    elif ("AΣ" + char + "A").lower()[1] == "σ":
        flags = IGNORED
    marks = unicodedata.normalize("NFD", char.lower())
    classes = [unicodedata.combining(mark) for mark in marks]
    if all(unicodedata.category(mark) == "Mn" for mark in marks):
        return flags | MARK | (BARRIER if 0 in classes else 0)
    movable = any(c and unicodedata.category(m) != "Mn" for m, c in zip(marks, classes, strict=True))
    return flags | (MOVABLE if movable else 0)


def _deduplicate_pages(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the index of each page's content, and the concatenated distinct contents."""
    pages = cells.reshape(-1, PAGE * cells.shape[1])
    distinct, numbers = np.unique(pages, axis=0, return_inverse=True)
    return numbers.reshape(-1).astype(np.int32), distinct.reshape(-1, cells.shape[1])


def build_cells(lowercase: bool) -> np.ndarray:
    """Builds the cells of every code point, int32 [0x110000, WIDTH + 1]: its sequence, then its flags (0 if cased)."""
    cells = np.full((CODE_POINTS, WIDTH + 1), NOTHING, np.int32)
    for code_point in range(CODE_POINTS):
        sequence = _sequence(code_point, lowercase)
        if len(sequence) > WIDTH:
            raise ValueError(f"U+{code_point:04X}: at most {WIDTH} code points fit. Received: {len(sequence)}")
        for position, value in enumerate(sequence):
            cells[code_point, position] = value - code_point
        cells[code_point, WIDTH] = _flags(code_point) if lowercase else 0
    return cells


def build_arrays() -> dict[str, np.ndarray]:
    """Builds the arrays of the table file by name; `*` is `uncased` and `cased`.

    `pages_*` int32 [0x1100]: page index of each block of 256 code points. `cells_*` int32 [n, 4]: the concatenated
    pages. `movable` int32 [m, 2]: code points of the marks that are kept and can be reordered in NFD, ascending, with
    their combining class. Raises ValueError if the Unicode version of the running Python differs from
    `UNICODE_VERSION`.
    """
    if unicodedata.unidata_version != UNICODE_VERSION:
        raise ValueError(
            f"the table requires Unicode {UNICODE_VERSION} (Python 3.11). Received: {unicodedata.unidata_version}"
        )
    arrays = {"unicode_version": np.array(UNICODE_VERSION)}
    for name, lowercase in (("uncased", True), ("cased", False)):
        arrays[f"pages_{name}"], arrays[f"cells_{name}"] = _deduplicate_pages(build_cells(lowercase))
    classes = [(c, unicodedata.combining(chr(c))) for c in range(CODE_POINTS)]
    arrays["movable"] = np.array(
        [(c, order) for c, order in classes if order and unicodedata.category(chr(c)) != "Mn"], np.int32
    )
    return arrays


def main(argv: list[str] | None = None) -> None:
    """Writes the table file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument(
        "--output", type=Path, default=TABLE_PATH, help="output .npz file; default: the table of the package"
    )
    output = parser.parse_args(argv).output
    with staged_file(output) as file:
        np.savez_compressed(file, **build_arrays())  # type: ignore[arg-type]
    print(f"{output}: {output.stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()

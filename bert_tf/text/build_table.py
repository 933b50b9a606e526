"""Builds the table of code points that `bert_tf.text.normalization` reads: `python -m bert_tf.text.build_table`.

The published cleaning (drop controls, spaces around CJK characters, lower-case, NFD, drop marks, split at
punctuation) maps every code point by itself to a short sequence of code points. The table holds that sequence
for all of them. What depends on neighbours is not in it but classed for it: the final sigma and the order of
combining marks. The table is shipped built, because its content must not follow the Python that runs.
"""

from __future__ import annotations

import argparse
import sys
import unicodedata
from pathlib import Path

import numpy as np

# The version of the tables of Python 3.11: released models were trained with older ones, which agree on
# every character those could know.
UNICODE_VERSION = "14.0.0"
TABLE_PATH = Path(__file__).with_name("unicode_table.npz")

CODE_POINTS = 0x110000
PAGE = 256
WIDTH = 3

# Of a cell: the difference to the code point it stands under, so that pages of alike characters are equal and
# stored once. Added to it: WORD for a character that is a word of its own.
WORD = 1 << 22
NOTHING = 1 << 30

# Of a code point: a mark that is dropped; the two classes of the final sigma rule (ignored: case-ignorable or
# dropped before the rule is applied); a dropped character across which marks do not change places; one that
# leaves a mark which can.
MARK, CASED, IGNORED, BARRIER, MOVABLE = 1, 2, 4, 8, 16

_SPACE = 0x20
# The blocks that the original calls Chinese characters; later extensions are not among them.
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
    # U+2028 and U+2029 are no white space to the original's cleaning but separate words in `str.split`.
    return code_point in (0x09, 0x0A, 0x0D) or unicodedata.category(chr(code_point)) in ("Zs", "Zl", "Zp")


def _is_punctuation(code_point: int) -> bool:
    return code_point in _ASCII_PUNCTUATION or unicodedata.category(chr(code_point)).startswith("P")


def _sequence(code_point: int, lowercase: bool) -> list[int]:
    """Returns what the algorithm makes of one code point, `WORD` added to each that stands alone."""
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
    """Returns the classes of one code point, as `str.lower` and NFD of the running Python show them."""
    char = chr(code_point)
    if _is_dropped(code_point):
        return IGNORED
    # A sigma is final when a cased letter stands before it and none after it; case-ignorable characters in
    # between do not count.
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


def _paged(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the number of each page's content, and the distinct contents one after the other."""
    pages = cells.reshape(-1, PAGE * cells.shape[1])
    distinct, numbers = np.unique(pages, axis=0, return_inverse=True)
    return numbers.reshape(-1).astype(np.int32), distinct.reshape(-1, cells.shape[1])


def build_cells(lowercase: bool) -> np.ndarray:
    """Returns the cells of every code point, int32 [0x110000, WIDTH + 1]: the sequence, then the flags.

    Args:
        lowercase: whether the sequence is lower-cased and stripped of accents; without it the flags are zero,
            because nothing depends on neighbours then.

    Raises:
        ValueError: when some sequence is longer than `WIDTH`.
    """
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
    """Returns the arrays of the table file, by name.

    `pages_*` int32 [0x1100]: the number of the page that holds 256 code points. `cells_*` int32 [n, 4]: the
    pages one after the other. `*` is `uncased` and `cased`. `movable` int32 [m, 2]: the code points of marks
    that stay and can change places in NFD, ascending, with their combining class.

    Raises:
        ValueError: when this Python's Unicode tables are of another version.
    """
    if unicodedata.unidata_version != UNICODE_VERSION:
        raise ValueError(
            f"the table is built from Unicode {UNICODE_VERSION} (Python 3.11). Received: {unicodedata.unidata_version}"
        )
    arrays = {"unicode_version": np.array(UNICODE_VERSION)}
    for name, lowercase in (("uncased", True), ("cased", False)):
        arrays[f"pages_{name}"], arrays[f"cells_{name}"] = _paged(build_cells(lowercase))
    classes = [(c, unicodedata.combining(chr(c))) for c in range(CODE_POINTS)]
    arrays["movable"] = np.array(
        [(c, order) for c, order in classes if order and unicodedata.category(chr(c)) != "Mn"], np.int32
    )
    return arrays


def main(argv: list[str] | None = None) -> None:
    """Writes the table file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("--output", type=Path, default=TABLE_PATH, help="the .npz file to write")
    output = parser.parse_args(argv).output
    staging = output.with_name(f".{output.stem}.tmp.npz")
    np.savez_compressed(staging, **build_arrays())  # type: ignore[arg-type]
    staging.replace(output)
    print(f"{output}: {output.stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()

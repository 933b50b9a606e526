"""Files with a word and its tag a line: CoNLL-2003, WNUT, WikiANN and the like.

A line has columns with a tab between, or with spaces where the first word's line has no tab; all words have as many.
Lines of nothing but spaces and tabs end a sentence, `-DOCSTART-` ends a document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.ner.tags import OUTSIDE, is_tag

DOCUMENT_START = "-DOCSTART-"
# WikiANN's words are `en:Paris`; some of its languages have names such as `zh-min-nan`.
_LANGUAGE = re.compile(r"[a-z]{2,8}(?:-[a-z]+)*:")
_COMMENT, _ID = "# ", "# id "


@dataclass(frozen=True)
class Columns:
    """Which columns are read; negative ones count from the last, -1.

    Args:
        token: the word.
        tag: its tag.
    """

    token: int = 0
    tag: int = -1


@dataclass(frozen=True)
class Sentence:
    """Words with what stands beside them.

    Args:
        path: the file.
        line: line of the first word; those of the others follow.
        words: without a language's prefix.
        tags: as many, as the file has them; () where they were not to be read.
        written: the line of each word as predictions have it, before the predicted tag: all columns, then that of the
            tag where it is not the last.
        separator: what stands between columns.
        before: the lines between this sentence and the one before, as predictions have them.
        after: those between this sentence and the end, of the last one.
        document: the words of all sentences that are context to one another, this one's among them.
        number: which of them this one is.
    """

    path: Path
    line: int
    words: tuple[str, ...]
    tags: tuple[str, ...]
    written: tuple[str, ...]
    separator: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    document: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    number: int = 0

    @property
    def place(self) -> str:
        """File and line."""
        return self.place_of(0)

    @property
    def begins_document(self) -> bool:
        """Whether a document begins between this sentence and the one before."""
        return any(DOCUMENT_START in line for line in self.before)

    def place_of(self, word: int) -> str:
        """Returns file and line of a word."""
        return f"{self.path}: line {self.line + word}"


@dataclass(frozen=True)
class _Layout:
    """What all lines of a file have in common.

    Args:
        first: number of the line that shows it.
        separator: a tab or a space.
        width: columns of a line.
        token: which is the word.
        tag: which is the tag; None where there is none.
        prefixed: whether every word begins with the name of a language.
    """

    first: int
    separator: str
    width: int
    token: int
    tag: int | None
    prefixed: bool

    def is_comment(self, line: str, labelled: bool) -> bool:
        """Tells whether a sentence's first line is none of its words.

        `#` is a word like any other, most of all on Twitter: only what cannot be a word's line, or names the sentence's
        id, is a comment.
        """
        if not line.startswith(_COMMENT):
            return False
        cells = cells_of(line, self.separator)
        strange = len(cells) != self.width or (labelled and self.tag is not None and not is_tag(cells[self.tag]))
        return strange or line.startswith(_ID)

    def written(self, cells: Sequence[str]) -> str:
        """Returns a line as predictions have it, before the predicted tag, which follows the right one."""
        again = [] if self.tag is None or self.tag == self.width - 1 else [cells[self.tag]]
        return self.separator.join([*cells, *again])

    def document_start(self, line: str) -> str:
        """Returns a line that begins a document, with as many columns as words have in predictions."""
        cells = cells_of(line, self.separator)
        cells += [OUTSIDE] * (self.width - len(cells))
        return f"{self.written(cells)}{self.separator}{OUTSIDE}"


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the lines of a UTF-8 file by number, from 1, without what ends them or a byte order mark.

    Raises:
        ValueError: naming file and line, for bytes that are not UTF-8.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"{path}: line {number}: not UTF-8: {error}") from error
            yield number, text.removesuffix("\n").removesuffix("\r")


def is_blank(line: str) -> bool:
    """Tells whether a line ends a sentence."""
    return not line.strip(" \t")


def cells_of(line: str, separator: str) -> list[str]:
    """Returns the columns of a line; one that is empty between two tabs is a column too."""
    if separator == "\t":
        return [cell.strip(" ") for cell in line.split("\t")]
    return re.split(r"[ \t]+", line.strip(" \t"))


def read_columns(path: Path, columns: Columns, input_errors: InputErrors, labelled: bool) -> Iterator[Sentence]:
    """Reads sentences, one by one.

    Args:
        path: the file, UTF-8.
        columns: where word and tag are.
        problems: takes words of another number of columns, or of something else than a tag where one must be; the whole
            sentence is left out.
        labelled: whether there must be tags.

    Yields:
        The sentences; `document` is the sentence alone.

    Raises:
        ValueError: naming file and line, for bytes that are not UTF-8, columns that are not there, and what `problems`
            does not skip.
    """
    layout = _layout(path, columns, labelled)
    if layout is None:
        return
    held: Sentence | None = None
    gap: list[str] = []
    for between, rows in _blocks(path, layout, labelled):
        gap += between
        sentence = _sentence(path, layout, rows, tuple(gap), input_errors, labelled) if rows else None
        if sentence is None:
            continue
        if held:
            yield held
        held, gap = sentence, []
    if held:
        yield replace(held, after=tuple(gap))


def _blocks(path: Path, layout: _Layout, labelled: bool) -> Iterator[tuple[list[str], list[tuple[int, list[str]]]]]:
    """Yields lines between sentences, as predictions have them, then a sentence: number and columns of its lines."""
    gap: list[str] = []
    rows: list[tuple[int, list[str]]] = []
    for number, line in lines_of(path):
        blank, document = is_blank(line), _is_document_start(line, layout.separator)
        if not blank and not document and (rows or not layout.is_comment(line, labelled)):
            rows.append((number, cells_of(line, layout.separator)))
            continue
        if rows:
            yield gap, rows
            gap, rows = [], []
        gap.append("" if blank else layout.document_start(line) if document else line)
    yield gap, rows


def _sentence(
    path: Path,
    layout: _Layout,
    rows: Sequence[tuple[int, list[str]]],
    before: tuple[str, ...],
    input_errors: InputErrors,
    labelled: bool,
) -> Sentence | None:
    """Returns the sentence of some lines; None where one of them is faulty."""
    faults = 0
    for number, cells in rows:
        place = f"{path}: line {number}"
        if len(cells) != layout.width:
            faults += 1
            input_errors.add(place, f"expected {layout.width} columns, as in line {layout.first}. Received: {cells}")
        elif labelled and layout.tag is not None and not is_tag(cells[layout.tag]):
            faults += 1
            input_errors.add(
                place,
                f"column {layout.tag}, counted from 0, must be a tag: O, or B-, I-, E- or S- with a type. "
                f"Received: {cells[layout.tag]!r}",
            )
    if faults:
        return None
    words = tuple(_word(cells[layout.token], layout.prefixed) for _, cells in rows)
    tags = tuple(cells[layout.tag] for _, cells in rows) if labelled and layout.tag is not None else ()
    written = tuple(layout.written(cells) for _, cells in rows)
    return Sentence(path, rows[0][0], words, tags, written, layout.separator, before, (), (words,))


def _word(cell: str, prefixed: bool) -> str:
    return cell.partition(":")[2] if prefixed else cell


def _is_document_start(line: str, separator: str) -> bool:
    return DOCUMENT_START in line and DOCUMENT_START in cells_of(line, separator)


def _layout(path: Path, columns: Columns, labelled: bool) -> _Layout | None:
    """Returns the layout of a file, by its first word; None where there is no word."""
    first = _first_word(path)
    if first is None:
        return None
    number, line = first
    separator = "\t" if "\t" in line.rstrip(" \t") else " "
    width = len(cells_of(line, separator))
    token, tag = (index + width if index < 0 else index for index in (columns.token, columns.tag))
    place = f"{path}: line {number}"
    if not 0 <= token < width:
        raise ValueError(f"{place}: no column {columns.token} of words. Received: {width} column(s): {line!r}")
    has_tag = 0 <= tag < width and tag != token
    if labelled and not has_tag:
        raise ValueError(f"{place}: no column {columns.tag} of tags. Received: {width} column(s): {line!r}")
    return _Layout(
        number, separator, width, token, tag if has_tag else None, _is_prefixed(path, separator, token, number)
    )


def _first_word(path: Path) -> tuple[int, str] | None:
    """Returns number and text of the first line of a word; of one like a comment where there is no other."""
    doubtful = None
    for number, line in lines_of(path):
        if is_blank(line) or DOCUMENT_START in line:
            continue
        if not line.startswith(_COMMENT):
            return number, line
        doubtful = doubtful or (number, line)
    return doubtful


def _is_prefixed(path: Path, separator: str, token: int, first: int) -> bool:
    """Tells whether every word of a file begins with the name of a language, which no text does."""
    for number, line in lines_of(path):
        if number < first or is_blank(line):
            continue
        cells = cells_of(line, separator)
        if token < len(cells) and not _LANGUAGE.match(cells[token]):
            return False
    return True

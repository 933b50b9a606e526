"""Column files with one word and its tag on each line: CoNLL-2003, WNUT, WikiANN and others; and predicted tags.

Columns are separated by tabs, or by spaces if the line of the first word has no tab. All words have the same number of
columns. A blank line (only spaces and tabs) ends a sentence, `-DOCSTART-` begins a document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bert_tf.encoding.tags import OUTSIDE, is_tag
from bert_tf.encoding.words import DOCUMENT_START, Sentence
from bert_tf.tasks.classify.files import lines_of
from bert_tf.tasks.input_errors import InputErrors

# WikiANN's words have a language prefix (`en:Paris`); some language names have hyphens (`zh-min-nan`).
_LANGUAGE = re.compile(r"[a-z]{2,8}(?:-[a-z]+)*:")
_COMMENT, _ID = "# ", "# id "


@dataclass(frozen=True)
class _Layout:
    """Layout of all lines of a file, read from line `first`: number of columns (`width`), and columns of word and tag.

    `tag` is None if absent; `prefixed` if every word has a language prefix.
    """

    first: int
    separator: str
    width: int
    token: int
    tag: int | None
    prefixed: bool

    def is_comment(self, line: str, labelled: bool) -> bool:
        """Returns True if the first line of a sentence is a comment.

        `#` may also be a word. A comment cannot be the line of a word, or it states the sentence's id.
        """
        if not line.startswith(_COMMENT):
            return False
        return line.startswith(_ID) or bool(self.fault(cells_of(line, self.separator), labelled))

    def fault(self, cells: Sequence[str], labelled: bool) -> str:
        """Returns the error message of a word's columns; "" if they are valid."""
        if len(cells) != self.width:
            return f"expected {self.width} columns, as in line {self.first}. Received: {cells}"
        if labelled and self.tag is not None and not is_tag(cells[self.tag]):
            return (
                f"column {self.tag}, counted from 0, must be a tag: O, or B-, I-, E- or S- with a type. "
                f"Received: {cells[self.tag]!r}"
            )
        return ""

    def written(self, cells: Sequence[str]) -> str:
        """Returns the output line of a word without the predicted tag, which follows the gold tag."""
        gold = [] if self.tag is None or self.tag == self.width - 1 else [cells[self.tag]]
        return self.separator.join([*cells, *gold])

    def document_start(self, line: str) -> str:
        """Returns the output line that begins a document, with the same number of columns as words."""
        cells = cells_of(line, self.separator)
        cells += [OUTSIDE] * (self.width - len(cells))
        return f"{self.written(cells)}{self.separator}{OUTSIDE}"


def is_blank(line: str) -> bool:
    """Returns True if a line ends a sentence."""
    return not line.strip(" \t")


def cells_of(line: str, separator: str) -> list[str]:
    """Returns the columns of a line, including empty ones between two tabs."""
    if separator == "\t":
        return [cell.strip(" ") for cell in line.split("\t")]
    return re.split(r"[ \t]+", line.strip(" \t"))


def read_columns(
    path: Path, token_column: int, tag_column: int, input_errors: InputErrors, labelled: bool
) -> Iterator[Sentence]:
    """Yields the sentences of a UTF-8 file one by one; `document` contains only the sentence itself.

    Words with another number of columns or an invalid tag are added to `input_errors`; the whole sentence is skipped.
    Raises ValueError, with file and line, for bytes that are not UTF-8 and missing columns.
    """
    layout = _layout(path, token_column, tag_column, labelled)
    if layout is None:
        return
    pending: Sentence | None = None
    gap: list[str] = []
    for between, rows in _blocks(path, layout, labelled):
        gap += between
        sentence = _sentence(path, layout, rows, tuple(gap), input_errors, labelled) if rows else None
        if sentence is None:
            continue
        if pending:
            yield pending
        pending, gap = sentence, []
    if pending:
        yield replace(pending, after=tuple(gap))


def _blocks(path: Path, layout: _Layout, labelled: bool) -> Iterator[tuple[list[str], list[tuple[int, list[str]]]]]:
    """Yields the output lines between sentences with the next sentence: number and columns of each line."""
    gap: list[str] = []
    rows: list[tuple[int, list[str]]] = []
    for number, line in lines_of(path):
        # A number may follow, also in a file with tabs.
        blank, document = is_blank(line), DOCUMENT_START in line and DOCUMENT_START in line.split()
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
    """Returns the sentence of some lines; None if one of them is faulty."""
    faults = [(number, fault) for number, cells in rows if (fault := layout.fault(cells, labelled))]
    for number, fault in faults:
        input_errors.add(f"{path}: line {number}", fault)
    if faults:
        return None
    words = tuple(cells[layout.token] for _, cells in rows)
    if layout.prefixed:
        words = tuple(word.partition(":")[2] for word in words)
    tags = tuple(cells[layout.tag] for _, cells in rows) if labelled and layout.tag is not None else ()
    written = tuple(layout.written(cells) for _, cells in rows)
    return Sentence(path, rows[0][0], words, tags, written, layout.separator, before, (), (words,))


def _layout(path: Path, token_column: int, tag_column: int, labelled: bool) -> _Layout | None:
    """Returns the layout of a file from its first word; None if the file has no words."""
    first = _first_word(path)
    if first is None:
        return None
    number, line = first
    separator = "\t" if "\t" in line.rstrip(" \t") else " "
    width = len(cells_of(line, separator))
    token, tag = (index + width if index < 0 else index for index in (token_column, tag_column))
    place = f"{path}: line {number}"
    if not 0 <= token < width:
        raise ValueError(f"{place}: no column {token_column} for words. Received: {width} column(s): {line!r}")
    has_tag = 0 <= tag < width and tag != token
    if labelled and not has_tag:
        raise ValueError(f"{place}: no column {tag_column} for tags. Received: {width} column(s): {line!r}")
    return _Layout(
        number, separator, width, token, tag if has_tag else None, _is_prefixed(path, separator, token, number)
    )


def _first_word(path: Path) -> tuple[int, str] | None:
    """Returns number and text of the first word's line; falls back to a line like a comment if there is no other."""
    doubtful = None
    for number, line in lines_of(path):
        if is_blank(line) or DOCUMENT_START in line:
            continue
        if not line.startswith(_COMMENT):
            return number, line
        doubtful = doubtful or (number, line)
    return doubtful


def _is_prefixed(path: Path, separator: str, token: int, first: int) -> bool:
    """Returns True if every word of a file has a language prefix, which does not happen in plain text."""
    for number, line in lines_of(path):
        if number < first or is_blank(line):
            continue
        cells = cells_of(line, separator)
        if token < len(cells) and not _LANGUAGE.match(cells[token]):
            return False
    return True


def read_tags(path: Path, sentences: Sequence[Sentence], token_column: int) -> list[tuple[str, ...]]:
    """Reads the predicted tags of each sentence from the last column of a file of any program.

    The file has all columns of the gold file and one more, or fewer columns. Words in `token_column` must match
    `sentences`; negative columns are not compared. Raises ValueError, with file and line, for a missing, additional or
    different word, and for an invalid tag.
    """
    lines = _word_lines(path, sentences)
    predicted = []
    for sentence in sentences:
        tags = []
        for word, line in enumerate(sentence.written):
            number, cells = next(lines, (0, []))
            expected = f"{sentence.words[word]!r}, the word at {sentence.place_of(word)}"
            if not number:
                raise ValueError(f"{path}: must continue with {expected}. Received: the end of the file")
            place = f"{path}: line {number}"
            if len(cells) < 2 or not is_tag(cells[-1]):
                raise ValueError(
                    f"{place}: the last of several columns must be a tag: O, or B-, I-, E- or S- with a type. "
                    f"Received: {cells}"
                )
            as_read = cells_of(line, sentence.separator)[token_column]
            if token_column >= 0 and cells[token_column] not in (as_read, sentence.words[word]):
                raise ValueError(f"{place}: column {token_column} must be {expected}. Received: {cells}")
            tags.append(cells[-1])
        predicted.append(tuple(tags))
    for number, cells in lines:
        raise ValueError(f"{path}: line {number}: must be the end of the file: all words have a tag. Received: {cells}")
    return predicted


def _word_lines(path: Path, sentences: Sequence[Sentence]) -> Iterator[tuple[int, list[str]]]:
    """Yields line number and columns of each word."""
    between = {line for sentence in sentences for line in (*sentence.before, *sentence.after)}
    for number, line in lines_of(path):
        if is_blank(line) or DOCUMENT_START in line or line in between:
            continue
        yield number, cells_of(line, "\t" if "\t" in line else " ")

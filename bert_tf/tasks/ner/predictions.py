"""Reads predicted tags from column files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bert_tf.tasks.classify.files import lines_of
from bert_tf.tasks.ner.files import DOCUMENT_START, Sentence, cells_of, is_blank
from bert_tf.tasks.ner.tags import is_tag


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

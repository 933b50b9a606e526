"""Predicted tags in a file of columns, beside the words that they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bert_tf.tasks.ner.files import DOCUMENT_START, Sentence, cells_of, is_blank, lines_of
from bert_tf.tasks.ner.tags import is_tag


def read_tags(path: Path, sentences: Sequence[Sentence], token_column: int) -> list[tuple[str, ...]]:
    """Reads the last column of the lines of words.

    Args:
        path: of any program: all columns of the file with the right answers and one more, or fewer columns.
        sentences: those of the file with the right answers.
        token_column: of the words, which must be those of `sentences`; not compared where it counts from the last.

    Returns:
        The tags of every sentence.

    Raises:
        ValueError: naming file and line, for a word that is missing, too many or another one, and for what is no tag.
    """
    lines = _word_lines(path, sentences)
    found = []
    for sentence in sentences:
        tags = []
        for word, line in enumerate(sentence.written):
            number, cells = next(lines, (0, []))
            expected = f"{sentence.words[word]!r}, the word at {sentence.place_of(word)}"
            if not number:
                raise ValueError(f"{path}: must go on with {expected}. Received: the end of the file")
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
        found.append(tuple(tags))
    for number, cells in lines:
        raise ValueError(f"{path}: line {number}: must be the end, all words have a tag. Received: {cells}")
    return found


def _word_lines(path: Path, sentences: Sequence[Sentence]) -> Iterator[tuple[int, list[str]]]:
    """Yields number and columns of every line of a word."""
    between = {line for sentence in sentences for line in (*sentence.before, *sentence.after)}
    for number, line in lines_of(path):
        if is_blank(line) or DOCUMENT_START in line or line in between:
            continue
        yield number, cells_of(line, "\t" if "\t" in line else " ")

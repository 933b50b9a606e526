"""Writes contextual embeddings of a file's texts, for use in other programs.

Without a task, a file has one text on each line, and texts longer than a row are split into several rows.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config import local_path
from bert_tf.config.features import combination
from bert_tf.config.files import staged_file
from bert_tf.encoding.rows import EncodedRows
from bert_tf.encoding.texts import TextExample
from bert_tf.models import load_backbone
from bert_tf.tasks.base import Task
from bert_tf.tasks.classify.files import lines_of
from bert_tf.tasks.features.cache import INDEX_NAME, FeatureFolder, extract
from bert_tf.tasks.features.rows import token_extraction
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.text.byte_pairs import tokenizer_of
from bert_tf.text.tokenizer import TextTokenizer


@dataclass(frozen=True)
class TokenWindow:
    """The part of a text in one row, by the word piece after [CLS].

    `keep` are start and end (exclusive) of tokens with at least as much context as in any other row of the text.
    """

    first: int
    keep: tuple[int, int]


@dataclass(frozen=True)
class Embedded:
    """Result of `embed_file`: the features, and the number of texts, or of examples of a task."""

    folder: FeatureFolder
    examples: int


def embed_file(
    preset: str | Path,
    path: str | Path,
    layers: Sequence[str],
    output: str | Path,
    *,
    task: Task | None = None,
    max_sequence_length: int | None = None,
    input_errors: InputErrors | None = None,
) -> Embedded:
    """Writes the outputs of an encoder's layers for each token of a file.

    The file has one text on each line, or is one of `task`. `layers` are names of layers, or of combinations
    (`config.features`), all of whose layers are written; only missing layers are computed. Rows have at most
    `max_sequence_length` tokens, the model's positions by default. A longer text is split into rows that overlap by
    half; a task encodes longer examples in its own way. `input_errors` of None raises errors of the file.

    Raises ConfigError for unknown layers and the errors of `cache.extract`, and ValueError for a task of multiple
    choice.
    """
    path, output = local_path(path), local_path(output)
    source = load_backbone(preset)
    chosen = dict.fromkeys(layer for name in layers for layer in combination(name, source.config.num_layers).layers)
    positions = source.config.max_sequence_length
    length = max_sequence_length or positions
    if length > positions:
        raise ValueError(f"`max_sequence_length` must not exceed the model's {positions} positions. Received: {length}")
    tokenizer = tokenizer_of(source.vocabulary, source.lowercase)
    input_errors = InputErrors() if input_errors is None else input_errors
    read = task.read(path, input_errors, labelled=False) if task else read_lines(path, input_errors)
    examples: list[Any] = list(read)
    if not examples:
        raise ValueError(f"{path}: no texts.")
    kept: list[TokenWindow] = []
    if task:
        rows = task.encode(examples, tokenizer, length, labelled=False)
    else:
        rows, kept = encode_lines(examples, tokenizer, length)
    if rows.choices > 1:
        raise ValueError(
            f"{path}: features do not support multiple choice. Received: {rows.choices} choices an example"
        )
    folder = extract(token_extraction(source.model, tuple(chosen)), rows, output)
    _write_index(output / INDEX_NAME, rows, examples, kept, tokenizer)
    return Embedded(folder, len(examples))


def _write_index(
    path: Path, rows: EncodedRows, examples: Sequence[Any], kept: Sequence[TokenWindow], tokenizer: TextTokenizer
) -> None:
    """Writes one line for each row: its example, place, token offsets, tokens, and its window of the text."""
    with staged_file(path) as file:
        for number, (begin, end) in enumerate(itertools.pairwise(rows.row_splits.tolist())):
            example = int(rows.examples[number])
            line = {
                "example": example,
                "place": examples[example].place,
                "begin": begin,
                "end": end,
                "tokens": tokenizer.tokens(rows.token_ids[begin:end]),
                **(asdict(kept[number]) if kept else {}),
            }
            file.write((json.dumps(line, ensure_ascii=False) + "\n").encode())


def read_lines(path: Path, input_errors: InputErrors) -> Iterator[TextExample]:
    """Yields one text from each line of a UTF-8 file (others raise ValueError); an empty line is an input error."""
    for number, text in lines_of(path):
        place = f"{path}: line {number}"
        if text.strip():
            yield TextExample(place, (text.rstrip("\r"),))
        else:
            input_errors.add(place, "a text must not be empty. Received: an empty line")


def windows(length: int, most: int) -> list[TokenWindow]:
    """Splits a text of `length` word pieces into windows of up to `most` (at least 2) that overlap by half."""
    stride = most // 2
    firsts = [0, *range(stride, length - most, stride), length - most] if length > most else [0]
    ends = [min(first + most, length) for first in firsts]
    # In the middle of an overlap, both rows have the same context.
    borders = [0, *((after + end + 1) // 2 for after, end in zip(firsts[1:], ends[:-1], strict=True)), length]
    return [
        TokenWindow(first, (borders[number] - first + 1, borders[number + 1] - first + 1))
        for number, first in enumerate(firsts)
    ]


def encode_lines(
    lines: Sequence[TextExample], tokenizer: TextTokenizer, length: int
) -> tuple[EncodedRows, list[TokenWindow]]:
    """Returns rows of `[CLS] pieces [SEP]`, and their windows. Raises ValueError if `length` is less than 4."""
    if length < 4:
        raise ValueError(f"`max_sequence_length` must be at least 4. Received: {length}")
    texts = tokenizer.tokenize([line.texts[0] for line in lines])
    vocabulary = tokenizer.vocabulary
    tokens, kept, examples = [], [], []
    for number, pieces in enumerate(texts):
        for window in windows(len(pieces), length - 2):
            part = pieces[window.first : window.first + length - 2]
            tokens.append(np.concatenate([[vocabulary.cls_id], part, [vocabulary.sep_id]]))
            kept.append(window)
            examples.append(number)
    lengths = np.array([len(row) for row in tokens], np.int64)
    rows = EncodedRows(
        token_ids=np.concatenate(tokens).astype(np.int32),
        row_splits=np.concatenate([[0], np.cumsum(lengths)]),
        first_lengths=lengths.astype(np.int32),
        pad_id=vocabulary.pad_id,
        examples=np.array(examples, np.int64),
    )
    return rows, kept

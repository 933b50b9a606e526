"""Writes contextual embeddings of a file's texts, for use in other programs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bert_tf.config import local_path
from bert_tf.config.features import combination
from bert_tf.config.files import staged_file
from bert_tf.models import load_backbone
from bert_tf.tasks.base import Task
from bert_tf.tasks.features.cache import INDEX_NAME, FeatureFolder, extract
from bert_tf.tasks.features.lines import Window, encode_lines, read_lines
from bert_tf.tasks.features.rows import token_extraction
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.rows import EncodedRows
from bert_tf.text.tokenizer import BertTokenizer


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

    Args:
        preset: a preset of any kind.
        path: a file with one text on each line, or a file of `task`.
        layers: names of layers, or of combinations (`config.features`), all of whose layers are written.
        output: as in `cache.extract`; only missing layers are computed.
        task: task that reads and encodes the file; None reads one text a line.
        max_sequence_length: maximum tokens of a row; None uses the model's positions. Without a task, a longer text is
            split into rows that overlap by half; a task encodes longer examples in its own way.
        input_errors: collects errors of the file; None raises them.

    Raises:
        ConfigError: for errors of `cache.extract`, and for unknown layers.
        ValueError: for an error in the file, with file and line; for a task of multiple choice; and for features
            outside of float16's range.
    """
    path, output = local_path(path), local_path(output)
    source = load_backbone(preset)
    chosen = dict.fromkeys(layer for name in layers for layer in combination(name, source.config.num_layers).layers)
    positions = source.config.max_sequence_length
    length = max_sequence_length or positions
    if length > positions:
        raise ValueError(f"`max_sequence_length` must not exceed the model's {positions} positions. Received: {length}")
    tokenizer = BertTokenizer(source.vocabulary, source.lowercase)
    input_errors = InputErrors() if input_errors is None else input_errors
    windows: list[Window] | None = None
    if task is None:
        examples: list[Any] = list(read_lines(path, input_errors))
    else:
        examples = list(task.read(path, input_errors, labelled=False))
    if not examples:
        raise ValueError(f"{path}: no texts.")
    if task is None:
        rows, windows = encode_lines(examples, tokenizer, length)
    else:
        rows = task.encode(examples, tokenizer, length, labelled=False)
    if rows.choices > 1:
        raise ValueError(
            f"{path}: features do not support multiple choice. Received: {rows.choices} choices an example"
        )
    folder = extract(token_extraction(source.model, tuple(chosen)), rows, output)
    _write_index(output / INDEX_NAME, rows, examples, windows, tokenizer)
    return Embedded(folder, len(examples))


def _write_index(
    path: Path, rows: EncodedRows, examples: Sequence[Any], windows: Sequence[Window] | None, tokenizer: BertTokenizer
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
                **(asdict(windows[number]) if windows else {}),
            }
            file.write((json.dumps(line, ensure_ascii=False) + "\n").encode())

"""Contextual embeddings of a file's texts, for use outside of this project."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bert_tf.config import local_path
from bert_tf.config.features import combination
from bert_tf.data.atomic_files import staged_file
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
    """What `embed_file` gave.

    Args:
        folder: the features.
        examples: how many texts, or examples of a task, were read.
    """

    folder: FeatureFolder
    examples: int


def embed_file(
    preset: str | Path,
    path: str | Path,
    layers: Sequence[str],
    output: str | Path,
    *,
    task: Task | None = None,
    length: int | None = None,
    input_errors: InputErrors | None = None,
) -> Embedded:
    """Writes what some layers of an encoder give for every token of a file.

    Args:
        preset: of any kind.
        path: a text a line; or a file of `task`.
        layers: names of layers, or of combinations (`config.features`), all of whose layers are written.
        output: new, empty, or of the same texts and encoder: then, only layers that are not there yet are computed.
        task: how the file is read, and its examples are put into rows.
        length: tokens of a row at most; None takes the model's positions. A text that is longer goes into several rows,
            each of which overlaps with the next by half; what a task makes of it is its own affair.
        problems: takes faults of the file; None refuses them.

    Raises:
        ValueError: naming file and line; as `feature_folder.extract` does; for a file of several choices an example.
    """
    path, output = local_path(path), local_path(output)
    source = load_backbone(preset)
    chosen = dict.fromkeys(layer for name in layers for layer in combination(name, source.config.num_layers).layers)
    positions = source.config.max_sequence_length
    length = length or positions
    if length > positions:
        raise ValueError(f"`max_seq_length` must not exceed the model's {positions} positions. Received: {length}")
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
        raise ValueError(f"{path}: features are of rows of one choice. Received: {rows.choices} choices an example")
    folder = extract(token_extraction(source.model, tuple(chosen)), rows, output)
    _write_index(output / INDEX_NAME, rows, examples, windows, tokenizer)
    return Embedded(folder, len(examples))


def _write_index(
    path: Path, rows: EncodedRows, examples: Sequence[Any], windows: Sequence[Window] | None, tokenizer: BertTokenizer
) -> None:
    """Writes a line a row: its example, the tokens it has among all, what they are, and what it holds of its text."""
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

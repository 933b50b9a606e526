"""`bert-tf tokenize`: converts lines of text to token ids."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from bert_tf.commands.inputs import check_path
from bert_tf.config.files import staged_file

_LINES_A_BATCH = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--vocabulary", type=Path, required=True, help="vocab.txt, one piece per line")
    parser.add_argument("--cased", action="store_true", help="keep case and accents, for a cased vocabulary")
    parser.add_argument("--graph", action="store_true", help="tokenize with a SavedModel instead of Python")
    parser.add_argument("--input", type=Path, required=True, help="input file, UTF-8 text")
    parser.add_argument("--output", type=Path, required=True, help="output file, one line of ids per line of text")


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    from bert_tf.text.casing import resolve_lowercase
    from bert_tf.text.vocabulary import load_vocabulary

    check_path(args.input, "--input")
    resolve_lowercase(load_vocabulary(args.vocabulary), args.cased, args.vocabulary)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Writes the ids of every line; returns the summary."""
    from bert_tf.text.casing import resolve_lowercase
    from bert_tf.text.tokenizer import BertTokenizer
    from bert_tf.text.vocabulary import load_vocabulary

    vocabulary = load_vocabulary(args.vocabulary)
    tokenizer = BertTokenizer(vocabulary, resolve_lowercase(vocabulary, args.cased, args.vocabulary))
    rows = _graph_rows(tokenizer) if args.graph else _python_rows(tokenizer)
    lines = tokens = 0
    with args.input.open(encoding="utf-8", newline="\n") as source, staged_file(args.output) as target:
        for batch in _batches(source, args.input):
            for ids in rows(batch):
                target.write(f"{' '.join(map(str, ids))}\n".encode())
                lines, tokens = lines + 1, tokens + len(ids)
    return {"output": str(args.output), "lines": lines, "tokens": tokens}


def _batches(source: TextIO, path: Path) -> Iterator[list[str]]:
    try:
        while batch := [line.removesuffix("\n") for line in itertools.islice(source, _LINES_A_BATCH)]:
            yield batch
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8: {error}. Convert the file to UTF-8.") from error


def _python_rows(tokenizer: Any) -> Any:
    def rows(batch: list[str]) -> list[list[int]]:
        return [ids.tolist() for ids in tokenizer.tokenize(batch)]

    return rows


def _graph_rows(tokenizer: Any) -> Any:
    """Saves the tokenizer as a SavedModel and tokenizes with the reloaded graph, as a server does."""
    import tempfile

    import tensorflow as tf

    module = tf.Module()
    module.tokenizer = tokenizer
    module.ids = tf.function(tokenizer.ids, input_signature=[tf.TensorSpec([None], tf.string)])
    with tempfile.TemporaryDirectory() as directory:
        tf.saved_model.save(module, directory)
        loaded = tf.saved_model.load(directory)

    def rows(batch: list[str]) -> list[list[int]]:
        return loaded.ids(tf.constant(batch)).to_list()

    return rows

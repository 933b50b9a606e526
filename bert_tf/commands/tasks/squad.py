"""`squad1`, and arguments shared with `squad2`: files in SQuAD's format."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bert_tf.commands.arguments import existing

if TYPE_CHECKING:
    from bert_tf.tasks.finetune.run import TaskFiles
    from bert_tf.tasks.squad.task import Squad1Task

# Flags that are stored in the preset: default and help.
KNOBS = {
    "doc_stride": (128, "tokens between the starts of two windows of a context"),
    "max_query_length": (64, "maximum tokens of a question"),
    "max_answer_length": (30, "maximum tokens of an answer"),
    "n_best": (20, "answers written per question"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing, because scoring has no options."""


def add_files(parser: argparse.ArgumentParser) -> None:
    """Adds the files and the arguments for splitting contexts."""
    parser.add_argument("--train", type=Path, required=True, help="training file, JSON in SQuAD's format")
    parser.add_argument(
        "--dev", type=Path, required=True, help="development file, for the choice of epochs and the report"
    )
    parser.add_argument(
        "--augment", type=Path, nargs="+", default=[], metavar="FILE", help="files to train on first, such as TriviaQA"
    )
    for name, (default, text) in KNOBS.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{text}; default: {default}")


def make_task(args: argparse.Namespace) -> Squad1Task:
    """Returns the task."""
    from bert_tf.tasks.squad.task import Squad1Task

    return Squad1Task(**knobs(args))


def knobs(args: argparse.Namespace) -> dict[str, int]:
    """Returns the values of `KNOBS` that the command has."""
    return {name: getattr(args, name) for name in KNOBS if hasattr(args, name)}


def make_sources(args: argparse.Namespace) -> TaskFiles:
    """Returns the files."""
    from bert_tf.tasks.finetune.run import TaskFiles

    for path in (args.train, args.dev, *args.augment):
        existing(path, "the file")
    return TaskFiles(args.train, args.dev, augment=tuple(args.augment))

"""`squad1`, and what `squad2` shares with it: files of SQuAD's layout."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bert_tf.commands.arguments import existing

if TYPE_CHECKING:
    from bert_tf.tasks.finetune.run import TaskFiles
    from bert_tf.tasks.squad.task import Squad1Task

# What a preset keeps of the command line.
KNOBS = {
    "doc_stride": (128, "tokens from the beginning of one window of a context to the next"),
    "max_query_length": (64, "tokens of a question that are read"),
    "max_answer_length": (30, "tokens of an answer at most"),
    "n_best": (20, "answers to write for each question"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: how an answer is scored has no knobs."""


def add_files(parser: argparse.ArgumentParser) -> None:
    """Adds the files, and how their contexts are cut."""
    parser.add_argument("--train", type=Path, required=True, help="JSON of SQuAD's layout to learn from")
    parser.add_argument("--dev", type=Path, required=True, help="JSON that chooses between epochs and is reported")
    parser.add_argument(
        "--augment", type=Path, nargs="+", default=[], metavar="FILE", help="JSON to learn from before, as TriviaQA's"
    )
    for name, (default, text) in KNOBS.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{text}; default {default}")


def make_task(args: argparse.Namespace) -> Squad1Task:
    """Returns the task."""
    from bert_tf.tasks.squad.task import Squad1Task

    return Squad1Task(**knobs(args))


def knobs(args: argparse.Namespace) -> dict[str, int]:
    """Returns those of `KNOBS` that the command has."""
    return {name: getattr(args, name) for name in KNOBS if hasattr(args, name)}


def make_sources(args: argparse.Namespace) -> TaskFiles:
    """Returns the files."""
    from bert_tf.tasks.finetune.run import TaskFiles

    for path in (args.train, args.dev, *args.augment):
        existing(path, "the file")
    return TaskFiles(args.train, args.dev, augment=tuple(args.augment))

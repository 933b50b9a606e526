"""`ner`: files with one word and its tag per line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bert_tf.commands.arguments import existing

if TYPE_CHECKING:
    from bert_tf.tasks.base import Task
    from bert_tf.tasks.finetune.run import TaskFiles


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments for reading a line."""
    parser.add_argument("--token_column", type=int, default=0, help="column of the word, counted from 0; default: 0")
    parser.add_argument("--tag_column", type=int, default=-1, help="column of the tag; default: -1, the last column")
    parser.add_argument(
        "--scheme",
        default="",
        help="tagging scheme: IO, IOB1, IOB2 or IOBES; default: detected from the training files",
    )
    parser.add_argument(
        "--document_context", action="store_true", help="fill rows with the surrounding words of a sentence's document"
    )


def add_files(parser: argparse.ArgumentParser) -> None:
    """Adds the files."""
    parser.add_argument("--train", type=Path, required=True, help="training sentences")
    parser.add_argument(
        "--dev", type=Path, required=True, help="development sentences, for the choice of epochs and runs"
    )
    parser.add_argument("--test", type=Path, help="test sentences with tags, scored at the end")


def make_task(args: argparse.Namespace) -> Task:
    """Returns the task."""
    from bert_tf.tasks.ner.task import NerTask

    return NerTask(args.token_column, args.tag_column, args.document_context, args.scheme)


def make_sources(args: argparse.Namespace) -> TaskFiles:
    """Returns the files."""
    from bert_tf.tasks.finetune.run import TaskFiles

    existing(args.train, "--train")
    existing(args.dev, "--dev")
    further = {"test": existing(args.test, "--test")} if args.test else {}
    return TaskFiles(args.train, args.dev, further=further)

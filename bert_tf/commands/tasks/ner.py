"""`ner`: files with a word and its tag a line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bert_tf.commands.arguments import existing

if TYPE_CHECKING:
    from bert_tf.tasks.base import Task
    from bert_tf.tasks.finetune.run import TaskFiles


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what says how a line is read."""
    parser.add_argument(
        "--token_column", type=int, default=0, help="the column of the word, counted from 0; default: 0"
    )
    parser.add_argument(
        "--tag_column", type=int, default=-1, help="the column of the tag; default: -1, the last of the file"
    )
    parser.add_argument(
        "--scheme", default="", help="IO, IOB1, IOB2 or IOBES; default: what the training files show, which must agree"
    )
    parser.add_argument(
        "--document_context", action="store_true", help="fill rows up with the words around a sentence in its document"
    )


def add_files(parser: argparse.ArgumentParser) -> None:
    """Adds the files."""
    parser.add_argument("--train", type=Path, required=True, help="sentences to learn from")
    parser.add_argument("--dev", type=Path, required=True, help="sentences that choose between epochs and runs")
    parser.add_argument("--test", type=Path, help="further sentences with tags, to score at the end")


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

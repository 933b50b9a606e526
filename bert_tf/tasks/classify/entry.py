"""Entries of the tasks `classify` and `regression`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_tf.config import existing
from bert_tf.config.model import POOLINGS
from bert_tf.tasks.entry import TaskEntry, TaskFiles

if TYPE_CHECKING:
    from bert_tf.tasks.base import Task


class ClassifyEntry(TaskEntry):
    """Task of the user's files; `--regression` makes it one of numbers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the arguments for reading a row."""
        parser.add_argument(
            "--text_columns", nargs="+", default=["text"], help="text column, or two for pairs of texts; default: text"
        )
        parser.add_argument("--label_column", default="label", help="column of the label or number; default: label")
        parser.add_argument("--regression", action="store_true", help="treat labels as numbers")

    def add_files(self, parser: argparse.ArgumentParser) -> None:
        """Adds the files and the arguments of training."""
        parser.add_argument("--data", type=Path, help="directory with train and dev, each .tsv, .csv or .jsonl")
        parser.add_argument("--train", type=Path, help="training file, instead of --data")
        parser.add_argument("--dev", type=Path, help="development file, with --train")
        parser.add_argument(
            "--class_weights",
            nargs="+",
            default=["none"],
            help="weights of labels in the loss: none, balanced (inverse frequency) or label=weight ...; default: none",
        )
        parser.add_argument(
            "--pooling",
            choices=POOLINGS,
            default="first",
            help="pooling of the token vectors: first or last token, or mean or max of all; default: first",
        )
        parser.add_argument(
            "--windows",
            action="store_true",
            help="split longer texts into overlapping windows and average their predictions",
        )

    def make_task(self, args: argparse.Namespace) -> Task:
        """Returns the task of labels or numbers. Raises ValueError for three texts or more, and weights of numbers."""
        from bert_tf.tasks.classify.task import ClassifyTask, RegressionTask

        if len(args.text_columns) > 2:
            raise ValueError(f"`--text_columns` takes one or two names. Received: {args.text_columns}")
        # Only `finetune` has the arguments of training.
        arguments: dict[str, Any] = {"pooling": "first", "windows": False, "class_weights": ["none"]} | vars(args)
        pooling, windows, weights = arguments["pooling"], arguments["windows"], tuple(arguments["class_weights"])
        weights = () if weights == ("none",) else weights
        names = tuple(args.text_columns)
        if not args.regression:
            return ClassifyTask(names, pooling, windows, label_column=args.label_column, class_weights=weights)
        if weights:
            raise ValueError(f"`--class_weights` has no effect with `--regression`. Received: {weights}")
        return RegressionTask(names, pooling, windows, label_column=args.label_column)

    def make_files(self, args: argparse.Namespace) -> TaskFiles:
        """Returns the files. Raises ValueError unless the flags are `--data`, or `--train` and `--dev`."""
        if args.data is None:
            if args.train is None or args.dev is None:
                raise ValueError("`--data`, or `--train` and `--dev`, are required.")
            return TaskFiles(existing(args.train, "--train"), existing(args.dev, "--dev"))
        if args.train is not None or args.dev is not None:
            raise ValueError("`--data` must not be combined with `--train` and `--dev`. Received: both")
        existing(args.data, "--data")
        return TaskFiles(_only(args.data, "train"), _only(args.data, "dev"))


def _only(folder: Path, name: str) -> Path:
    """Returns the only file of that name with any suffix."""
    from bert_tf.tasks.classify.files import SUFFIXES

    files = [path for path in (folder / f"{name}{suffix}" for suffix in SUFFIXES) if path.is_file()]
    if len(files) != 1:
        raise ValueError(
            f"{folder}: must hold exactly one of {', '.join(f'{name}{suffix}' for suffix in SUFFIXES)}. "
            f"Received: {', '.join(path.name for path in files) or 'none'}. Name other files with --train and --dev."
        )
    return files[0]


ENTRIES = (
    ClassifyEntry(
        "classify",
        "classification of texts, or pairs of texts, of your own files",
        "bert_tf.tasks.classify.task:ClassifyTask",
    ),
    # `classify --regression` on the command line.
    ClassifyEntry("regression", "", "bert_tf.tasks.classify.task:RegressionTask"),
)

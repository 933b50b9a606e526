"""`classify`: classification of texts of your own files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bert_tf.commands.arguments import existing

if TYPE_CHECKING:
    from bert_tf.tasks.base import Task
    from bert_tf.tasks.finetune.run import TaskFiles

# The same as in modules of `models` and `tasks`, which take seconds to import.
POOLINGS = ("first", "mean", "max", "last")
SUFFIXES = (".tsv", ".csv", ".jsonl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments for reading a row."""
    parser.add_argument(
        "--text_columns", nargs="+", default=["text"], help="text column, or two for pairs of texts; default: text"
    )
    parser.add_argument("--label_column", default="label", help="column of the label or number; default: label")
    parser.add_argument("--regression", action="store_true", help="treat labels as numbers")


def add_files(parser: argparse.ArgumentParser) -> None:
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


def make_task(args: argparse.Namespace) -> Task:
    """Returns the task."""
    from bert_tf.tasks.classify.task import ClassifyTask, RegressionTask

    if len(args.text_columns) > 2:
        raise ValueError(f"`--text_columns` takes one or two names. Received: {args.text_columns}")
    # `score` has no flags of training.
    flags = vars(args)
    pooling, windows = flags.get("pooling", POOLINGS[0]), flags.get("windows", False)
    weights = tuple(flags.get("class_weights", ["none"]))
    weights = () if weights == ("none",) else weights
    names = tuple(args.text_columns)
    if not args.regression:
        return ClassifyTask(names, pooling, windows, label_column=args.label_column, class_weights=weights)
    if weights:
        raise ValueError(f"`--class_weights` has no effect with `--regression`. Received: {weights}")
    return RegressionTask(names, pooling, windows, label_column=args.label_column)


def make_sources(args: argparse.Namespace) -> TaskFiles:
    """Returns the files.

    Args:
        args: parsed arguments.

    Raises:
        ValueError: unless the flags are `--data`, or `--train` and `--dev`.
    """
    from bert_tf.tasks.finetune.run import TaskFiles

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
    files = [path for path in (folder / f"{name}{suffix}" for suffix in SUFFIXES) if path.is_file()]
    if len(files) != 1:
        raise ValueError(
            f"{folder}: must hold exactly one of {', '.join(f'{name}{suffix}' for suffix in SUFFIXES)}. "
            f"Received: {', '.join(path.name for path in files) or 'none'}"
        )
    return files[0]

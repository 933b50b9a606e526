"""`classify`: the user's own files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bert_tf.commands.arguments import existing

if TYPE_CHECKING:
    from bert_tf.tasks.base import Task
    from bert_tf.tasks.finetune.run import TaskFiles

# Of `models.text_classifier` and `tasks.labelled_text`, whose modules are heavy.
POOLINGS = ("first", "mean", "max", "last")
SUFFIXES = (".tsv", ".csv", ".jsonl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what says how a row is read."""
    parser.add_argument("--text_columns", nargs="+", default=["text"], help="one column, or two for pairs of texts")
    parser.add_argument("--label_column", default="label", help="the column of the label, or of the number")
    parser.add_argument("--regression", action="store_true", help="the label is a number")


def add_files(parser: argparse.ArgumentParser) -> None:
    """Adds the files, and what says how they are learned."""
    parser.add_argument("--data", type=Path, help="folder with train and dev, each .tsv, .csv or .jsonl")
    parser.add_argument("--train", type=Path, help="instead of --data: the file to learn from")
    parser.add_argument("--dev", type=Path, help="with --train: the file to measure on")
    parser.add_argument(
        "--class_weights",
        nargs="+",
        default=["none"],
        help="none; balanced, by how rare each label is; or label=weight for some of them",
    )
    parser.add_argument(
        "--pooling",
        choices=POOLINGS,
        default="first",
        help="a row's vector: the first or last token's, or mean or max of all",
    )
    parser.add_argument(
        "--windows", action="store_true", help="read longer texts in overlapping windows, and average their answers"
    )


def make_task(args: argparse.Namespace) -> Task:
    """Returns the task."""
    from bert_tf.tasks.classify.task import ClassifyTask, RegressionTask

    if len(args.text_columns) > 2:
        raise ValueError(f"`--text_columns` takes one or two names. Received: {args.text_columns}")
    # `score` has no flags of how to learn.
    given = vars(args)
    pooling, windows = given.get("pooling", POOLINGS[0]), given.get("windows", False)
    weights = tuple(given.get("class_weights", ["none"]))
    weights = () if weights == ("none",) else weights
    names = tuple(args.text_columns)
    if not args.regression:
        return ClassifyTask(names, pooling, windows, label_column=args.label_column, class_weights=weights)
    if weights:
        raise ValueError(f"`--class_weights` weighs labels, and `--regression` has none. Received: {weights}")
    return RegressionTask(names, pooling, windows, label_column=args.label_column)


def make_sources(args: argparse.Namespace) -> TaskFiles:
    """Returns the files. Raises ValueError unless there is a folder, or both files."""
    from bert_tf.tasks.finetune.run import TaskFiles

    if args.data is None:
        if args.train is None or args.dev is None:
            raise ValueError("files are given by `--data`, or by `--train` and `--dev`.")
        return TaskFiles(existing(args.train, "--train"), existing(args.dev, "--dev"))
    if args.train is not None or args.dev is not None:
        raise ValueError("files are given by `--data`, or by `--train` and `--dev`. Received: both")
    existing(args.data, "--data")
    return TaskFiles(_only(args.data, "train"), _only(args.data, "dev"))


def _only(folder: Path, name: str) -> Path:
    """Returns the one file of that name, whatever its suffix."""
    found = [path for path in (folder / f"{name}{suffix}" for suffix in SUFFIXES) if path.is_file()]
    if len(found) != 1:
        raise ValueError(
            f"{folder}: must hold one of {', '.join(f'{name}{suffix}' for suffix in SUFFIXES)}. "
            f"Received: {', '.join(path.name for path in found) or 'none'}"
        )
    return found[0]

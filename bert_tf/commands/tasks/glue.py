"""GLUE's tasks, in the benchmark's files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bert_tf.commands.arguments import existing

if TYPE_CHECKING:
    from bert_tf.tasks.base import Task
    from bert_tf.tasks.finetune.run import TaskFiles


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing, because GLUE's tasks have no options."""


def add_files(parser: argparse.ArgumentParser) -> None:
    """Adds the files."""
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        help="GLUE directory of the task with train.tsv and dev.tsv; for mnli dev_matched.tsv and dev_mismatched.tsv",
    )


def make_task(args: argparse.Namespace) -> Task:
    """Returns the task."""
    from bert_tf.tasks.registry import task_class

    return task_class(args.task)()


def make_sources(args: argparse.Namespace) -> TaskFiles:
    """Returns the files.

    Args:
        args: parsed arguments.

    Raises:
        ValueError: for the diagnostic set, which has no training examples.
    """
    from bert_tf.tasks.finetune.run import TaskFiles

    if args.task == "ax":
        raise ValueError("the diagnostic set has no training examples. Fine-tune mnli and predict with its preset.")
    existing(args.data, "--data")
    files = (
        {"dev": "dev_matched.tsv", "mismatched": "dev_mismatched.tsv"} if args.task == "mnli" else {"dev": "dev.tsv"}
    )
    paths = {use: existing(args.data / name, "--data:") for use, name in ({"train": "train.tsv"} | files).items()}
    return TaskFiles(paths.pop("train"), paths.pop("dev"), further=paths)

"""`swag`: multiple choice of endings."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bert_tf.commands.arguments import existing

if TYPE_CHECKING:
    from bert_tf.tasks.base import Task
    from bert_tf.tasks.finetune.run import TaskFiles


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing, because the header specifies the columns."""


def add_files(parser: argparse.ArgumentParser) -> None:
    """Adds the files."""
    parser.add_argument("--train", type=Path, required=True, help="training rows")
    parser.add_argument("--dev", type=Path, required=True, help="development rows, for the choice of epochs and runs")
    parser.add_argument("--test", type=Path, help="test rows with labels, scored at the end")


def make_task(args: argparse.Namespace) -> Task:
    """Returns the task."""
    from bert_tf.tasks.swag.task import SwagTask

    return SwagTask()


def make_sources(args: argparse.Namespace) -> TaskFiles:
    """Returns the files."""
    from bert_tf.tasks.finetune.run import TaskFiles

    existing(args.train, "--train")
    existing(args.dev, "--dev")
    further = {"test": existing(args.test, "--test")} if args.test else {}
    return TaskFiles(args.train, args.dev, further=further)

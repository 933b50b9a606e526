"""`bert-tf score TASK`: official metrics of predictions from any program."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bert_tf.commands.inputs import check_path
from bert_tf.tasks.registry import scored


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    tasks = parser.add_subparsers(dest="task", required=True, metavar="TASK")
    for name, entry in scored().items():
        task = tasks.add_parser(name, help=entry.help, description=entry.help)
        task.add_argument("--data", type=Path, required=True, help="file with the labels")
        task.add_argument("--predictions", type=Path, required=True, help="predictions in the task's format")
        entry.add_arguments(task)
        entry.add_score_arguments(task)


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    check_path(args.data, "--data")
    check_path(args.predictions, "--predictions")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Scores the predictions; returns the summary."""
    metrics, examples = scored()[args.task].score_files(args)
    return {"output": str(args.predictions), "metrics": metrics, "examples": examples}

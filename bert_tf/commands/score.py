"""`bert-tf score TASK`: official metrics of predictions from any program."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import existing
from bert_tf.commands.tasks import TASKS, family


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    tasks = parser.add_subparsers(dest="task", required=True, metavar="TASK")
    for name, (_, text) in TASKS.items():
        task = tasks.add_parser(name, help=text, description=text, allow_abbrev=False)
        task.add_argument("--data", type=Path, required=True, help="file with the labels")
        task.add_argument("--predictions", type=Path, required=True, help="predictions in the task's format")
        module = family(name)
        module.add_arguments(task)
        if hasattr(module, "add_score_arguments"):
            module.add_score_arguments(task)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Scores the predictions; returns the summary."""
    existing(args.data, "--data")
    existing(args.predictions, "--predictions")
    from bert_tf.tasks.input_errors import InputErrors

    module = family(args.task)
    task = module.make_task(args)
    examples = list(task.read(args.data, InputErrors()))
    answers = task.read_answers(args.predictions, examples)
    metrics = module.score(args, examples, answers) if hasattr(module, "score") else task.score(examples, answers)
    return {"output": str(args.predictions), "metrics": metrics, "examples": len(examples)}

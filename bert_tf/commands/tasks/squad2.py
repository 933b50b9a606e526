"""`squad2`: like `squad1`, with unanswerable questions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bert_tf.commands.arguments import existing
from bert_tf.commands.tasks.squad import add_arguments, add_files, knobs, make_sources

if TYPE_CHECKING:
    from bert_tf.tasks.squad.answers import SquadAnswer
    from bert_tf.tasks.squad.files import SquadExample
    from bert_tf.tasks.squad.task import Squad2Task

__all__ = ["add_arguments", "add_files", "add_score_arguments", "make_sources", "make_task", "score"]


def make_task(args: argparse.Namespace) -> Squad2Task:
    """Returns the task."""
    from bert_tf.tasks.squad.task import Squad2Task

    return Squad2Task(**knobs(args))


def add_score_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the official script other than the predictions."""
    parser.add_argument("--null_odds", type=Path, help="JSON of null odds by question id, for the best thresholds")
    parser.add_argument(
        "--null_threshold",
        type=float,
        default=1.0,
        help="with --null_odds: higher odds count as no answer, as in the official --na-prob-thresh; default: 1.0",
    )


def score(
    args: argparse.Namespace, examples: Sequence[SquadExample], answers: Sequence[SquadAnswer]
) -> dict[str, float]:
    """Returns the official metrics; with null odds, also those of the best thresholds."""
    task = make_task(args)
    if args.null_odds is None:
        return task.score(examples, answers)
    from bert_tf.tasks.squad.predictions import read_null_odds

    odds = read_null_odds(existing(args.null_odds, "--null_odds"), [example.id for example in examples])
    return task.score_with(examples, answers, odds, args.null_threshold)

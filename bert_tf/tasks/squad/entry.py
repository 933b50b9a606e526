"""Entries of the tasks `squad1` and `squad2`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_tf.config import TrainingConfig, existing
from bert_tf.tasks.entry import TaskEntry, TaskFiles

if TYPE_CHECKING:
    from bert_tf.tasks.base import Task

# Fields of the task that are arguments of `finetune`: default and help.
_FIELDS = {
    "doc_stride": (128, "tokens between the starts of two windows of a context"),
    "max_query_length": (64, "maximum tokens of a question"),
    "max_answer_length": (30, "maximum tokens of an answer"),
    "n_best": (20, "answers written per question"),
}


class SquadEntry(TaskEntry):
    """Task of files in SQuAD's format."""

    def add_files(self, parser: argparse.ArgumentParser) -> None:
        """Adds the files and the arguments for splitting contexts."""
        parser.add_argument("--train", type=Path, required=True, help="training file, JSON in SQuAD's format")
        parser.add_argument(
            "--dev", type=Path, required=True, help="development file, for the choice of epochs and the report"
        )
        parser.add_argument(
            "--augment",
            type=Path,
            nargs="+",
            default=[],
            metavar="FILE",
            help="files to train on first, such as TriviaQA",
        )
        for name, (default, text) in _FIELDS.items():
            parser.add_argument(f"--{name}", type=int, default=default, help=f"{text}; default: {default}")

    def make_task(self, args: argparse.Namespace) -> Task:
        """Returns the task; a command other than `finetune` has none of its fields."""
        fields: dict[str, Any] = {name: getattr(args, name) for name in _FIELDS if hasattr(args, name)}
        return self.task_class(**fields)

    def make_files(self, args: argparse.Namespace) -> TaskFiles:
        """Returns the files."""
        for path in (args.train, args.dev, *args.augment):
            existing(path, "the file")
        return TaskFiles(args.train, args.dev, augment=tuple(args.augment))


class Squad2Entry(SquadEntry):
    """Task of SQuAD 2.0, whose official script also reads null odds."""

    def add_score_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the null odds."""
        parser.add_argument("--null_odds", type=Path, help="JSON of null odds by question id, for the best thresholds")
        parser.add_argument(
            "--null_threshold",
            type=float,
            default=1.0,
            help="with --null_odds: higher odds count as no answer, as in the official --na-prob-thresh; default: 1.0",
        )

    def score(
        self, task: Any, args: argparse.Namespace, examples: Sequence[Any], answers: Sequence[Any]
    ) -> dict[str, float]:
        """Returns the official metrics; with null odds, also those of the best thresholds."""
        if args.null_odds is None:
            return task.score(examples, answers)
        from bert_tf.tasks.squad.files import read_null_odds

        odds = read_null_odds(existing(args.null_odds, "--null_odds"), [example.id for example in examples])
        return task.score_with(examples, answers, odds, args.null_threshold)


ENTRIES = (
    SquadEntry(
        "squad1",
        "extractive question answering, SQuAD 1.1",
        "bert_tf.tasks.squad.task:Squad1Task",
        # arXiv 1810.04805, section 4.2.
        recipe=TrainingConfig(learning_rate=5e-5, batch_size=32, epochs=3),
    ),
    Squad2Entry(
        "squad2",
        "extractive question answering with unanswerable questions, SQuAD 2.0",
        "bert_tf.tasks.squad.task:Squad2Task",
        # arXiv 1810.04805, section 4.3.
        recipe=TrainingConfig(learning_rate=5e-5, batch_size=48, epochs=2),
    ),
)

"""Entries of the task registry: the class, the files and the command line of a task.

The command line builds its parsers from the entries, so their modules import neither Keras nor TensorFlow.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_tf.config import TrainingConfig, existing, local_path
from bert_tf.config.training import FINETUNING_RATE

if TYPE_CHECKING:
    from bert_tf.tasks.base import Task


# Also of arXiv 1810.04805, A.3.
MIDDLE_OF_GRID = TrainingConfig(learning_rate=FINETUNING_RATE, batch_size=32, epochs=3)


@dataclass(frozen=True)
class TaskFiles:
    """Files of a task, each in the task's format.

    Args:
        train: training examples.
        dev: development examples, which select the best epoch and run.
        further: additional labelled files to evaluate at the end, by name, for example MNLI mismatched.
        augment: files to train on first, in a separate run.
        more_train: files to train on together with `train`.

    Example:
        >>> files = bert_tf.TaskFiles(train="my_task/train.tsv", dev="my_task/dev.tsv")
        >>> [path.name for path in files.training]
        ['train.tsv']
    """

    train: str | Path
    dev: str | Path
    further: Mapping[str, str | Path] = field(default_factory=dict)
    augment: tuple[str | Path, ...] = ()
    more_train: tuple[str | Path, ...] = ()

    @property
    def training(self) -> tuple[Path, ...]:
        """All training files of one run."""
        return tuple(map(local_path, (self.train, *self.more_train)))


@dataclass(frozen=True)
class ScoreEntry:
    """Entry of a name of `score`: a task, or a data set with an official metric of its own.

    Args:
        name: name on the command line, and of a task in task.json.
        help: one line of help; "" for a task that has no name on the command line.
    """

    name: str
    help: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the arguments for reading a file, for `finetune`, `score` and `features`."""

    def add_score_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the arguments of the official script other than the predictions, for `score`."""

    def score_files(self, args: argparse.Namespace) -> tuple[dict[str, float], int]:
        """Returns the official metrics of `args.predictions` on `args.data`, and the number of examples.

        Args:
            args: parsed arguments, including those of `add_arguments` and `add_score_arguments`.

        Raises:
            ValueError: for invalid arguments and files.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class TaskEntry(ScoreEntry):
    """Entry of a task in the registry.

    By default a task has the files `--train`, `--dev` and `--test` and no other arguments. Subclasses override the
    methods for other arguments.

    Args:
        name: name on the command line and in task.json.
        help: see `ScoreEntry`.
        task: the subclass of `Task`, as `module:class`.
        items: name of the examples in the help of the files.
        reads_txt: whether files of the task may end in .txt; otherwise `predict` reads such a file as plain text.
        recipe: defaults of `finetune`, the paper's if it states them for the task.
    """

    task: str
    items: str = "examples"
    reads_txt: bool = False
    recipe: TrainingConfig = MIDDLE_OF_GRID

    @property
    def task_class(self) -> type[Task]:
        """The subclass of `Task`, imported when it is read."""
        module, _, name = self.task.partition(":")
        return getattr(importlib.import_module(module), name)

    def add_files(self, parser: argparse.ArgumentParser) -> None:
        """Adds the files and the arguments of training, for `finetune`."""
        parser.add_argument("--train", type=Path, required=True, help=f"training {self.items}")
        parser.add_argument(
            "--dev", type=Path, required=True, help=f"development {self.items}, for the choice of epochs and runs"
        )
        parser.add_argument("--test", type=Path, help=f"test {self.items} with labels, scored at the end")

    def make_task(self, args: argparse.Namespace) -> Task:
        """Returns the task of parsed arguments. Arguments of `add_files` are missing unless the command is `finetune`.

        Args:
            args: parsed arguments.

        Raises:
            ValueError: for invalid arguments.
        """
        return self.task_class()

    def make_files(self, args: argparse.Namespace) -> TaskFiles:
        """Returns the files of parsed arguments.

        Args:
            args: parsed arguments.

        Raises:
            FileNotFoundError: for a file that does not exist.
            ValueError: for invalid arguments.
        """
        train, dev = existing(args.train, "--train"), existing(args.dev, "--dev")
        return TaskFiles(train, dev, {"test": existing(args.test, "--test")} if args.test else {})

    def score_files(self, args: argparse.Namespace) -> tuple[dict[str, float], int]:
        """Returns the official metrics of a file of predictions, and the number of examples; see `ScoreEntry`."""
        from bert_tf.tasks.input_errors import InputErrors

        task = self.make_task(args)
        examples = list(task.read(args.data, InputErrors()))
        return self.score(task, args, examples, task.read_answers(args.predictions, examples)), len(examples)

    def score(
        self, task: Any, args: argparse.Namespace, examples: Sequence[Any], answers: Sequence[Any]
    ) -> dict[str, float]:
        """Returns the official metrics of predictions.

        Args:
            task: the task from `make_task`.
            args: parsed arguments, including those of `add_score_arguments`.
            examples: the examples.
            answers: their predictions.
        """
        return task.score(examples, answers)

"""Comparison of two presets on GLUE, from their predictions for the development sets."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config.base import read_json_object
from bert_tf.experiments.glue.plan import DEV, RESULTS_NAME
from bert_tf.experiments.glue.results import TaskResult, dev_examples
from bert_tf.experiments.glue.tasks import MISMATCHED
from bert_tf.experiments.statistics import Comparison, mcnemar, paired_bootstrap
from bert_tf.tasks.example_scores import ExampleScores

# Metric whose statistics are the correct predictions.
_CORRECT = "accuracy"


@dataclass(frozen=True)
class TaskComparison:
    """Difference of two presets on one task, in percent.

    Args:
        other: score of the other preset.
        comparison: this preset's score minus the other's, with interval and p-value of the paired bootstrap.
        mcnemar: p-value of McNemar's test; None for STS-B, which has no correct predictions.
    """

    other: float
    comparison: Comparison
    mcnemar: float | None

    def to_json(self) -> dict[str, Any]:
        """Returns the comparison as JSON values."""
        return {
            "other": self.other,
            **vars(self.comparison),
            "significant": self.comparison.significant,
            "mcnemar": self.mcnemar,
        }


def compare(result: TaskResult, output: Path, other: Path) -> TaskComparison:
    """Compares the predictions of two benchmarks for the development set of a task.

    Args:
        result: this benchmark's result on the task.
        output: output directory of this benchmark.
        other: output directory of the other benchmark.

    Returns:
        The comparison.

    Raises:
        ValueError: if the other benchmark has no predictions for the same examples.
    """
    task, name = result.data.task, result.data.task.name
    score = read_json_object(other / RESULTS_NAME)["tasks"].get(name, {}).get("score")
    if score is None:
        raise ValueError(f"{other} has no result")
    first, second = (_example_scores(result, folder) for folder in (output, other))
    one, two = (functools.partial(_score, task.metrics, scores) for scores in (first, second))
    p_value = None
    if _CORRECT in first:
        p_value = mcnemar(*(scores[_CORRECT].rows[:, 0].astype(bool) for scores in (first, second)))
    examples = len(next(iter(first.values())).rows)
    return TaskComparison(score, paired_bootstrap([one], [two], examples), p_value)


def _example_scores(result: TaskResult, folder: Path) -> dict[str, ExampleScores]:
    """Returns the statistics of a benchmark's predictions for the development set, both sets together for MNLI."""
    examples: list[Any] = []
    answers: list[Any] = []
    for file in result.data.dev:
        task, of_file = dev_examples(result.data, file)
        path = folder / DEV / file
        if not path.is_file():
            raise ValueError(f"{path} does not exist")
        examples += of_file
        answers += task.read_answers(path, of_file)
    return task.example_scores(examples, answers)


def _score(metrics: Sequence[str], scores: Mapping[str, ExampleScores], counts: np.ndarray) -> np.ndarray:
    """Returns the score on resamples in percent: the mean of the metrics; MNLI has one accuracy over both sets."""
    values = [scores[name.removesuffix(MISMATCHED)].values(counts) for name in metrics]
    return 100 * np.mean(values, axis=0)

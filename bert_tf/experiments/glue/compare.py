"""Comparison of two presets on GLUE, from their predictions for the development sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from bert_tf.config.base import read_json_object
from bert_tf.experiments.glue.plan import DEV, RESULTS_NAME
from bert_tf.experiments.glue.results import TaskResult, dev_examples
from bert_tf.experiments.statistics import Comparison, mcnemar, paired_bootstrap

_NUMBERS = "stsb"
# Label whose F1 counts, and which the Matthews correlation takes as 1.
_POSITIVE = "1"


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


def accuracy(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Returns the accuracy."""
    return float(np.mean(gold == predicted))


def f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Returns the F1 of the label 1; 0 if it occurs in neither."""
    counts = np.count_nonzero(gold == _POSITIVE) + np.count_nonzero(predicted == _POSITIVE)
    return 2 * np.count_nonzero((gold == _POSITIVE) & (predicted == _POSITIVE)) / counts if counts else 0.0


def matthews(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Returns the Matthews correlation of two labels; 0 if one array is constant."""
    return pearson((gold == _POSITIVE).astype(float), (predicted == _POSITIVE).astype(float))


def pearson(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Returns the Pearson correlation; 0 if one array is constant."""
    if np.ptp(gold) == 0 or np.ptp(predicted) == 0:
        return 0.0
    return float(np.corrcoef(gold, predicted)[0, 1])


def spearman(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Returns the Spearman rank correlation; 0 if one array is constant."""
    return pearson(stats.rankdata(gold), stats.rankdata(predicted))


# Of `tasks.metrics`, on arrays: a bootstrap computes them thousands of times. MNLI has one accuracy over both sets.
METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": accuracy,
    "accuracy_mismatched": accuracy,
    "f1": f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
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
    gold, first, second = _predictions(result, output, other)
    metrics = [METRICS[metric] for metric in task.metrics]

    def difference(rows: np.ndarray) -> float:
        right = gold[rows]
        gains = (metric(right, first[rows]) - metric(right, second[rows]) for metric in metrics)
        return 100 * sum(gains) / len(metrics)

    p_value = None if name == _NUMBERS else mcnemar(first == gold, second == gold)
    return TaskComparison(score, paired_bootstrap(difference, len(gold)), p_value)


def _predictions(result: TaskResult, output: Path, other: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns gold labels and the predictions of both benchmarks, or numbers for STS-B; (examples,) each."""
    columns: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for file in result.data.dev:
        task, examples = dev_examples(result.data, file)
        columns[0].extend(example.label for example in examples)
        for column, folder in zip(columns[1:], (output, other), strict=True):
            path = folder / DEV / file
            if not path.is_file():
                raise ValueError(f"{path} does not exist")
            answers = task.read_answers(path, examples)
            column.extend(answer.number if result.data.task.name == _NUMBERS else answer.label for answer in answers)
    gold, first, second = (np.array(column, float if result.data.task.name == _NUMBERS else str) for column in columns)
    return gold, first, second

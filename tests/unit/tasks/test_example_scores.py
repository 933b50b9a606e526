"""Statistics of single examples give the metrics of all examples and of resamples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from bert_tf.encoding.texts import TextExample
from bert_tf.tasks.example_scores import (
    correlation_scores,
    label_f1_scores,
    matthews_scores,
    mean_scores,
    rank_correlation_scores,
    read_example_scores,
    write_example_scores,
)
from bert_tf.tasks.registry import TASKS, task_class

EXAMPLES, RESAMPLES = 60, 20


@pytest.fixture
def random():
    return np.random.default_rng(3)


@pytest.fixture
def drawn(random):
    """Indices of the examples of each resample."""
    return random.integers(0, EXAMPLES, (RESAMPLES, EXAMPLES))


@pytest.fixture
def counts(drawn):
    return np.stack([np.bincount(row, minlength=EXAMPLES) for row in drawn])


def test_mean(random, drawn, counts):
    values = random.random(EXAMPLES)
    np.testing.assert_allclose(mean_scores(values).values(counts), values[drawn].mean(1))


def test_f1_of_a_label(random, drawn, counts):
    gold, predicted = random.choice(["0", "1"], (2, EXAMPLES))
    expected = [metrics.f1_score(gold[row], predicted[row], pos_label="1") for row in drawn]
    np.testing.assert_allclose(label_f1_scores(gold, predicted, "1").values(counts), expected)


@pytest.mark.parametrize("labels", [["0", "1"], ["a", "b", "c"]])
def test_matthews(random, drawn, counts, labels):
    gold, predicted = random.choice(labels, (2, EXAMPLES))
    expected = [metrics.matthews_corrcoef(gold[row], predicted[row]) for row in drawn]
    np.testing.assert_allclose(matthews_scores(gold, predicted).values(counts), expected, atol=1e-12)


def test_matthews_of_constant_predictions_is_zero():
    assert matthews_scores(["0", "1", "1"], ["1", "1", "1"]).value == 0.0


def test_pearson(random, drawn, counts):
    gold = random.normal(3, 1, EXAMPLES)
    predicted = gold + random.normal(0, 1, EXAMPLES)
    expected = [stats.pearsonr(gold[row], predicted[row]).statistic for row in drawn]
    np.testing.assert_allclose(correlation_scores(gold, predicted).values(counts), expected)


def test_spearman(random, drawn, counts):
    gold, predicted = random.integers(0, 9, (2, EXAMPLES))  # with ties
    expected = [stats.spearmanr(gold[row], predicted[row]).statistic for row in drawn]
    scores = rank_correlation_scores(gold, predicted)
    np.testing.assert_allclose(scores.values(counts), expected)
    assert scores.value == pytest.approx(stats.spearmanr(gold, predicted).statistic)


def test_correlations_of_constant_predictions_are_zero():
    for scores in (correlation_scores, rank_correlation_scores):
        assert scores([1.0, 2.0, 3.0], [2.0, 2.0, 2.0]).value == 0.0


def test_f1_of_a_label_that_does_not_occur_is_zero():
    assert label_f1_scores(["0", "0"], ["0", "0"], "1").value == 0.0


def test_file(tmp_path, random):
    scores = {"accuracy": mean_scores([1.0, 0.0]), "f1": label_f1_scores(["1", "0"], ["1", "1"], "1")}
    write_example_scores(tmp_path / "scores.npz", scores)
    stored = read_example_scores(tmp_path / "scores.npz")
    assert {name: one.kind for name, one in stored.items()} == {"accuracy": "mean", "f1": "f1"}
    np.testing.assert_array_equal(stored["f1"].rows, scores["f1"].rows)


@pytest.mark.parametrize("name", ["cola", "sst2", "mrpc", "mnli", "ax", "rte"])
def test_glue_tasks_give_their_metrics(random, name):
    task = task_class(name)()
    gold, predicted = random.choice(task.labels, (2, EXAMPLES))
    examples = [TextExample(f"line {n}", str(n), ("a",), label) for n, label in enumerate(gold)]
    answers = [task.answer_of(label) for label in predicted]
    expected = task.score(examples, answers)
    found = {metric: one.value for metric, one in task.example_scores(examples, answers).items()}
    assert found == pytest.approx({metric: expected[metric] for metric in found})
    assert task.metric in {*found, "average"}


def test_every_task_has_example_scores():
    from bert_tf.tasks.base import Task

    assert [name for name in TASKS if task_class(name).example_scores is Task.example_scores] == []

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from bert_tf.config import BertConfig
from bert_tf.data.schema import MLM_LOGITS, NSP_LOGITS
from bert_tf.reports.charts import Level, Series, line_chart
from bert_tf.reports.training import page
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.training.evaluation.baselines import (
    Baseline,
    Evaluation,
    EvaluationContext,
    chance_figures,
    published_figures,
    remarks_on,
)
from bert_tf.training.fit import fit
from bert_tf.training.logging.run_status import RunStatus
from bert_tf.training.losses import PRETRAINING, pretraining_objective
from bert_tf.training.run_spec import EvaluationSpec, RunSpec, TrainingData
from tests.support.training.tiny_run import batch, build_model, dataset

CHANCE = {"mlm_accuracy": 0.07, "mlm_loss": 6.0, "mlm_perplexity": 403.4, "nsp_accuracy": 0.52}
PUBLISHED = {"mlm_loss": math.log(5.84), "mlm_perplexity": 5.84, "nsp_accuracy": 0.97}
FINE = {"mlm_accuracy": 0.4, "mlm_loss": 3.0, "mlm_perplexity": 20.1, "nsp_accuracy": 0.8}


def oracle(batches):
    """Computes the metrics of the best constant guess target by target."""
    found = {}
    for prefix, output in (("mlm", MLM_LOGITS), ("nsp", NSP_LOGITS)):
        targets = [
            target
            for _, values, weights in batches
            for target, weight in zip(values[output].flat, weights[output].flat, strict=True)
            if weight
        ]
        counts = Counter(targets)
        found[f"{prefix}_loss"] = sum(-math.log(counts[target] / len(targets)) for target in targets) / len(targets)
        found[f"{prefix}_accuracy"] = counts.most_common(1)[0][1] / len(targets)
    found["mlm_perplexity"] = math.exp(found["mlm_loss"])
    return found | {"loss": found["mlm_loss"] + found["nsp_loss"]}


@pytest.mark.parametrize("size", [1, 8])
def test_chance_is_the_best_constant_guess(size):
    batches = [batch(step, size) for step in range(20)]
    assert chance_figures(iter(batches), PRETRAINING) == pytest.approx(oracle(batches))


def test_chance_accepts_targets_of_any_shape():
    inputs, targets, weights = batch(3, 8)
    reshaped = [{name: value.reshape(2, -1) for name, value in part.items()} for part in (targets, weights)]
    assert chance_figures([(inputs, *reshaped)], PRETRAINING) == chance_figures(
        [(inputs, targets, weights)], PRETRAINING
    )


def test_targets_without_weight_have_no_chance_baseline():
    inputs, targets, weights = batch(3, 8)
    weights[NSP_LOGITS][:] = 0
    figures = chance_figures([(inputs, targets, weights)], PRETRAINING)
    assert sorted(figures) == ["loss", "mlm_accuracy", "mlm_loss", "mlm_perplexity"]
    assert figures["loss"] == figures["mlm_loss"]
    assert chance_figures([], PRETRAINING) == {}


def test_chance_of_the_left_to_right_language_model_has_its_names():
    batches = [batch(step, 8) for step in range(3)]
    expected = {
        name.replace("mlm", "causal_lm"): value
        for name, value in chance_figures(batches, PRETRAINING).items()
        if name.startswith("mlm")
    }
    found = chance_figures(batches, pretraining_objective("causal_lm", nsp_weight=0.0))
    assert found == expected | {"loss": expected["causal_lm_loss"]}


@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "perplexity"),
    [
        (2, 128, 2, 5.84),
        (3, 768, 12, 5.84),
        (6, 768, 12, 4.68),
        (6, 768, 3, 5.24),
        (12, 768, 12, 3.99),
        (12, 1024, 16, 3.54),
        (24, 1024, 16, 3.23),
        (48, 1024, 16, 3.23),
    ],
)
def test_published_metrics_are_those_of_the_nearest_size(layers, hidden, heads, perplexity):
    figures, source = published_figures(BertConfig(100, hidden, layers, heads, 4 * hidden), "piece")
    assert figures["mlm_perplexity"] == perplexity
    assert figures["mlm_loss"] == pytest.approx(math.log(perplexity))
    assert "1810.04805" in source
    assert "Table 6" in source


def test_unpublished_configurations_have_no_published_metrics():
    model = BertConfig.from_name_or_path("base", vocabulary_size=100)
    assert published_figures(replace(model, attention="left_to_right"), "piece") == ({}, "")
    figures, source = published_figures(model, "whole_word")
    assert list(figures) == ["nsp_accuracy"]
    assert "Table 6" not in source


@pytest.mark.parametrize(
    ("figures", "warmed_up", "said"),
    [
        ({}, True, []),
        ({"mlm_accuracy": 0.07}, True, ["masked pieces: no better than always guessing"]),
        ({"mlm_accuracy": 0.0700001}, True, ["masked pieces: no better than always guessing"]),
        ({"mlm_accuracy": 0.0701}, True, []),
        ({"mlm_accuracy": 0.01, "nsp_accuracy": 0.5}, False, []),
        ({"nsp_accuracy": 0.52}, True, ["next sentences: no better than always predicting the same label"]),
        ({"nsp_accuracy": 0.999}, False, ["next sentences: 99.90% right is more than the paper"]),
        ({"nsp_accuracy": 0.975}, False, []),
        ({"nsp_accuracy": 0.999, "mlm_perplexity": 5.8}, True, ["masked pieces: a perplexity of 5.80 is below"]),
    ],
)
def test_unusual_metrics_are_reported(figures, warmed_up, said):
    remarks = remarks_on(FINE | figures, CHANCE, PUBLISHED, warmed_up)
    assert [remark[: len(words)] for remark, words in zip(remarks, said, strict=True)] == said


@pytest.mark.parametrize(
    ("batch", "loss", "is_near"),
    [(99, 6.4, True), (99, 6.3, False), (98, 6.4, False), (99, math.nan, False)],
)
def test_a_run_that_ended_near_chance_is_told_what_to_do(batch, loss, is_near):
    chance = {"mlm_loss": math.log(817), "mlm_accuracy": 0.05}
    context = EvaluationContext(
        Vocabulary(SPECIAL_TOKENS), lambda batch, stop: chance, ({}, ""), 0, total_steps=100, next_step="do this."
    )
    figures = {"mlm_loss": loss, "mlm_accuracy": 0.1}
    remarks = context.of(None, batch, figures, lambda: False).expected.remarks
    assert [remark.endswith("Next: do this.") for remark in remarks] == [True] * is_near


def test_no_remarks_without_baselines():
    assert remarks_on({"loss": 1.0}, {}, {}, True) == ()
    assert remarks_on(FINE | {"nsp_accuracy": 1.0, "mlm_perplexity": 1.0}, {}, {}, True) == ()


def evaluation_context():
    pieces = (*SPECIAL_TOKENS, *(f"w{number}" for number in range(45)))
    held_out = [batch(step, 8) for step in range(10_000, 10_003)]
    return EvaluationContext(
        Vocabulary(pieces), lambda step, stop: chance_figures(held_out, PRETRAINING), (PUBLISHED, "a paper"), 3
    )


def train(output, config, at_step=None):
    data = TrainingData(lambda start: dataset(8, start, at_step=at_step), lambda _: dataset(8, 10_000, 10_003))
    run = RunSpec(build_model, data, evaluation=EvaluationSpec(context=evaluation_context()))
    return fit(run, config, output)


def test_page_shows_baselines():
    expected = Baseline(CHANCE, PUBLISHED, "a paper", ("something is odd",))
    records = [{"split": "train", "step": step, "mlm_accuracy": 0.1 * step, "learning_rate": 0.1} for step in (1, 2, 3)]
    text = page(records, RunStatus("runs/mine", 10), Evaluation(FINE, expected))
    assert "<li>something is odd</li>" in text
    cells = re.findall(r"<tr>" + 4 * r"<td[^>]*>([^<]*)</td>", text)
    assert ("Masked tokens: accuracy", "40.00%", "7.00%", "–") in cells
    assert ("Masked tokens: perplexity", "20.10", "403.40", "5.84") in cells
    assert re.findall(r'class="level (\w+)"', text) == ["chance"]
    assert "chance 7.0%" in text
    assert "<h2>Baselines" not in page(records, RunStatus("runs/mine", 10), Evaluation(FINE))


def test_reference_line_is_drawn_to_scale():
    curve = Series("train", [(0, 0.0), (10, 4.0)])
    chart = line_chart("Loss", "step", [curve], "{:g}", [Level("chance", 2.0), Level("published", 8.0)])
    heights = [float(line.get("y1")) for line in chart.iter("line") if "level" in line.get("class")]
    points = next(line for line in chart.iter("polyline")).get("points").split()
    first, last = (float(point.split(",")[1]) for point in points)
    assert heights[0] == pytest.approx((first + last) / 2, abs=0.1)
    assert heights[1] == pytest.approx(first - 2 * (first - last), abs=0.1)
    assert np.all(np.diff([first, heights[0], last, heights[1]]) < 0)


@pytest.mark.parametrize(("end", "is_below"), [(5.2, True), (9.0, False), (1.0, False)])
def test_label_of_a_reference_line_avoids_the_end_of_a_curve(end, is_below):
    curve = Series("train", [(0, 0.0), (5, 10.0), (10, end)])
    chart = line_chart("Loss", "step", [curve], "{:g}", [Level("chance", 5.0)])
    line = next(line for line in chart.iter("line") if "level" in line.get("class"))
    words = next(text for text in chart.iter("text") if text.text == "chance 5")
    assert (float(words.get("y")) > float(line.get("y1"))) == is_below

from __future__ import annotations

import re

import pytest

from bert_tf.reports.charts import Series, line_chart
from bert_tf.reports.training import page
from bert_tf.training.logging.run_status import RunStatus

SETTINGS = {"training": {"batch_size": 8}, "model": {"hidden_dim": 16}}
STATUS = RunStatus("runs/mine", 10, step=5, settings=SETTINGS)


def records(count=5):
    train = [{"split": "train", "step": step, "loss": 9.0 / step, "gradient_norm": 1.0} for step in range(1, count + 1)]
    return [*train, {"split": "validation", "step": count, "loss": 2.5, "mlm_accuracy": 0.25, "mlm_perplexity": 12.18}]


def test_a_page_needs_nothing_else():
    text = page(records(), STATUS)
    assert text.startswith("<!DOCTYPE html>")
    assert not re.search(r"<script|https?://(?!www\.w3\.org)|src=", text)
    assert "5 of 10 steps" in text
    assert "12.2" in text
    assert re.findall(r"<h3>(.*?)</h3>", text) == ["Loss", "Masked tokens: accuracy", "Gradient norm"]
    assert re.search(r"<dt>training\.batch_size</dt><dd[^>]*>8</dd>", text)


def test_what_is_not_there_is_not_drawn():
    assert "<svg" not in page([], STATUS)


def test_text_is_escaped():
    assert "<u>" not in page(records(), RunStatus("<u>", 10, state="failed", reason="<u>", settings={"data": "<u>"}))


def test_points_are_in_proportion():
    chart = line_chart(
        "Loss", "step", [Series("train", [(0, 0.0), (5, 10.0), (10, 5.0)]), Series("validation", [])], "{:g}"
    )
    curve = next(part for part in chart.iter("polyline") if part.get("class") == "curve train")
    points = [tuple(map(float, point.split(","))) for point in curve.get("points").split()]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.1)
    assert y2 == pytest.approx((y0 + y1) / 2, abs=0.1)
    assert y1 < y2 < y0, "up is less in SVG"


@pytest.mark.parametrize("values", [[0.0], [3.0, 3.0], [1e-9, 2e-9], [float("inf"), 1.0], [-1.0, 1.0]])
def test_any_values_have_an_axis(values):
    chart = line_chart("x", "step", [Series("train", list(enumerate(values)))], "{:g}")
    assert len(list(chart.iter("line"))) >= 2


def test_long_histories_are_thinned():
    text = page(records(5000), STATUS)
    curve = re.search(r'class="curve train" points="([^"]*)"', text)
    assert len(curve[1].split()) <= 400

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


def test_page_is_self_contained():
    text = page(records(), STATUS)
    assert text.startswith("<!DOCTYPE html>")
    assert not re.search(r"<script|https?://(?!www\.w3\.org)|src=", text)
    assert "5 of 10 steps" in text
    assert "12.2" in text
    assert re.findall(r"<h3>(.*?)</h3>", text) == ["Loss", "Masked tokens: accuracy", "Gradient norm"]
    assert re.search(r"<dt>training\.batch_size</dt><dd[^>]*>8</dd>", text)


def head_of(status):
    head = re.search(r"<h1>.*?</dl>", page([], status), re.DOTALL)[0]
    return " ".join(re.sub(r"<[^>]*>", " ", head).split())


def test_the_head_names_run_model_data_dates_and_state():
    head = head_of(
        RunStatus(
            "runs/mine",
            10_000,
            step=2500,
            started="2026-01-02T03:04:05+00:00",
            updated="2026-01-02T05:00:00+00:00",
            eta_seconds=7200.0,
            model={"kind": "BertPretrainer", "parameters": 4_400_000, "backend": "jax", "devices": 2},
            data={"data_name": "corpus/data", "train_examples": 1234, "max_sequence_length": 64, "lowercase": False},
            settings={
                "model": {"num_layers": 2, "hidden_dim": 128},
                "training": {"precision": "bfloat16", "strategy": "mirrored"},
                "data": "0123456789abcdef",
            },
        )
    )
    facts = (
        "runs/mine", "Running", "2,500 of 10,000 steps", "about 2 h left", "2026-01-02 03:04", "2026-01-02 05:00",
        "BertPretrainer", "2 layers of 128", "4,400,000", "bfloat16", "mirrored on 2 devices", "jax",
        "corpus/data", "1,234", "64 tokens", " cased", "0123456789",
    )  # fmt: skip
    assert [fact for fact in facts if fact not in head] == []


def test_the_head_of_a_run_without_facts_leaves_them_out():
    head = head_of(RunStatus("mine", 10))
    assert head.count("not recorded") == 4
    assert "None" not in head


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (RunStatus("mine", 1), "0 of 1 step"),
        (RunStatus("mine", 10, 10, "finished"), "10 of 10 steps"),
        (RunStatus("mine", 10, 4, "finished"), "ended early"),
        (RunStatus("mine", 10, 4, "stopped", "SIGTERM"), "SIGTERM"),
        (RunStatus("mine", 10, 4, "failed", "TrainingError: <u>"), "TrainingError: &lt;u&gt;"),
    ],
)
def test_the_state_is_told(status, words):
    head = page([], status).partition("</dl>")[0]
    assert words in head
    assert ("Run the same command" in head) == (status.state != "finished")


def test_empty_history_has_no_charts():
    assert "<svg" not in page([], STATUS)


def test_text_is_escaped():
    assert "<u>" not in page(records(), RunStatus("<u>", 10, state="failed", reason="<u>", settings={"data": "<u>"}))


def test_points_are_drawn_to_scale():
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

"""HTML page of a training run: metrics, curves and settings."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from bert_tf.config.files import staged_file
from bert_tf.reports.curves import Level, Series, line_chart
from bert_tf.reports.html import element, extended
from bert_tf.reports.style import styled_page
from bert_tf.reports.training.baselines import expectations
from bert_tf.reports.training.examples import filled_examples
from bert_tf.training.evaluation.baselines import Baseline
from bert_tf.training.evaluation.context import Evaluation
from bert_tf.training.logging.run_log import HISTORY_NAME, REPORT_NAME, read_history

_HISTORY_LIMIT = 400  # maximum points per curve, about the width in pixels
_TRAIN, _HELD_OUT = "train", "validation"


@dataclass(frozen=True)
class Curve:
    """One chart.

    Args:
        name: name of the metric.
        heading: heading of the chart.
        form: format of a value, such as `{:.1%}`.
    """

    name: str
    heading: str
    form: str


_CURVES = (
    Curve("loss", "Loss", "{:.3f}"),
    Curve("mlm_loss", "Masked tokens: loss", "{:.3f}"),
    Curve("mlm_accuracy", "Masked tokens: accuracy", "{:.1%}"),
    Curve("nsp_accuracy", "Next sentence: accuracy", "{:.1%}"),
    Curve("accuracy", "Accuracy", "{:.1%}"),
    Curve("learning_rate", "Learning rate", "{:.2e}"),
    Curve("gradient_norm", "Gradient norm", "{:.2f}"),
    Curve("tokens_per_second", "Tokens per second", "{:,.0f}"),
    Curve("mfu", "Model FLOPs utilization", "{:.1%}"),
    Curve("input_wait", "Share of time waiting for data", "{:.1%}"),
    Curve("padding", "Share of padding", "{:.1%}"),
)
_FIGURES = (
    ("mlm_accuracy", "masked token accuracy, validation", "{:.1%}"),
    ("mlm_perplexity", "perplexity, validation", "{:,.1f}"),
    ("nsp_accuracy", "next sentence accuracy, validation", "{:.1%}"),
    ("accuracy", "accuracy, validation", "{:.1%}"),
)


def write_report(
    output: Path, settings: Mapping[str, Any], total_steps: int, evaluation: Evaluation | None = None
) -> Path:
    """Writes the report of a run atomically and prints its path.

    Args:
        output: output directory of the run.
        settings: settings of the run, as nested dictionaries.
        total_steps: total number of steps.
        evaluation: last evaluation.

    Returns:
        The path of the report.
    """
    path = output / REPORT_NAME
    with staged_file(path) as file:
        file.write(page(read_history(output / HISTORY_NAME), settings, total_steps, evaluation).encode())
    print(f"report: {path}", file=sys.stderr)
    return path


def page(
    records: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
    total_steps: int,
    evaluation: Evaluation | None = None,
) -> str:
    """Renders the page of a run.

    Args:
        records: records of the history file.
        settings: settings of the run, as nested dictionaries.
        total_steps: total number of steps.
        evaluation: last evaluation.

    Returns:
        The HTML document.
    """
    step = max((record["step"] for record in records), default=0)
    title = f"{step:,} of {total_steps:,} steps"
    main = element("main", element("p", "bert_tf training", class_="kicker"), element("h1", title))
    extended(main, [element("dl", *_metric_boxes(records), class_="figures")])
    if evaluation:
        extended(main, expectations(evaluation))
    expected = evaluation.expected if evaluation else Baseline()
    main.append(element("h2", "Curves"))
    main.append(element("p", "Lines: training, averaged between points. Dots: validation.", class_="note"))
    charts = [
        element("div", element("h3", curve.heading), chart, class_="card")
        for curve, chart in _charts(records, expected)
    ]
    main.append(element("div", *charts, class_="pair"))
    if evaluation:
        extended(main, filled_examples(evaluation.filled))
    main.append(element("h2", "Settings"))
    main.append(element("dl", *_settings(settings), class_="settings"))
    return styled_page(f"Training: {title}", main)


def _metric_boxes(records: Sequence[Mapping[str, Any]]) -> Iterator[Element]:
    last: dict[str, Mapping[str, Any]] = {
        split: next((r for r in reversed(records) if r["split"] == split), {}) for split in (_TRAIN, _HELD_OUT)
    }
    boxes = [(words, form.format(last[_HELD_OUT][name])) for name, words, form in _FIGURES if name in last[_HELD_OUT]]
    for name, words, form in (
        ("loss", "loss, training", "{:.3f}"),
        ("tokens_per_second", "tokens per second", "{:,.0f}"),
        ("mfu", "model FLOPs utilization", "{:.1%}"),
    ):
        if name in last[_TRAIN]:
            boxes.append((words, form.format(last[_TRAIN][name])))
    for words, value in boxes:
        yield element("div", element("dt", words), element("dd", value, class_="big"))


def _charts(records: Sequence[Mapping[str, Any]], expected: Baseline) -> Iterator[tuple[Curve, Element]]:
    for curve in _CURVES:
        series = []
        for split in (_TRAIN, _HELD_OUT):
            points = [(r["step"], r[curve.name]) for r in records if r["split"] == split and curve.name in r]
            series.append(Series(split, _thinned(points)))
        if any(one.points for one in series):
            known = (("chance", expected.chance), ("published", expected.published))
            levels = [Level(word, values[curve.name]) for word, values in known if curve.name in values]
            yield curve, line_chart(curve.heading, "step", series, curve.form, levels)


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns at most `_HISTORY_LIMIT` points; longer curves are averaged over adjacent points."""
    width = -(-len(points) // _HISTORY_LIMIT) or 1
    groups = [points[begin : begin + width] for begin in range(0, len(points), width)]
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]


def _settings(settings: Mapping[str, Any], prefix: str = "") -> Iterator[Element]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _settings(value, f"{prefix}{name}.")
        else:
            yield element("dt", f"{prefix}{name}")
            yield element("dd", str(value), class_="mono")

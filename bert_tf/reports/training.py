"""HTML page of a training run: metrics, baselines, curves, sample predictions and settings."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bert_tf.entry.amounts import in_time, plural
from bert_tf.reports.charts import Chart, Level, Series, line_chart
from bert_tf.reports.page import render, write_page
from bert_tf.reports.text import flattened, piece
from bert_tf.training.evaluation.baselines import Baseline, Evaluation
from bert_tf.training.evaluation.mask_samples import GUESSES, FilledExample
from bert_tf.training.logging.run_log import read_history
from bert_tf.training.logging.run_status import FAILED, FINISHED, RUNNING, STOPPED, RunStatus
from bert_tf.training.output import HISTORY_NAME, REPORT_NAME

_HISTORY_LIMIT = 400  # maximum points per curve, about the width in pixels
# Characters of a fingerprint, as git abbreviates hashes.
_FINGERPRINT = 10
_UNKNOWN = "not recorded"
_RESUME = "Run the same command to resume."
_NEXT_STEPS = {
    RUNNING: f"If the last update is old, the process has ended. {_RESUME}",
    STOPPED: _RESUME,
    FAILED: _RESUME,
}
_TRAIN, _HELD_OUT = "train", "validation"
# Name of the metric, heading of the chart, format of a value.
_CURVES = (
    ("loss", "Loss", "{:.3f}"),
    ("mlm_loss", "Masked tokens: loss", "{:.3f}"),
    ("mlm_accuracy", "Masked tokens: accuracy", "{:.1%}"),
    ("causal_lm_loss", "Next tokens: loss", "{:.3f}"),
    ("causal_lm_accuracy", "Next tokens: accuracy", "{:.1%}"),
    ("nsp_accuracy", "Next sentence: accuracy", "{:.1%}"),
    ("accuracy", "Accuracy", "{:.1%}"),
    ("learning_rate", "Learning rate", "{:.2e}"),
    ("gradient_norm", "Gradient norm", "{:.2f}"),
    ("tokens_per_second", "Tokens per second", "{:,.0f}"),
    ("mfu", "Model FLOPs utilization", "{:.1%}"),
    ("input_wait", "Share of time waiting for data", "{:.1%}"),
    ("padding", "Share of padding", "{:.1%}"),
)
# Split, name, words and format of the metrics in large type.
_LAST_METRICS = (
    (_HELD_OUT, "mlm_accuracy", "masked token accuracy, validation", "{:.1%}"),
    (_HELD_OUT, "mlm_perplexity", "perplexity, validation", "{:,.1f}"),
    (_HELD_OUT, "causal_lm_accuracy", "next token accuracy, validation", "{:.1%}"),
    (_HELD_OUT, "causal_lm_perplexity", "perplexity, validation", "{:,.1f}"),
    (_HELD_OUT, "nsp_accuracy", "next sentence accuracy, validation", "{:.1%}"),
    (_HELD_OUT, "accuracy", "accuracy, validation", "{:.1%}"),
    (_TRAIN, "loss", "loss, training", "{:.3f}"),
    (_TRAIN, "tokens_per_second", "tokens per second", "{:,.0f}"),
    (_TRAIN, "mfu", "model FLOPs utilization", "{:.1%}"),
)
# Name, words and format of the metrics that have baselines.
_WITH_BASELINE = (
    ("mlm_accuracy", "Masked tokens: accuracy", "{:.2%}"),
    ("mlm_loss", "Masked tokens: loss", "{:.3f}"),
    ("mlm_perplexity", "Masked tokens: perplexity", "{:,.2f}"),
    ("causal_lm_accuracy", "Next tokens: accuracy", "{:.2%}"),
    ("causal_lm_loss", "Next tokens: loss", "{:.3f}"),
    ("causal_lm_perplexity", "Next tokens: perplexity", "{:,.2f}"),
    ("nsp_accuracy", "Next sentence: accuracy", "{:.2%}"),
)


def write_report(output: Path, status: RunStatus, evaluation: Evaluation | None = None) -> Path:
    """Writes the report of a run atomically and returns its path, which it prints unless the run goes on.

    Args:
        output: output directory of the run, with its history.
        status: the state of the run.
        evaluation: its last evaluation; None if this process has not evaluated yet.

    Returns:
        `output/report.html`.
    """
    path = output / REPORT_NAME
    write_page(path, page(read_history(output / HISTORY_NAME), status, evaluation))
    if status.state != RUNNING:
        print(f"report: {path}", file=sys.stderr)
    return path


def page(records: Sequence[Mapping[str, Any]], status: RunStatus, evaluation: Evaluation | None = None) -> str:
    """Renders the page of `write_report` from the records of the history file."""
    evaluation = evaluation or Evaluation({})
    return render(
        "training.html.jinja",
        heading=status.name,
        state=state_words(status),
        is_good=status.state in (RUNNING, FINISHED),
        next_step=_NEXT_STEPS.get(status.state, ""),
        head=list(_head(status)),
        metrics=list(_last_metrics(records)),
        baseline=evaluation.expected,
        comparison=list(_comparison(evaluation)),
        curves=list(_charts(records, evaluation.expected)),
        examples=[_filled(example) for example in evaluation.filled],
        guesses=[(f"Guess {number}", "") for number in range(1, GUESSES + 1)],
        settings=dict(flattened(status.settings)),
    )


def state_words(status: RunStatus) -> tuple[str, str]:
    """Returns the state of a run as a word, and a sentence on its progress.

    Args:
        status: the state.

    Example:
        >>> from bert_tf.reports.training import state_words
        >>> from bert_tf.training.logging.run_status import RunStatus
        >>> state_words(RunStatus("runs/mine", 1000, step=300, eta_seconds=400.0))
        ('Running', '300 of 1,000 steps, about 6 min 40 s left')
        >>> state_words(RunStatus("runs/mine", 1000, step=300, state="stopped", reason="SIGTERM"))
        ('Stopped', '300 of 1,000 steps, by SIGTERM')
    """
    words = f"{status.step:,} of {plural(status.total_steps, 'step')}"
    if status.state == RUNNING and status.eta_seconds is not None:
        words += f", about {in_time(status.eta_seconds)} left"
    elif status.state == FINISHED and status.step < status.total_steps:
        words += ", ended early because the metric did not improve"
    elif status.reason:
        words += f", by {status.reason}" if status.state == STOPPED else f": {status.reason}"
    return status.state.capitalize(), words


def _head(status: RunStatus) -> Iterator[tuple[str, str, str]]:
    """Yields name, value and further facts of model, data and dates; facts that old runs lack are left out."""
    yield "Model", status.model.get("kind", _UNKNOWN), ", ".join(_model_facts(status))
    yield "Data", status.data.get("data_name", _UNKNOWN), ", ".join(_data_facts(status))
    yield "Started", _time(status.started), f"last update {_time(status.updated)}"


def _model_facts(status: RunStatus) -> Iterator[str]:
    encoder, training = _mapping(status.settings.get("model")), _mapping(status.settings.get("training"))
    if "num_layers" in encoder and "hidden_dim" in encoder:
        yield f"{plural(encoder['num_layers'], 'layer')} of {encoder['hidden_dim']}"
    if encoder.get("body", "bert") != "bert":
        yield f"body {encoder['body']}"
    if "parameters" in status.model:
        yield plural(status.model["parameters"], "parameter")
    if "precision" in training:
        yield training["precision"]
    if training.get("strategy", "none") != "none":
        yield f"{training['strategy']} on {plural(status.model.get('devices', 1), 'device')}"
    if "backend" in status.model:
        yield status.model["backend"]


def _data_facts(status: RunStatus) -> Iterator[str]:
    data, fingerprint = status.data, status.settings.get("data")
    if "train_examples" in data:
        yield plural(data["train_examples"], "training example")
    if "max_sequence_length" in data:
        yield f"up to {data['max_sequence_length']} tokens"
    if "lowercase" in data:
        yield "uncased" if data["lowercase"] else "cased"
    if isinstance(fingerprint, str):
        yield f"fingerprint {fingerprint[:_FINGERPRINT]}"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _time(time: str) -> str:
    """Returns an ISO 8601 time in UTC for people."""
    return f"{time[:16].replace('T', ' ')} UTC" if time else _UNKNOWN


def _last_metrics(records: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    last: dict[str, Mapping[str, Any]] = {record["split"]: record for record in records}
    for split, name, words, form in _LAST_METRICS:
        if name in last.get(split, {}):
            yield words, form.format(last[split][name]), ""


def _comparison(evaluation: Evaluation) -> Iterator[list[str]]:
    for name, words, form in _WITH_BASELINE:
        if name in evaluation.figures:
            sources = (evaluation.figures, evaluation.expected.chance, evaluation.expected.published)
            yield [words, *(form.format(source[name]) if name in source else "–" for source in sources)]


def _charts(records: Sequence[Mapping[str, Any]], expected: Baseline) -> Iterator[tuple[str, Chart]]:
    for name, heading, form in _CURVES:
        series = []
        for split in (_TRAIN, _HELD_OUT):
            points = [(r["step"], r[name]) for r in records if r["split"] == split and name in r]
            series.append(Series(split, _thinned(points)))
        if any(one.points for one in series):
            known = (("chance", expected.chance), ("published", expected.published))
            levels = [Level(word, values[name]) for word, values in known if name in values]
            yield heading, line_chart(heading, "step", series, form, levels)


def _filled(example: FilledExample) -> dict[str, Any]:
    """Returns the tokens of an example and its predictions by position."""
    predictions = {}
    for filling in example.fillings:
        guess, probability = filling.guesses[0]
        original = example.tokens[filling.position].original
        is_right = example.is_right(filling)
        predictions[filling.position] = {
            "kind": "right" if is_right else "wrong",
            "guess": piece(guess),
            "above": f"{probability:.0%}" if is_right else piece(original),
            "title": f"{original}; predicted: {guess}, {probability:.1%}",
            "correct": f"{'✓' if is_right else '✗'} {piece(original)}",
            "cells": [f"{filling.probability:.1%}", *(f"{piece(text)} {share:.1%}" for text, share in filling.guesses)],
        }
    right = sum(map(example.is_right, example.fillings))
    return {"tokens": example.tokens, "right": right, "predictions": predictions}


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns at most `_HISTORY_LIMIT` points; longer curves are averaged over adjacent points."""
    width = -(-len(points) // _HISTORY_LIMIT) or 1
    groups = [points[begin : begin + width] for begin in range(0, len(points), width)]
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]

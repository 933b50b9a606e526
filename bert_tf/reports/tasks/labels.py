"""Sections on a classification: confusion matrix, calibration, metrics by label, worst errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.reports.charts import Chart, heat_chart, reliability_chart
from bert_tf.reports.tasks.label_metrics import Calibration, LabelMetrics
from bert_tf.reports.tasks.scored import ScoredLabels
from bert_tf.reports.text import SHOWN_WORST, percent, worst

# Maximum labels of a matrix with numbers, of a matrix as a chart (rarer labels are merged), and of the table of scores.
_MOST_IN_NUMBERS, _MOST_DRAWN, _MOST_LISTED = 12, 60, 300
# Up to this many labels, the matrix and the calibration are placed side by side.
_MOST_BESIDE = 3
_MOST_CONFUSED = 15
_OTHERS = "all others"


def label_context(scored: ScoredLabels) -> dict[str, Any]:
    """Returns the variables of `labels.html.jinja`."""
    metrics = LabelMetrics(scored)
    labels, confusion, scores = metrics.labels, metrics.confusion, metrics.scores()
    mistakes = list(metrics.mistakes())
    right, total = int(np.trace(confusion)), int(confusion.sum())
    is_drawn = len(labels) > _MOST_IN_NUMBERS
    return {
        "labels": labels,
        "beside": len(labels) <= _MOST_BESIDE,
        "correct": f"{right:,} of {total:,} correct ({percent(right, total)})",
        "confusion": confusion.tolist(),
        "heat": heat_chart(*_most_frequent(labels, confusion)) if is_drawn else None,
        "confused": metrics.confused()[:_MOST_CONFUSED] if is_drawn else [],
        "calibration": _calibration(metrics.calibration(), 0.5 if len(scored.labels) == 2 else 0.0),
        "all_labels": len(scores) if len(scores) > _MOST_LISTED else 0,
        "scores": scores if len(scores) <= _MOST_LISTED else sorted(scores, key=lambda one: -one.gold)[:_MOST_LISTED],
        "worst": worst(mistakes, lambda mistake: mistake.predicted_probability),
        "all_errors": len(mistakes) if len(mistakes) > SHOWN_WORST else 0,
    }


def _most_frequent(labels: Sequence[str], counts: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Returns labels and counts; if there are too many labels to draw, the rarest are merged."""
    if len(labels) <= _MOST_DRAWN:
        return list(labels), counts
    frequency = counts.sum(axis=0) + counts.sum(axis=1)
    kept = np.sort(np.argsort(-frequency, kind="stable")[: _MOST_DRAWN - 1])
    group = np.full(len(labels), len(kept))
    group[kept] = np.arange(len(kept))
    grouped = np.zeros((len(kept) + 1, len(kept) + 1), np.int64)
    np.add.at(grouped, (group[:, None], group[None]), counts)
    return [*(labels[number] for number in kept), _OTHERS], grouped


def _calibration(calibration: Calibration, lowest: float) -> tuple[str, Chart]:
    """Returns the note on a calibration and its chart."""
    off = calibration.overconfidence
    side = "overconfident" if off > 0 else "underconfident"
    note = (
        f"Expected calibration error {calibration.error:.3f}: the mean difference between the probability of the "
        f"predicted label and the accuracy. Overall the model is {abs(off):.1%} {side}. Dots on the dashed line are "
        "perfectly calibrated; the bars show the number of predictions per dot."
    )
    columns = (calibration.counts, calibration.confidence, calibration.accuracy)
    bins = list(zip(*(column.tolist() for column in columns), strict=True))
    return note, reliability_chart(bins, lowest, f"Expected calibration error {calibration.error:.3f}.")

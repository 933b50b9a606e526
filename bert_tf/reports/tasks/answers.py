"""HTML page of a model's predictions: metrics, confusions, and the worst errors with their texts.

The page is self-contained, without scripts or network access, and limited to a few megabytes for any texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bert_tf.reports.page import render, write_page
from bert_tf.reports.tasks.labels import label_context
from bert_tf.reports.tasks.numbers import number_context
from bert_tf.reports.tasks.scored import Scored, ScoredLabels, ScoredNumbers
from bert_tf.reports.tasks.spans import entity_context, question_context
from bert_tf.reports.text import cut, format_metric, named

ANSWERS_NAME = "answers.html"


def write_answers_page(path: Path, title: str, scored: Scored, metrics: Mapping[str, float], remark: str) -> None:
    """Writes the page atomically; `remark` is a warning about the predictions as a whole, or empty."""
    if isinstance(scored, ScoredLabels):
        template, context, rows = "labels.html.jinja", label_context(scored), len(scored.rows)
    elif isinstance(scored, ScoredNumbers):
        template, context, rows = "numbers.html.jinja", number_context(scored), len(scored.rows)
    elif any(row.heading for row in scored):
        template, context, rows = "questions.html.jinja", question_context(scored), len(scored)
    else:
        template, context, rows = "entities.html.jinja", entity_context(scored), len(scored)
    boxes = [(named(name, 60), format_metric(value), "") for name, value in metrics.items()]
    write_page(path, render(template, heading=cut(title, 200), examples=rows, remark=remark, metrics=boxes, **context))

"""HTML page of a model's predictions: metrics, confusions, and the worst errors with their texts.

The page is self-contained, without scripts or network access, and limited to a few megabytes for any texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree.ElementTree import Element

from bert_tf.reports.html import element, extended
from bert_tf.reports.parts import heading, metric_boxes, warning, write_page
from bert_tf.reports.tasks.labels import label_sections
from bert_tf.reports.tasks.numbers import number_sections
from bert_tf.reports.tasks.scored import Scored, ScoredLabels, ScoredNumbers
from bert_tf.reports.tasks.spans import span_sections

ANSWERS_NAME = "answers.html"


def write_answers_page(path: Path, title: str, scored: Scored, metrics: Mapping[str, float], remark: str) -> None:
    """Writes the page atomically.

    Args:
        path: destination of the page.
        title: name of the evaluated data.
        scored: the predictions with their labels.
        metrics: official metrics by name.
        remark: warning about the predictions as a whole, or empty.
    """
    rows = scored.rows if isinstance(scored, ScoredLabels | ScoredNumbers) else scored
    main = element("main")
    extended(main, heading("bert_tf predictions", title, f"{len(rows):,} examples."))
    extended(main, warning(remark))
    if metrics:
        main.append(metric_boxes(metrics))
    extended(main, _sections(scored))
    write_page(path, f"Predictions: {title}", main)


def _sections(scored: Scored) -> Iterator[Element]:
    if isinstance(scored, ScoredLabels):
        return label_sections(scored)
    if isinstance(scored, ScoredNumbers):
        return number_sections(scored)
    return span_sections(scored)

"""A model's answers as one HTML page: figures, what is confused with what, and the worst errors with their texts.

The page needs no other file, no script and no network, and stays below a few megabytes whatever the texts are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree.ElementTree import Element

from bert_tf.reports.html import element, extended
from bert_tf.reports.parts import heading, metric_boxes, warning, write_page
from bert_tf.reports.tasks.labels import label_sections
from bert_tf.reports.tasks.numbers import number_sections
from bert_tf.reports.tasks.spans import span_sections
from bert_tf.tasks.scored import Scored, ScoredLabels, ScoredNumbers

ANSWERS_NAME = "answers.html"


def write_answers_page(path: Path, title: str, scored: Scored, metrics: Mapping[str, float], remark: str) -> None:
    """Writes the page, whole or not at all.

    Args:
        path: where it goes.
        title: what was answered.
        judged: the answers.
        metrics: official figures by name.
        remark: what is wrong with the answers as a whole; empty where nothing is.
    """
    rows = scored.rows if isinstance(scored, ScoredLabels | ScoredNumbers) else scored
    main = element("main")
    extended(main, heading("bert_tf answers", title, f"{len(rows):,} examples."))
    extended(main, warning(remark))
    if metrics:
        main.append(metric_boxes(metrics))
    extended(main, _sections(scored))
    write_page(path, f"Answers: {title}", main)


def _sections(scored: Scored) -> Iterator[Element]:
    if isinstance(scored, ScoredLabels):
        return label_sections(scored)
    if isinstance(scored, ScoredNumbers):
        return number_sections(scored)
    return span_sections(scored)

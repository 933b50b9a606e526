"""Baselines section of the training report."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from bert_tf.reports.data.page import table_card
from bert_tf.reports.html import Content, element
from bert_tf.training.evaluation.context import Evaluation

_FIGURES = (
    ("mlm_accuracy", "Masked tokens: accuracy", "{:.2%}"),
    ("mlm_loss", "Masked tokens: loss", "{:.3f}"),
    ("mlm_perplexity", "Masked tokens: perplexity", "{:,.2f}"),
    ("nsp_accuracy", "Next sentence: accuracy", "{:.2%}"),
)
_COLUMNS = (("Validation", ""), ("This run", "n"), ("Chance", "n"), ("Published", "n"))


def expectations(evaluation: Evaluation) -> Iterator[Element]:
    """Yields the section on the baselines of an evaluation, or nothing if it has none."""
    expected = evaluation.expected
    if not expected.chance and not expected.published:
        return
    yield element("h2", "Baselines")
    note = "Chance: the best constant guess on this validation set; it is harder to beat on small sets."
    if expected.source:
        note += f" Published: after full training, on different text ({expected.source})."
    yield element("p", note, class_="note")
    if expected.remarks:
        remarks = element("ul", *(element("li", remark) for remark in expected.remarks))
        yield element("div", element("b", "Unexpected metrics"), remarks, class_="verdict warn")
    yield table_card(_COLUMNS, _rows(evaluation))


def _rows(evaluation: Evaluation) -> Iterator[list[Content]]:
    for name, words, form in _FIGURES:
        if name in evaluation.figures:
            sources = (evaluation.figures, evaluation.expected.chance, evaluation.expected.published)
            yield [words, *(form.format(source[name]) if name in source else "–" for source in sources)]

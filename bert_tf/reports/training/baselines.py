"""What the last figures of a run were to be, for its page."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from bert_tf.reports.data.page import table_card
from bert_tf.reports.html import Content, element
from bert_tf.training.evaluation.context import Evaluation

_FIGURES = (
    ("mlm_accuracy", "Masked words: right", "{:.2%}"),
    ("mlm_loss", "Masked words: loss", "{:.3f}"),
    ("mlm_perplexity", "Masked words: perplexity", "{:,.2f}"),
    ("nsp_accuracy", "Next sentence: right", "{:.2%}"),
)
_COLUMNS = (("Held out", ""), ("Here", "n"), ("Chance", "n"), ("Published", "n"))


def expectations(evaluation: Evaluation) -> Iterator[Element]:
    """Yields the section of an evaluation; nothing where nothing is known to expect."""
    expected = evaluation.expected
    if not expected.chance and not expected.published:
        return
    yield element("h2", "What to expect")
    note = "Chance is the best constant guess, made in knowledge of these very data: the fewer, the harder to beat."
    if expected.source:
        note += f" Published: after full training, on other text ({expected.source})."
    yield element("p", note, class_="note")
    if expected.remarks:
        remarks = element("ul", *(element("li", remark) for remark in expected.remarks))
        yield element("div", element("b", "Outside of what is to be expected"), remarks, class_="verdict warn")
    yield table_card(_COLUMNS, _rows(evaluation))


def _rows(evaluation: Evaluation) -> Iterator[list[Content]]:
    for name, words, form in _FIGURES:
        if name in evaluation.figures:
            sources = (evaluation.figures, evaluation.expected.chance, evaluation.expected.published)
            yield [words, *(form.format(source[name]) if name in source else "–" for source in sources)]

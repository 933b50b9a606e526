"""Report on spans: answers to questions in their contexts, or entities in their sentences."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from bert_tf.reports.data.facts import percent, plural
from bert_tf.reports.html import Content, element
from bert_tf.reports.parts import bounded, chart_card
from bert_tf.reports.tasks.charts import stacked_chart
from bert_tf.reports.tasks.entities import Entities, in_words
from bert_tf.reports.tasks.labels import scores_table
from bert_tf.reports.tasks.sampling import SHOWN_WORST, spread, worst
from bert_tf.reports.tasks.scored import ScoredSpans, Span
from bert_tf.reports.tasks.span_outcomes import FATES, RIGHT, Outcome, by_type, outcomes
from bert_tf.reports.text import WHOLE, Window, cut, is_shown, shown, windows

_SHOWN_RIGHT = 25
_MOST_TYPES = 40
_PARTIAL, _WRONG = "partial", "wrong"
# Maximum length of an answer text, and maximum number of gold answers.
_LONGEST_ANSWER, _MOST_RIGHT = 200, 4
_NO_ANSWER = "no answer"


@dataclass(frozen=True)
class _Example:
    """A text and the outcomes of its entities."""

    row: ScoredSpans
    found: Sequence[Outcome]

    @property
    def badness(self) -> tuple[float, int]:
        """Sort key: examples with a lower score are worse, then examples with more wrong spans."""
        return -self.row.right, sum(one.fate != RIGHT for one in self.found)


def span_sections(rows: Sequence[ScoredSpans]) -> Iterator[Element]:
    """Yields the sections on predicted spans: as answers if the texts have headings, else as entities."""
    if any(row.heading for row in rows):
        yield element("h2", "Scores")
        yield _verdicts(rows)
        yield from _examples([_Example(row, ()) for row in rows], _question, _question_legend(), "question")
        return
    found = [_Example(row, outcomes(row)) for row in rows]
    scores = by_type(rows)
    entities = Entities(score.label for score in scores)
    yield element("h2", "Outcomes")
    yield _fates(found)
    if scores:
        yield element("h2", "By type")
        yield scores_table(("Type", "Gold", "Predicted"), scores[:_MOST_TYPES])
    yield from _examples(
        found, lambda example: entities.article_parts(example.row, example.found), entities.legend(), "text"
    )


def _verdict(row: ScoredSpans) -> str:
    return RIGHT if row.right >= 1 else _PARTIAL if row.right > 0 else _WRONG


def _verdicts(rows: Sequence[ScoredSpans]) -> Element:
    kinds = (RIGHT, _PARTIAL, _WRONG)
    lines = []
    for name, has_answer in (("with an answer", True), ("without one", False)):
        counts = Counter(_verdict(row) for row in rows if bool(row.gold) == has_answer)
        if counts:
            lines.append((name, [counts[kind] for kind in kinds]))
    sums = [f"{percent(sum(line[place] for _, line in lines), len(rows))} {kind}" for place, kind in enumerate(kinds)]
    left_out = sum(bool(row.gold) and not row.predicted for row in rows)
    note = f" {left_out:,} with an answer were predicted to have none." if left_out else ""
    keys = element("ul", *(_key(kind) for kind in kinds), class_="legend")
    chart = element("div", keys, stacked_chart("Questions by score", kinds, lines))
    return chart_card("Questions", f"{', '.join(sums)}.{note}", chart, "wide narrow")


def _fates(examples: Sequence[_Example]) -> Element:
    counts: dict[str, Counter[str]] = {}
    for example in examples:
        for one in example.found:
            counts.setdefault(one.spans[0].label, Counter())[one.fate] += 1
    lines = sorted(((name, [count[fate] for fate in FATES]) for name, count in counts.items()),
                   key=lambda line: -sum(line[1]))[:_MOST_TYPES]  # fmt: skip
    total = Counter(fate for count in counts.values() for fate in count.elements())
    note = ", ".join(f"{total[fate]:,} {in_words(fate)}" for fate in FATES)
    keys = element("ul", *(_key(fate) for fate in FATES), class_="legend")
    chart = element("div", keys, stacked_chart("Entities by outcome", FATES, lines))
    return chart_card("Entities", f"{note}.", chart, "wide narrow")


def _key(fate: str) -> Element:
    return element("li", element("i", class_=f"key fate-{fate}"), in_words(fate))


def _examples(
    examples: Sequence[_Example], parts: Callable[[_Example], Iterator[Element]], legend: Element, what: str
) -> Iterator[Element]:
    """Yields the worst examples and a sample of right ones."""
    wrong = [example for example in examples if example.row.right < 1]
    right = [example for example in examples if example.row.right >= 1]
    chosen = worst(wrong, lambda example: example.badness)
    yield element("h2", f"The worst {plural(len(chosen), what)}" if chosen else "No errors")
    if chosen:
        note = f"{len(wrong):,} of {len(examples):,} are not fully right."
        some = " The worst are shown; ties are sampled evenly over the file."
        yield element("p", note + (some if len(wrong) > SHOWN_WORST else ""), class_="note")
    yield legend
    yield from _articles(chosen, parts)
    if right:
        sample = spread(right, _SHOWN_RIGHT)
        of_all = f" of {len(right):,}" if len(right) > len(sample) else ""
        yield element("h2", f"{plural(len(sample), what)}{of_all} predicted correctly")
        yield from _articles(sample, parts)


def _articles(examples: Sequence[_Example], parts: Callable[[_Example], Iterator[Element]]) -> Iterator[Element]:
    return bounded(examples, lambda number, example: _article(number, example.row, parts(example)))


def _article(number: int, row: ScoredSpans, parts: Iterator[Element]) -> Element:
    kind = _verdict(row)
    pill = element("span", f"{kind} {row.right:.2f}" if kind == _PARTIAL else kind, class_=f"pill {kind}")
    header = element("header", element("b", f"{number}"), pill, element("bdi", cut(row.place, 120), class_="mono"))
    return element("article", header, *parts, class_="card answer")


def _question_legend() -> Element:
    samples = (("gold", "gold answer"), ("found", "predicted answer"), ("gold found", "both"))
    return element(
        "ul", *(element("li", element("mark", text, class_=kind)) for kind, text in samples), class_="legend"
    )


def _question(example: _Example) -> Iterator[Element]:
    row = example.row
    yield element("p", element("bdi", cut(row.heading, WHOLE)), class_="question", dir="auto")
    golds = list(dict.fromkeys(row.text[span.start : span.end] for span in row.gold))
    predictions = [row.text[span.start : span.end] for span in row.predicted]
    more = f" and {len(golds) - _MOST_RIGHT} more" if len(golds) > _MOST_RIGHT else ""
    yield element(
        "dl",
        element("dt", "predicted"), element("dd", *_answers(predictions[:1]), class_="texts"),
        element("dt", "gold"), element("dd", *_answers(golds[:_MOST_RIGHT]), more, class_="texts"),
        class_="said",
    )  # fmt: skip
    spans = [(span.start, span.end) for span in (*row.predicted[:1], *row.gold)]
    kept = windows(row.text, spans)
    yield element("p", *_marked(row, kept), class_="read small", dir="auto")
    hidden = sum(not is_shown(*span, kept) for span in dict.fromkeys(spans))
    if hidden:
        yield element("p", f"{plural(hidden, 'more answer')} outside the shown text", class_="note")


def _answers(texts: Sequence[str]) -> Iterator[Content]:
    if not texts:
        yield element("i", _NO_ANSWER)
    for number, text in enumerate(texts):
        if number:
            yield " · "
        yield element("bdi", cut(text, _LONGEST_ANSWER))


def _marked(row: ScoredSpans, kept: Sequence[Window]) -> Iterator[Content]:
    """Yields the shown parts of a context, with the gold answers and the predicted answer marked."""
    for window in kept:
        if window.start:
            yield element("span", "…", class_="gapmark")
        for start, end in pieces((*row.gold, *row.predicted[:1]), window):
            classes = [
                kind
                for kind, spans in (("gold", row.gold), ("found", row.predicted[:1]))
                if any(span.start <= start and end <= span.end for span in spans)
            ]
            text = shown(row.text[start:end])
            yield element("mark", text, class_=" ".join(classes)) if classes else text
    if kept and kept[-1].end < len(row.text):
        yield element("span", "…", class_="gapmark")


def pieces(spans: Sequence[Span], window: Window) -> Iterator[tuple[int, int]]:
    """Splits a window at all span boundaries and yields the (start, end) parts."""
    places = {place for span in spans for place in (span.start, span.end) if window.start < place < window.end}
    cuts = [window.start, *sorted(places), window.end]
    yield from itertools.pairwise(cuts)

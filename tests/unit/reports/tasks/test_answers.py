"""Pages of predictions, parsed by an independent parser and compared with the data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from jinja2 import UndefinedError

from bert_tf.reports import page as pages
from bert_tf.reports.tasks.answers import write_answers_page
from bert_tf.reports.tasks.scored import (
    Scored,
    ScoredLabel,
    ScoredLabels,
    ScoredNumber,
    ScoredNumbers,
    ScoredSpans,
    Span,
)
from tests.support.reports.page_reader import Page

HOSTILE = "<script>alert(1)</script>\x00\x07 &amp; \"q\" 'x' \ud800 \u202eabc ף 😀" + "Z\u0300\u0301"
LONG = "word " * 100_000


def page_of(tmp_path: Path, scored: Scored, title: str = "dev", remark: str = "") -> Page:
    path = tmp_path / "answers.html"
    write_answers_page(path, title, scored, {"accuracy": 0.5, "exact": 80.25, "none": float("nan")}, remark)
    assert path.stat().st_size < 4_000_000
    assert [found.name for found in tmp_path.iterdir()] == ["answers.html"]
    page = Page(path.read_text(encoding="utf-8"))
    page.refuse_foreign()
    assert not page.all("script")
    return page


def labels_of(count: int, rows: int = 400) -> ScoredLabels:
    rng = np.random.default_rng(count)
    names = tuple(f"label{number}" for number in range(count))
    shares = rng.dirichlet(np.full(count, 0.5), rows)
    gold = rng.integers(0, count, rows)
    return ScoredLabels(
        names,
        [
            ScoredLabel(f"dev.tsv:{number}", (("text", f"text {number}"),), names[g], tuple(p.tolist()))
            for number, (g, p) in enumerate(zip(gold, shares, strict=True))
        ],
    )


@pytest.mark.parametrize("count", [2, 3, 8])
def test_confusion_matrix_contains_the_counts(tmp_path: Path, count: int) -> None:
    scored = labels_of(count)
    page = page_of(tmp_path, scored)
    cells = page.texts("b", within="matrix")
    expected = [
        sum(row.gold == gold and int(np.argmax(row.probabilities)) == given for row in scored.rows)
        for gold in scored.labels
        for given in range(count)
    ]
    assert [int(cell) for cell in cells] == expected


@pytest.mark.parametrize("count", [40, 90])
def test_confusion_matrix_of_many_labels_counts_every_row(tmp_path: Path, count: int) -> None:
    page = page_of(tmp_path, labels_of(count))
    cells = [text for _, text in page.all("rect", "cell")]
    assert sum(int(text.rpartition(": ")[2].split()[0].replace(",", "")) for text in cells) == 400
    assert ("all others" in page.texts("text", "name")) == (count > 60)


def test_most_confident_errors_are_shown(tmp_path: Path) -> None:
    scored = labels_of(3)
    page = page_of(tmp_path, scored)
    wrong = [row for row in scored.rows if scored.labels[int(np.argmax(row.probabilities))] != row.gold]
    wrong.sort(key=lambda row: -max(row.probabilities))
    assert len(wrong) > 100
    assert page.texts("bdi", "mono") == [row.place for row in wrong[:100]]
    said = page.texts("dd", within="said")
    assert said[:4] == [
        scored.labels[int(np.argmax(wrong[0].probabilities))], f"{max(wrong[0].probabilities):.1%}", wrong[0].gold,
        f"{wrong[0].probabilities[scored.labels.index(wrong[0].gold)]:.1%}",
    ]  # fmt: skip


def test_metrics_and_remark_are_shown(tmp_path: Path) -> None:
    page = page_of(tmp_path, labels_of(2), "SST-2", "collapsed: all of them")
    assert page.texts("dd", "big") == ["0.5000", "80.25", "not defined"]
    assert page.texts("div", "warn") == ["collapsed: all of them"]
    assert page.texts("h1") == ["SST-2"] and page.texts("title")[0] == "Predictions: SST-2"


def test_page_states_that_all_predictions_are_correct(tmp_path: Path) -> None:
    rows = [ScoredLabel("1", (("text", "a"),), "a", (0.9, 0.1)), ScoredLabel("2", (("text", "b"),), "b", (0.1, 0.9))]
    assert "All 2 predictions are correct." in page_of(tmp_path, ScoredLabels(("a", "b"), rows)).texts("p", "note")


def hostile_scored() -> dict[str, Scored]:
    labels = (HOSTILE, "\u202e", "", "x" * 5000)
    rng = np.random.default_rng(0)
    rows = [
        ScoredLabel(HOSTILE, ((HOSTILE, HOSTILE), ("b", LONG), ("c", "")), (*labels, "new")[n % 5], tuple(p.tolist()))
        for n, p in enumerate(rng.dirichlet(np.ones(4), 200))
    ]
    numbers = [ScoredNumber(HOSTILE, (("a", LONG),), 1.0, float("nan")), ScoredNumber("", (("a", HOSTILE),), 1.0, 3.0)]
    questions = [
        ScoredSpans(
            HOSTILE, HOSTILE + LONG, LONG, (Span(0, 4, ""), Span(200_000, 400_000, "")), (Span(9, 300_000, ""),), 0.0
        )
    ] * 120  # fmt: skip
    dense = ScoredSpans(
        HOSTILE, "", "ab" * 450, tuple(Span(i, i + 1, f"T{i % 30}") for i in range(900)),
        tuple(Span(i, i + 2, HOSTILE) for i in range(0, 898, 2)), 0.0,
    )  # fmt: skip
    nested = ScoredSpans("", "", HOSTILE, tuple(Span(0, i, "T") for i in range(1, 40)), (Span(5, 5, "T"),), 0.5)
    return {
        "labels": ScoredLabels(labels, rows),
        "numbers": ScoredNumbers(numbers),
        "questions": questions,
        "entities": [dense] * 30 + [nested] * 60,
    }


@pytest.mark.parametrize("kind", ["labels", "numbers", "questions", "entities"])
def test_any_text_is_escaped_and_truncated(tmp_path: Path, kind: str) -> None:
    page = page_of(tmp_path, hostile_scored()[kind], HOSTILE, f"{HOSTILE}: {HOSTILE}")
    assert "<script>alert(1)</script>␀␇" in "".join(page.texts("h1"))
    assert not set("".join(page.texts("body"))) & {chr(code) for code in range(32)} - {"\n", "\t"}


def test_numbers_and_their_differences(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    rows = [
        ScoredNumber(f"{n}", (("a", "x"),), float(g), float(g + d))
        for n, (g, d) in enumerate(zip(rng.uniform(0, 5, 300), rng.normal(size=300), strict=True))
    ]
    page = page_of(tmp_path, ScoredNumbers(rows))
    assert len(page.all("circle", "cloud")) == 300
    bars = [text for _, text in page.all("rect", "bar")]
    assert sum(int(text.split(": ")[1].split()[0]) for text in bars) == 300
    order = sorted(rows, key=lambda row: -abs(row.predicted - row.gold))
    assert page.texts("bdi", "mono") == [row.place for row in order[:100]]


def question(place: str, gold: tuple[Span, ...], predicted: tuple[Span, ...], right: float) -> ScoredSpans:
    context = f"{'before ' * 300}the Denver Broncos won{' after' * 300}"
    return ScoredSpans(place, "Who won?", context, gold, predicted, right)


def test_answers_are_marked_in_their_contexts(tmp_path: Path) -> None:
    begin = 7 * 300 + 4
    gold, short = Span(begin, begin + 14, ""), Span(begin + 7, begin + 14, "")
    far = Span(3, 9, "")
    rows = [
        question("partial", (gold,), (short,), 0.67), question("right", (gold,), (gold,), 1.0),
        question("wrong", (gold,), (far,), 0.0), question("unseen", (gold,), (), 0.0),
        question("made up", (), (short,), 0.0), question("none", (), (), 1.0),
    ]  # fmt: skip
    page = page_of(tmp_path, rows)
    assert page.texts("bdi", "mono") == ["wrong", "unseen", "made up", "partial", "right", "none"]
    assert page.texts("span", "pill") == ["wrong", "wrong", "wrong", "partial 0.67", "correct", "correct"]
    marks = [(attributes["class"], text) for attributes, text in page.all("mark")][3:]
    assert marks == [
        ("predicted", "ore be"), ("gold", "Denver Broncos"), ("gold", "Denver Broncos"), ("predicted", "Broncos"),
        ("gold", "Denver "), ("gold predicted", "Broncos"), ("gold predicted", "Denver Broncos"),
    ]  # fmt: skip
    assert max(map(len, page.texts("p", "read"))) < 900
    said = page.texts("dd", "texts")
    assert said[:6] == ["ore be", "Denver Broncos", "no answer", "Denver Broncos", "Broncos", "no answer"]
    bars = [text for _, text in page.all("rect") if text]
    assert bars == [
        "with an answer: 1 correct (25.0%)", "with an answer: 1 partial (25.0%)", "with an answer: 2 wrong (50.0%)",
        "without one: 1 correct (50.0%)", "without one: 1 wrong (50.0%)",
    ]  # fmt: skip


def test_entity_outcomes_are_distinguished_by_shape(tmp_path: Path) -> None:
    text = "Ada met Bob Ray in Rome near Kew Gardens today"
    gold = (Span(0, 3, "PER"), Span(8, 15, "PER"), Span(19, 23, "LOC"), Span(29, 40, "LOC"))
    found = (Span(0, 3, "PER"), Span(8, 11, "PER"), Span(19, 23, "ORG"), Span(41, 46, "ORG"))
    page = page_of(tmp_path, [ScoredSpans("dev:1", "", text, gold, found, 0.25)])
    boxes = [(attributes["class"].split()[1], text) for attributes, text in page.all("span", "entity", within="answer")]
    assert boxes == [
        ("correct", "AdaPER"), ("boundary", "Bob RayPER boundary"), ("type", "RomeLOC ORG"),
        ("missed", "Kew Gardensmissed LOC"), ("spurious", "todayspurious ORG"),
    ]  # fmt: skip
    parts = [(a["class"], text) for a, text in page.all("i", within="boundary") if "class" in a]
    assert ("g p", "Bob") in parts and ("g", " Ray") in parts
    note = page.texts("p", "note", within="answer")
    assert note == ["1 correct, 1 with wrong boundary, 1 with wrong type, 1 missed, 1 spurious."]
    assert page.texts("td", within="compact")[:6] == ["PER", "50.0%", "50.0%", "50.0%", "2", "2"]


@pytest.mark.parametrize(
    "name", ["palette.css", "chart.css", "page.css", "tasks.css", "attention.css", "attention.js", "sort.js"]
)
def test_assets_are_included_unchanged(name: str) -> None:
    assert pages.asset(name) == (Path(pages.__file__).parent / "assets" / name).read_text()


def test_an_asset_never_ends_its_element(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets/bad.js").write_text("'</script>'")
    monkeypatch.setattr(pages.resources, "files", lambda package: tmp_path)
    with pytest.raises(ValueError, match="must not contain an end tag"):
        pages.asset("bad.js")


def test_a_missing_variable_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="heading"):
        pages.render("training.html.jinja")

"""The page and the text of a report, read back by an independent parser and compared with the facts."""

from __future__ import annotations

import dataclasses
import re
import shutil
from html.parser import HTMLParser

import pytest

from bert_tf.data.examples.sample_examples import KEPT, MASKED, REPLACED, SHOWN_EXAMPLES, Example, Token
from bert_tf.data.manifest import Source
from bert_tf.reports.data.facts import DataReport, describe, describe_data
from bert_tf.reports.data.page import page
from bert_tf.reports.data.words import in_words, spelt
from tests.support.data.report_samples import CONFIG, HOSTILE, SINGLES, STATIC, write_sample

VOID = {"meta", "img", "br", "link", "input"}


class Page(HTMLParser):
    """Collects (path of open elements, attributes, own text) in document order; rejects unbalanced tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[tuple[str, ...], dict[str, str], list[str]]] = []
        self._open: list[int] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attributes) -> None:
        path = (*(self.elements[index][0][-1] for index in self._open), tag)
        self.elements.append((path, dict(attributes), []))
        if tag not in VOID:
            self._open.append(len(self.elements) - 1)

    def handle_endtag(self, tag) -> None:
        assert self.elements[self._open.pop()][0][-1] == tag

    def handle_data(self, data) -> None:
        for index in self._open:
            self.elements[index][2].append(data)

    def find(self, tag: str, class_: str = "") -> list[tuple[dict[str, str], str]]:
        return [
            (attributes, "".join(text))
            for path, attributes, text in self.elements
            if path[-1] == tag and (not class_ or class_ in attributes.get("class", "").split())
        ]


@pytest.fixture(scope="module", params=[CONFIG, STATIC, SINGLES], ids=["dynamic", "static", "singles"])
def report(request, tmp_path_factory) -> DataReport:
    directory = tmp_path_factory.mktemp("data")
    write_sample(directory, request.param)
    return describe_data(directory)


@pytest.fixture(scope="module")
def parsed(report: DataReport) -> Page:
    return Page(page(report))


def hostile(report: DataReport) -> DataReport:
    """Returns a report with markup in every text of the corpus or the user."""
    sources = (Source(HOSTILE[0], HOSTILE[1], HOSTILE[2], 2.0, 1, 1, 9, 0, 0, {HOSTILE[0]: 9}),) * 2
    tokens = tuple(
        Token(piece, 0, original, fate)
        for piece in HOSTILE
        for original, fate in ((HOSTILE[0], REPLACED), (piece, KEPT), ("", ""), (f"##{HOSTILE[1]}", MASKED))
    )
    examples = (Example(HOSTILE[0], 1, "next", tokens),)
    changes = {"sources": sources, "rejected": {HOSTILE[0]: 900}, "versions": {HOSTILE[0]: HOSTILE[1]}}
    return describe(dataclasses.replace(report.manifest, **changes), examples)


def test_text_of_the_corpus_is_escaped(report: DataReport) -> None:
    dangerous = hostile(report)
    text = page(dangerous)
    parsed = Page(text)
    assert {"script", "img", "b"} & {path[-1] for path, _, _ in parsed.elements} == {"b"}
    assert "<script" not in text and "<img" not in text
    assert HOSTILE[0] in {above for _, above in parsed.find("rt")}
    assert HOSTILE[1] in {now for _, now in parsed.find("span", "now")}
    assert parsed.find("code")[0][1] == HOSTILE[0]
    assert any(HOSTILE[0] in words for _, words in parsed.find("li"))
    ((_, shown),) = parsed.find("p", "segment")
    assert shown.count("&amp;") == 5


def test_page_is_self_contained(report: DataReport, parsed: Page) -> None:
    assert {path[-1] for path, _, _ in parsed.elements}.isdisjoint({"script", "link", "iframe", "img", "object"})
    used = {name for _, attributes, _ in parsed.elements for name in attributes}
    assert not [name for name in used if name in ("src", "href") or name.startswith("on")]
    ((_, style),) = parsed.find("style")
    assert "url(" not in style and "@import" not in style
    assert "prefers-color-scheme: dark" in style and "max-width" in style
    assert "http" not in re.sub(r"<article.*</article>", "", page(report), flags=re.S)


def test_every_chart_has_a_text_alternative(report: DataReport, parsed: Page) -> None:
    charts = parsed.find("svg")
    assert len(charts) == (4 if report.balance else 3)
    for attributes, _ in charts:
        assert attributes["role"] == "img" and attributes["aria-label"]
    for path in ("title", "desc"):
        assert sum(found[-2:] == ("svg", path) for found, _, _ in parsed.elements) == len(charts)
    assert parsed.find("html")[0][0]["lang"] == "en"
    assert [attributes["scope"] for attributes, _ in parsed.find("th")].count("col") == len(parsed.find("th"))


def test_histogram_counts_every_example(report: DataReport, parsed: Page) -> None:
    bars = ["".join(text) for path, _, text in parsed.elements if path[-3:] == ("svg", "rect", "title")]
    counted = [re.fullmatch(r"([\d,]+) to ([\d,]+) tokens: ([\d,]+) \(.*\)", bar) for bar in bars]
    values = [tuple(int(group.replace(",", "")) for group in match.groups()) for match in counted if match]
    assert values == report.example_bins(32) + report.document_bins()
    assert sum(count for _, _, count in values[:32]) == report.total_examples


def test_headline_figures(report: DataReport, parsed: Page) -> None:
    shown = dict(zip([t for _, t in parsed.find("dt")], [t for _, t in parsed.find("dd", "big")], strict=False))
    assert shown == {
        "Examples": "160",
        "Documents": "1,000",
        "Tokens": "70,000",
        "Fill": f"{report.manifest.fill:.1%}",
        "[UNK] rate": "0.100%",
        "On disk": shown["On disk"],
    }
    assert parsed.find("h1")[0][1] == "160 examples of up to 32 tokens"
    cells = [text for _, text in parsed.find("td")]
    assert {"/corpus/<b>*.txttext, en, 2.5 MB", "1,200", "1,000", "70,000", "200", "16.7% of all read"} <= set(cells)


def test_the_page_shows_the_examples(report: DataReport, parsed: Page) -> None:
    articles = parsed.find("article")
    assert len(articles) == len(report.examples) == SHOWN_EXAMPLES
    for (_, text), example in zip(articles, report.examples, strict=True):
        assert f"{len(example.tokens)} tokens, {example.predicted} predicted" in text
        assert f"{example.shard}, record {example.record}" in text
    fates = [token.fate for example in report.examples for token in example.tokens if token.fate]
    # The legend above shows one of each.
    assert [attributes["class"] for attributes, _ in parsed.find("ruby")] == [MASKED, REPLACED, KEPT, *fates]
    predicted = [token for example in report.examples for token in example.tokens if token.fate]
    assert [now for _, now in parsed.find("span", "now")][3:] == [token.text for token in predicted]
    shown = [above.replace("·", "##") for _, above in parsed.find("rt")][3:]
    assert shown == [token.original for token in predicted]
    segments = [attributes["data-name"] for attributes, _ in parsed.find("p", "segment")]
    assert segments == ["A"] * 20 if not report.balance else ["A", "B"] * 20
    assert len(parsed.find("bdi")) == (3 if report.balance else 2) * 20


def test_page_depends_only_on_the_data(tmp_path) -> None:
    (tmp_path / "one").mkdir()
    write_sample(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert page(describe_data(tmp_path / "one")) == page(describe_data(tmp_path / "two"))


def test_damaged_data_has_no_page(tmp_path) -> None:
    write_sample(tmp_path)
    shard = next(tmp_path.glob("train-00001*"))
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(ValueError, match="train-00001"):
        describe_data(tmp_path)


def test_manifest_without_statistics_has_a_page(report: DataReport) -> None:
    bare = dataclasses.replace(
        report.manifest, sources=(), histograms={}, label_histogram={}, rejected={}, counts={"examples": 160}
    )
    empty = describe(bare, ())
    assert len(Page(page(empty)).find("svg")) == 0
    assert "160 examples" in in_words(empty)


# The text.


def words(*tokens: Token) -> str:
    return spelt(tokens)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ((Token("[CLS]", 0), Token("play", 0), Token("##ing", 0), Token(",", 0)), "[CLS] playing ,"),
        ((Token("[MASK]", 0, "word", MASKED), Token("##s", 0)), "[MASK→word]s"),
        ((Token("a", 0), Token("[MASK]", 0, "##bc", MASKED), Token("d", 0)), "a[MASK→##bc] d"),
        ((Token("a", 0), Token("##x", 0, "word", REPLACED)), "a [##x→word]"),
        ((Token("a", 0), Token("word", 0, "word", KEPT)), "a [word→word]"),
        ((Token("a", 0), Token("##b", 0, "##b", KEPT)), "a[##b→##b]"),
        ((), ""),
    ],
)
def test_tokens_are_joined_to_words(tokens: tuple[Token, ...], text: str) -> None:
    assert words(*tokens) == text


def test_text_summary_has_the_statistics_of_the_page(report: DataReport) -> None:
    text = in_words(report)
    assert text.startswith("160 examples of up to 32 tokens\n")
    figures = dict(re.findall(r"^([\w\[\] ]+?)  +([\d,.%]+)  ", text.partition("\n\nSources")[0], flags=re.M))
    assert figures["Documents"] == "1,000" and figures["Tokens"] == "70,000" and figures["[UNK] rate"] == "0.100%"
    assert re.search(r"^  /corpus/<b>\*\.txt +3 +2.5 MB +1,200 +1,000 +70,000 +100.0%$", text, flags=re.M)
    assert re.search(r"^  empty +200 +16.7%  documents without text$", text, flags=re.M)
    masks = report.masks
    assert re.search(rf"^  \[MASK\] +{masks.masked} ", text, flags=re.M)
    listed = re.findall(r"^ +\d+ to \d+ +(\d+) +[<\d.%]+", text.partition("Documents by")[0], flags=re.M)
    assert [int(count) for count in listed] == [count for _, _, count in report.example_bins(8)]
    for title in ("Left out", "Masks of the examples below", "20 examples", "Configuration", "Versions"):
        assert f"\n\n{title}\n" in text
    assert ("\n\nLabels\n" in text) == bool(report.balance)


def test_text_of_an_example_contains_every_token(report: DataReport) -> None:
    text = in_words(report).partition("20 examples")[2]
    blocks = re.split(r"\n\n  \d+\. ", text.partition("\n\nConfiguration")[0])[1:]
    assert len(blocks) == 20
    for block, example in zip(blocks, report.examples, strict=True):
        shown = "".join(re.sub(r"^     [AB ]  ", "", line) + " " for line in block.splitlines()[1:]).split()
        parts = (spelt(token for token in example.tokens if token.segment == segment) for segment in (0, 1))
        assert shown == " ".join(parts).split()
    assert all(len(line) <= 102 for line in text.splitlines())

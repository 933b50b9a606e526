"""HTML page of the report on a data directory: self-contained, without scripts or network access."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from xml.etree.ElementTree import Element

from bert_tf.data.examples.sample_examples import KEPT, MASKED, NEXT, RANDOM, REPLACED, SINGLE, Example, Token
from bert_tf.data.manifest import Source
from bert_tf.reports.charts import Bar, balance_chart, bullet_chart, column_chart
from bert_tf.reports.data.facts import (
    DataReport,
    MaskShares,
    Quantiles,
    flattened,
    headline,
    in_bytes,
    percent,
    plural,
    reason_in_words,
    share,
)
from bert_tf.reports.html import Content, element, extended
from bert_tf.reports.style import styled_page
from bert_tf.text.vocabulary import CONTINUATION, UNK

_COLUMNS = 32  # bars in the histogram of example lengths
_LABELS = {
    NEXT: "next: B follows A in the document",
    RANDOM: "random: B is from another document",
    SINGLE: "single segment",
}
_FATES = {MASKED: "replaced by [MASK]", REPLACED: "replaced by a random piece", KEPT: "unchanged"}


def page(report: DataReport) -> str:
    """Renders the page; it depends only on the data and contains no date or path."""
    title, about = headline(report)
    kicker, lead = element("p", "bert_tf pre-training data", class_="kicker"), element("p", about, class_="lead")
    main = element("main", kicker, element("h1", title), lead, _verdict(report), _totals(report))
    for section in (_sources, _left_out, _lengths, _labels_and_masks, _examples, _provenance):
        extended(main, section(report))
    return styled_page(f"Pre-training data: {title}", main)


def _verdict(report: DataReport) -> Element:
    if report.warnings:
        items = (element("li", warning) for warning in report.warnings)
        heading = element("b", plural(len(report.warnings), "warning"))
        return element("div", heading, element("ul", *items), class_="verdict warn", role="note")
    text = "[UNK] rate, single-sentence documents, label balance, fill and left-out documents are within their limits."
    return element("div", element("b", "No warnings. "), text, class_="verdict", role="note")


def _totals(report: DataReport) -> Element:
    manifest = report.manifest
    counts = manifest.counts
    documents, tokens = counts.get("documents", 0), counts.get("tokens", 0)
    splits = " + ".join(f"{manifest.examples(split):,} {split}" for split in manifest.shards)
    per_document = f"{share(tokens, documents):,.0f} a document, {counts.get('sentences', 0):,} sentences"
    figures = (
        ("Examples", f"{report.total_examples:,}", splits),
        ("Documents", f"{documents:,}", f"of {report.documents_read:,} read"),
        ("Tokens", f"{tokens:,}", per_document),
        ("Fill", f"{manifest.fill:.1%}", f"of {manifest.config.max_seq_length} tokens, on average"),
        ("[UNK] rate", f"{manifest.unk_rate:.3%}", f"{counts.get('unknown_tokens', 0):,} tokens"),
        ("On disk", in_bytes(report.total_bytes), plural(sum(map(len, manifest.shards.values())), "shard")),
    )
    boxes = (
        element("div", element("dt", name), element("dd", value, class_="big"), element("dd", more, class_="more"))
        for name, value, more in figures
    )
    return element("dl", *boxes, class_="figures")


def _sources(report: DataReport) -> Iterator[Element]:
    sources = report.manifest.sources
    if not sources:
        return
    yield element("h2", "Sources")
    tokens = sum(source.tokens for source in sources)
    yield table_card(
        (("Source", ""), ("Files", "n"), ("Documents read", "n"), ("Used", "n"), ("Tokens", "n"), ("Share", "share")),
        ((_source_name(source), f"{source.files:,}", f"{source.documents_read:,}", f"{source.documents:,}",
          f"{source.tokens:,}", _meter(source.tokens, tokens, "of all tokens")) for source in sources),
    )  # fmt: skip


def _source_name(source: Source) -> Element:
    weight = f", weight {source.weight:g}" if source.weight != 1 else ""
    about = f"{source.format}, {source.language}, {in_bytes(source.bytes)}{weight}"
    return element("div", element("code", source.input), element("span", about, class_="under"))


def _left_out(report: DataReport) -> Iterator[Element]:
    manifest = report.manifest
    yield element("h2", "Left out")
    if not manifest.rejected:
        yield element("p", f"None of the {report.documents_read:,} documents read was left out.", class_="note")
        return
    total = sum(manifest.rejected.values())
    yield element(
        "p",
        f"{total:,} of {report.documents_read:,} documents read ({percent(total, report.documents_read)}).",
        class_="note",
    )
    yield table_card(
        (("Reason", ""), ("Documents", "n"), ("Of all read", "share")),
        ((_reason(reason, manifest.sources), f"{count:,}", _meter(count, report.documents_read, "of all read"))
         for reason, count in sorted(manifest.rejected.items(), key=lambda item: (-item[1], item[0]))),
    )  # fmt: skip


def _reason(reason: str, sources: Iterable[Source]) -> Element:
    owners = [source for source in sources if source.left_out.get(reason)]
    parts: list[Content] = [element("code", reason)]
    if words := reason_in_words(reason):
        parts.append(f" {words}")
    if len(owners) > 1 or len(list(sources)) > 1:
        places = "; ".join(f"{source.left_out[reason]:,} in {source.input}" for source in owners)
        parts.append(element("span", places, class_="under"))
    return element("div", *parts)


def _lengths(report: DataReport) -> Iterator[Element]:
    cards = [card for card in (_example_lengths(report), _document_lengths(report)) if card is not None]
    if cards:
        yield element("h2", "Lengths")
        yield element("div", *cards, class_="pair")


def _example_lengths(report: DataReport) -> Element | None:
    if not report.example_lengths:
        return None
    bins, longest = report.example_bins(_COLUMNS), report.manifest.config.max_seq_length
    bars = [Bar(count, f"{begin:,} to {end:,} tokens") for begin, end, count in bins]
    ticks = [(len(bars) * part / 4, f"{longest * part // 4}") for part in range(5)]
    full = percent(report.full_examples, report.total_examples)
    note = f"{_in_words(report.example_lengths)} {full} are full. Special tokens included."
    return _chart_card("Examples by length", note, column_chart("Examples by length", note, bars, ticks))


def _document_lengths(report: DataReport) -> Element | None:
    if not report.document_lengths:
        return None
    bins = report.document_bins()
    bars = [Bar(count, f"{begin:,} to {end:,} tokens") for begin, end, count in bins]
    edges = [begin for begin, _, _ in bins] + [bins[-1][1] + 1]
    ticks = [(number, f"{edge:,}") for number, edge in enumerate(edges)][:: 1 + len(bars) // 6]
    note = f"{_in_words(report.document_lengths)} Each bar spans twice the lengths of the one before."
    return _chart_card("Documents by length", note, column_chart("Documents by length", note, bars, ticks))


def _in_words(lengths: Quantiles) -> str:
    return f"Half have at most {lengths.p50:,} tokens, 95% at most {lengths.p95:,}, all at most {lengths.max:,}."


def _labels_and_masks(report: DataReport) -> Iterator[Element]:
    config, masks, balance = report.manifest.config, report.masks, report.balance
    cards = []
    if balance:
        note = (
            f"{balance.next:,} next, {balance.random:,} random. The band is the tolerance around the expected "
            f"{balance.expected:.0%}: four standard deviations."
        )
        cards.append(_chart_card("Label balance", note, balance_chart(balance)))
    if masks.predicted:
        rows = (
            ("[MASK]", masks.masked, config.mask_share),
            ("random", masks.random, config.random_share),
            ("kept", masks.kept, 1 - config.mask_share - config.random_share),
        )
        chart = bullet_chart(
            "Masking of predicted positions", [(name, share(n, masks.predicted), p) for name, n, p in rows]
        )
        cards.append(_chart_card("Masks of the examples below", _mask_note(masks, report), chart))
    if cards:
        yield element("h2", "Labels and masks" if balance else "Masks")
        yield element("div", *cards, class_="pair")


def _mask_note(masks: MaskShares, report: DataReport) -> str:
    config = report.manifest.config
    unit = {"piece": "by piece", "whole_word": "by whole words", "span": f"by spans of 1 to {config.max_ngram} words"}
    return (
        f"{masks.predicted:,} of {masks.tokens:,} positions are predicted "
        f"({percent(masks.predicted, masks.tokens)}; configured: {config.masked_lm_prob:.0%}, at most "
        f"{config.max_predictions_per_seq} per example, {unit[config.mask_unit]}). Lines mark the configured shares."
    )


def _examples(report: DataReport) -> Iterator[Element]:
    if not report.examples:
        return
    yield element("h2", f"{len(report.examples)} examples")
    source = "those of the records" if report.manifest.config.masking == "static" else (
        "drawn for this page; training draws new masks in every epoch"
    )  # fmt: skip
    yield element(
        "p",
        f"Model inputs, sampled from all shards. The piece to predict is shown above each masked position. "
        f"Masks are {source}. A dot separates the pieces of a word.",
        class_="note",
    )
    samples = (
        (Token("[MASK]", 0, "word", MASKED), "hidden"),
        (Token("other", 0, "word", REPLACED), "replaced by a random piece"),
        (Token("word", 0, "word", KEPT), "kept, but predicted"),
    )
    yield element(
        "ul", *(element("li", token_element(token), f" {words}") for token, words in samples), class_="legend"
    )
    for number, example in enumerate(report.examples, start=1):
        yield _example(number, example)


def _example(number: int, example: Example) -> Element:
    header = element(
        "header",
        element("b", f"{number}"),
        element("span", _LABELS[example.label], class_="label"),
        element("span", f"{len(example.tokens)} tokens, {example.predicted} predicted"),
        element("span", f"{example.shard}, record {example.record}", class_="mono"),
    )
    segments = sorted({token.segment for token in example.tokens})
    paragraphs = (
        extended(
            element("p", class_=f"segment {'ab'[segment]}", data_name="AB"[segment], dir="auto"),
            _spaced_tokens(token for token in example.tokens if token.segment == segment),
        )
        for segment in segments
    )
    return element("article", header, *paragraphs, class_="card example")


def _spaced_tokens(tokens: Iterable[Token]) -> Iterator[Content]:
    """Yields the tokens with spaces between words."""
    for number, token in enumerate(tokens):
        if number and not token.continues:
            yield " "
        yield token_element(token)


def token_element(token: Token) -> Content:
    """Renders one position: its text and, above a masked one, the piece to predict."""
    if token.fate:
        above = token.original.replace(CONTINUATION, "\u00b7", 1) if token.continues else token.original
        meaning = f"{token.original}: {_FATES[token.fate]}" + (f", {token.piece}" if token.fate == REPLACED else "")
        return element("ruby", element("span", token.text, class_="now"), element("rp", " ("), element("rt", above),
                       element("rp", ")"), class_=token.fate, title=meaning)  # fmt: skip
    if token.special:
        return element("bdi", token.piece, class_="unknown" if token.piece == UNK else "special")
    return element("span", token.text, class_="piece") if token.continues else token.text


def _provenance(report: DataReport) -> Iterator[Element]:
    manifest = report.manifest
    yield element("h2", "Configuration and versions")
    versions = manifest.versions | {
        "Unicode": manifest.unicode_version,
        "schema": manifest.schema_version,
        "vocabulary SHA-256": manifest.vocabulary_sha256,
    }
    yield element(
        "div",
        element(
            "div",
            element("h3", "Configuration"),
            _settings(dict(flattened(dataclasses.asdict(manifest.config)))),
            class_="card",
        ),
        element("div", element("h3", "Versions"), _settings(versions), class_="card"),
        class_="pair",
    )
    shards = [shard for shards in manifest.shards.values() for shard in shards]
    table = table_card(
        (("Shard", ""), ("Examples", "n"), ("Bytes", "n"), ("SHA-256", "")),
        (
            (element("code", shard.name), f"{shard.examples:,}", f"{shard.bytes:,}", element("code", shard.sha256))
            for shard in shards
        ),
    )
    yield element("details", element("summary", f"{plural(len(shards), 'shard')} and their checksums"), table)


def _settings(settings: Mapping[str, Any]) -> Element:
    items = [item for name, value in settings.items() for item in (element("dt", name), element("dd", _setting(value)))]
    return element("dl", *items, class_="settings")


def _setting(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else f"{value}"


def table_card(columns: Iterable[tuple[str, str]], rows: Iterable[Iterable[Content]]) -> Element:
    """Renders a table on a card; on narrow screens each row is a block.

    Args:
        columns: heading and CSS class of each column; `n` is for numbers.
        rows: cells of each row.

    Returns:
        The card.
    """
    columns = list(columns)
    head = element("tr", *(element("th", name, class_=kind, scope="col") for name, kind in columns))
    body = (
        element(
            "tr",
            *(
                element("td", cell, class_=kind, data_name=name)
                for (name, kind), cell in zip(columns, row, strict=True)
            ),
        )
        for row in rows
    )
    return element("div", element("table", element("thead", head), element("tbody", *body)), class_="card tablecard")


def _meter(part: float, whole: float, words: str) -> Element:
    bar = element("span", element("i", style=f"width:{share(part, whole):.2%}"), class_="meter", aria_hidden="true")
    return element("div", f"{percent(part, whole)} ", element("span", words, class_="note"), bar)


def _chart_card(title: str, note: str, chart: Element) -> Element:
    return element("section", element("h3", title), element("p", note, class_="note"), chart, class_="card")

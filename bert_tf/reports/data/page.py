"""HTML page of the report on a data directory: self-contained, without scripts or network access."""

from __future__ import annotations

import dataclasses

from bert_tf.data.examples.sample_examples import KEPT, MASKED, REPLACED, Token
from bert_tf.reports.charts import WIDTH, Bar, Chart, Row, Scale, column_chart, row_chart
from bert_tf.reports.data.facts import REASONS, SIGMAS, DataReport, LabelBalance, headline
from bert_tf.reports.page import render
from bert_tf.reports.text import flattened, percent, share

_COLUMNS = 32  # bars in the histogram of example lengths
_LEGEND = (
    (Token("[MASK]", 0, "word", MASKED), "hidden"),
    (Token("other", 0, "word", REPLACED), "replaced by a random piece"),
    (Token("word", 0, "word", KEPT), "kept, but predicted"),
)
# Title, note and chart.
Card = tuple[str, str, Chart]


def page(report: DataReport) -> str:
    """Renders the page; it depends only on the data and contains no date or path."""
    manifest = report.manifest
    heading, lead = headline(report)
    versions = manifest.versions | {
        "Unicode": manifest.unicode_version,
        "schema": manifest.schema_version,
        "vocabulary SHA-256": manifest.vocabulary_sha256,
    }
    return render(
        "data.html.jinja",
        heading=heading,
        lead=lead,
        report=report,
        manifest=manifest,
        counts={"documents": 0, "tokens": 0, "sentences": 0, "unknown_tokens": 0} | manifest.counts,
        reasons=[(reason, count, REASONS.get(reason, "")) for reason, count in report.left_out],
        lengths=[*_example_lengths(report), *_document_lengths(report)],
        shares=[*_label_balance(report.balance), *_masks(report)],
        legend=_LEGEND,
        config=dict(flattened(dataclasses.asdict(manifest.config))),
        versions=versions,
        shards=[shard for shards in manifest.shards.values() for shard in shards],
    )


def _example_lengths(report: DataReport) -> list[Card]:
    if not report.example_lengths:
        return []
    longest = report.manifest.config.max_seq_length
    bars = _bars(report.example_bins(_COLUMNS))
    ticks = [(len(bars) * part / 4, f"{longest * part // 4}") for part in range(5)]
    full = percent(report.full_examples, report.total_examples)
    title, note = "Examples by length", f"{report.example_lengths} {full} are full. Special tokens included."
    return [(title, note, column_chart(title, note, bars, ticks))]


def _document_lengths(report: DataReport) -> list[Card]:
    if not report.document_lengths:
        return []
    bins = report.document_bins()
    edges = [begin for begin, _, _ in bins] + [bins[-1][1] + 1]
    ticks = [(number, f"{edge:,}") for number, edge in enumerate(edges)][:: 1 + len(bins) // 6]
    title = "Documents by length"
    note = f"{report.document_lengths} Each bar spans twice the lengths of the one before."
    return [(title, note, column_chart(title, note, _bars(bins), ticks))]


def _bars(bins: list[tuple[int, int, int]]) -> list[Bar]:
    return [Bar(count, f"{begin:,} to {end:,} tokens") for begin, end, count in bins]


def _label_balance(balance: LabelBalance | None) -> list[Card]:
    if not balance:
        return []
    note = (
        f"{balance.next:,} next, {balance.random:,} random. The band is the tolerance around the expected "
        f"{balance.expected:.0%}: four standard deviations."
    )
    return [("Label balance", note, _balance_chart(balance))]


def _balance_chart(balance: LabelBalance) -> Chart:
    """Draws the deviation of the share of random pairs from the expected share, in standard deviations."""
    description = (
        f"{balance.share:.2%} of the pairs are random; {balance.expected:.2%} were expected, "
        f"with a tolerance of {SIGMAS * balance.sigma:.2%} on either side."
    )
    chart = Chart("Share of random pairs", description, 92)
    x, y = Scale(-6, 6, 16, WIDTH - 16), 40.0
    chart.bar("allowed", (x(-SIGMAS), y - 14), (x(SIGMAS) - x(-SIGMAS), 28))
    chart.line("axis", (x.start, x.end), (y, y))
    chart.line("axis", (x(0), x(0)), (y - 14, y + 14))
    at = x(max(x.low, min(x.high, balance.deviation)))
    kind = "dot" if abs(balance.deviation) <= SIGMAS else "dot off"
    chart.dot(kind, at, y, 7, f"{balance.deviation:+.1f} standard deviations")
    for sigmas in (-SIGMAS, 0.0, SIGMAS):
        chart.label(f"{balance.expected + sigmas * balance.sigma:.2%}", x(sigmas), y + 32)
    chart.label(f"{balance.share:.2%}", at, y - 22, kind="value")
    return chart


def _masks(report: DataReport) -> list[Card]:
    masks, config = report.masks, report.manifest.config
    if not masks.predicted:
        return []
    unit = {"piece": "by piece", "whole_word": "by whole words", "span": f"by spans of 1 to {config.max_ngram} words"}
    note = (
        f"{masks.predicted:,} of {masks.tokens:,} positions are predicted "
        f"({percent(masks.predicted, masks.tokens)}; configured: {config.masked_lm_prob:.0%}, at most "
        f"{config.max_predictions_per_seq} per example, {unit[config.mask_unit]}). Lines mark the configured shares."
    )
    rows, words = [], []
    for name, count, expected in report.mask_rows:
        part = share(count, masks.predicted)
        words.append(f"{name} {part:.1%}, {expected:.1%} expected")
        rows.append(Row(name, [("bar", part, words[-1])], f"{part:.1%}", expected))
    chart = row_chart("Masking of predicted positions", f"{'; '.join(words)}.", rows)
    return [("Masks of the examples below", note, chart)]

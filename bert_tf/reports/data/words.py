"""Plain-text report on a data directory for the terminal, with the facts of `page` in the same order."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from bert_tf.data.examples.sample_examples import MASKED, Token
from bert_tf.data.manifest import Source
from bert_tf.entry.amounts import plural
from bert_tf.reports.data.facts import REASONS, SIGMAS, DataReport, headline
from bert_tf.reports.text import flattened, in_bytes, percent, share

_WIDTH = 100
_BAR = 40


def in_words(report: DataReport) -> str:
    """Renders the report as plain text."""
    config = flattened(dataclasses.asdict(report.manifest.config))
    sections = (
        ("", _head(report)),
        ("Sources", _sources(report)),
        ("Left out", _left_out(report)),
        ("Examples by length", _example_lengths(report)),
        ("Documents by length", _document_lengths(report)),
        ("Labels", _labels(report)),
        ("Masks of the examples below", _masks(report)),
        (f"{len(report.examples)} examples", _examples(report)),
        ("Configuration", _aligned([[name, f"{value}"] for name, value in config])),
        ("Versions", _aligned([[name, version] for name, version in report.manifest.versions.items()])),
    )
    blocks = []
    for title, lines in sections:
        if body := list(lines):
            blocks.append("\n".join([title, *(f"  {line}".rstrip() for line in body)] if title else body))
    return "\n\n".join(blocks)


def _head(report: DataReport) -> Iterator[str]:
    manifest, counts = report.manifest, report.manifest.counts
    yield from headline(report)
    yield ""
    for warning in report.warnings:
        yield from textwrap.wrap(f"! {warning}", _WIDTH, subsequent_indent="  ")
    yield from ["No warnings.", ""] if not report.warnings else [""]
    splits = " + ".join(f"{manifest.examples(split):,} {split}" for split in manifest.shards)
    documents, tokens = counts.get("documents", 0), counts.get("tokens", 0)
    per_document = f"{share(counts.get('sentences', 0), documents):,.1f} a document"
    yield from _aligned([
        ["Examples", f"{report.total_examples:,}", splits],
        ["Documents", f"{documents:,}", f"of {report.documents_read:,} read"],
        ["Sentences", f"{counts.get('sentences', 0):,}", per_document],
        ["Tokens", f"{tokens:,}", f"{share(tokens, documents):,.0f} a document"],
        ["Fill", percent(manifest.fill), f"of {manifest.config.max_seq_length} tokens, on average"],
        ["[UNK] rate", percent(manifest.unk_rate, digits=3), f"{counts.get('unknown_tokens', 0):,} tokens"],
        ["On disk", in_bytes(report.total_bytes), plural(sum(map(len, manifest.shards.values())), "shard")],
    ], right=(1,))  # fmt: skip


def _sources(report: DataReport) -> Iterator[str]:
    sources = report.manifest.sources
    total = sum(source.tokens for source in sources)
    rows = [["", "files", "size", "read", "used", "tokens", "of all"]]
    rows += [
        [source.input, f"{source.files:,}", in_bytes(source.bytes), f"{source.documents_read:,}",
         f"{source.documents:,}", f"{source.tokens:,}", percent(source.tokens, total)] for source in sources
    ]  # fmt: skip
    if sources:
        yield from _aligned(rows, right=range(1, 7))
        yield from _aligned([[source.input, _about(source)] for source in sources])


def _about(source: Source) -> str:
    weight = f", weight {source.weight:g}" if source.weight != 1 else ""
    reasons = sorted(source.left_out.items(), key=lambda item: (-item[1], item[0]))
    left_out = "; left out: " + ", ".join(f"{count:,} {reason}" for reason, count in reasons) if reasons else ""
    return f"{source.format}, {source.language}{weight}{left_out}"


def _left_out(report: DataReport) -> Iterable[str]:
    if not report.manifest.rejected:
        return [f"None of the {report.documents_read:,} documents read."]
    rows = [
        [reason, f"{count:,}", percent(count, report.documents_read), REASONS.get(reason, "")]
        for reason, count in [*report.left_out, ("all", sum(report.manifest.rejected.values()))]
    ]
    return _aligned(rows, right=(1, 2))


def _example_lengths(report: DataReport) -> Iterator[str]:
    if report.example_lengths:
        yield f"{report.example_lengths} {percent(report.full_examples, report.total_examples)} are full."
        yield from _bars([(f"{begin:,} to {end:,}", count) for begin, end, count in report.example_bins(8)])


def _document_lengths(report: DataReport) -> Iterator[str]:
    if report.document_lengths:
        yield str(report.document_lengths)
        yield from _bars([(f"{begin:,} to {end:,}", count) for begin, end, count in report.document_bins()])


def _bars(rows: Sequence[tuple[str, int]]) -> Iterator[str]:
    total, most = sum(count for _, count in rows), max(count for _, count in rows)
    cells = [[label, f"{count:,}", percent(count, total), "█" * round(_BAR * count / most)] for label, count in rows]
    return _aligned(cells, right=(0, 1, 2))


def _labels(report: DataReport) -> Iterator[str]:
    if balance := report.balance:
        yield from _aligned(
            [[name, f"{count:,}", percent(count, balance.next + balance.random, digits=2)]
             for name, count in (("next", balance.next), ("random", balance.random))], right=(1, 2))  # fmt: skip
        yield (
            f"expected: {balance.expected:.2%} random; tolerance: {SIGMAS * balance.sigma:.2%} on either side "
            f"({SIGMAS:.0f} standard deviations; measured: {balance.deviation:+.1f})"
        )


def _masks(report: DataReport) -> Iterator[str]:
    masks = report.masks
    if masks.predicted:
        share_predicted = percent(masks.predicted, masks.tokens)
        yield f"{masks.predicted:,} of {masks.tokens:,} positions are predicted, {share_predicted}"
        yield from _aligned(
            [[name, f"{n:,}", percent(n, masks.predicted), f"{p:.1%} expected"] for name, n, p in report.mask_rows],
            right=(1, 2, 3),
        )


def _examples(report: DataReport) -> Iterator[str]:
    if report.examples:
        yield "[input→target]: [MASK→word] masked, [other→word] random, [word→word] kept"
    for number, example in enumerate(report.examples, start=1):
        yield ""
        about = f"{example.label}, {len(example.tokens)} tokens, {example.predicted} predicted"
        yield f"{number}. {about} ({example.shard}, record {example.record})"
        for segment, name in ((0, "A"), (1, "B")):
            if text := spelt(token for token in example.tokens if token.segment == segment):
                yield from textwrap.wrap(
                    f"{name}  {text}", _WIDTH, initial_indent="   ", subsequent_indent=" " * 6, break_on_hyphens=False
                )


def spelt(tokens: Iterable[Token]) -> str:
    """Renders tokens as text: pieces joined to words, words separated by spaces, masks in brackets."""
    text = ""
    for token in tokens:
        shown = token.text
        if token.fate:
            shown = f"[{'MASK' if token.fate == MASKED else token.piece}→{token.original}]"
        text += shown if token.continues or not text else f" {shown}"
    return text


def _aligned(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> Iterator[str]:
    """Yields table rows as aligned text; the columns in `right` are right-aligned."""
    flush = set(right)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if i in flush else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()

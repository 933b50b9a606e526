"""Facts of a data directory compared with its pairs, and the page and the text compared with the facts."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_tf.data.examples.sample_examples import KEPT, MASKED, REPLACED, read_examples
from bert_tf.data.manifest import Source, read_manifest
from bert_tf.data.masking.tokens import mask_pairs, prediction_counts
from bert_tf.data.tfrecord.shards import read_shard
from bert_tf.reports.data.facts import DataReport, describe, describe_data
from bert_tf.reports.data.page import page
from bert_tf.reports.data.words import in_words
from bert_tf.reports.text import in_bytes, percent
from tests.support.data.report_samples import (
    CONFIG,
    SINGLES,
    SIZES,
    SOURCE,
    STATIC,
    VOCABULARY,
    manifest_of,
    write_sample,
)
from tests.support.data.samples import rows, write_directory


@pytest.fixture(scope="module", params=[CONFIG, STATIC, SINGLES], ids=["dynamic", "static", "singles"])
def data(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("data")
    return directory, *write_sample(directory, request.param)


@pytest.fixture(scope="module")
def report(data) -> DataReport:
    return describe_data(data[0])


# Sample examples.


def test_examples_equal_the_records(data, report: DataReport) -> None:
    _, manifest, splits = data
    by_shard = {
        shard.name: pairs
        for split, parts in splits.items()
        for shard, pairs in zip(manifest.shards[split], parts, strict=True)
    }
    assert len({(example.shard, example.record) for example in report.examples}) == len(report.examples) == 20
    for example in report.examples:
        pairs = by_shard[example.shard]
        ids = rows(pairs)[example.record]
        assert [token.original or token.piece for token in example.tokens] == [VOCABULARY.tokens[i] for i in ids]
        first, second = pairs.segment_lengths[example.record].tolist()
        assert [token.segment for token in example.tokens] == [0] * first + [1] * second
        random = bool(pairs.next_sentence_labels[example.record])
        assert example.label == ("single" if not manifest.config.next_sentence else "random" if random else "next")
        assert example.predicted == prediction_counts(manifest.config)[len(ids)]


def test_examples_are_spread_and_both_labels_shown(data, report: DataReport) -> None:
    shards = [example.shard for example in report.examples]
    names = [shard.name for shards in data[1].shards.values() for shard in shards]
    # 60, 90 and 10 of 160 examples, with the numbers 4, 12, ..., 156.
    assert [shards.count(name) for name in names] == [7, 12, 1]
    assert shards == sorted(shards)
    if data[1].config.next_sentence:
        assert [example.label for example in report.examples] == ["next", "random"] * 10


def test_masks_follow_the_configuration(data, report: DataReport) -> None:
    tokens = [token for example in report.examples for token in example.tokens]
    for token in tokens:
        if token.fate == MASKED:
            assert token.piece == "[MASK]" != token.original
        elif token.fate == KEPT:
            assert token.piece == token.original
        elif token.fate == REPLACED:
            assert token.piece not in (token.original, "[MASK]")
        else:
            assert token.original == ""
        assert token.special == (token.piece in ("[CLS]", "[SEP]", "[UNK]"))
    masks = report.masks
    assert (masks.tokens, masks.predicted) == (len(tokens), sum(example.predicted for example in report.examples))
    assert masks.predicted == masks.expected
    # 80 % of about 80 predictions, within five standard deviations.
    assert abs(masks.masked - 0.8 * masks.predicted) < 5 * math.sqrt(0.16 * masks.predicted)


def test_masks_of_static_records_are_shown(tmp_path) -> None:
    manifest, splits = write_sample(tmp_path, STATIC)
    for example in describe_data(tmp_path).examples:
        part = next(
            p
            for split, parts in splits.items()
            for s, p in zip(manifest.shards[split], parts, strict=True)
            if s.name == example.shard
        )
        masked = mask_pairs(part, STATIC, VOCABULARY)
        ids = masked.token_ids[example.record, : len(example.tokens)]
        assert [token.piece for token in example.tokens] == [VOCABULARY.tokens[i] for i in ids]
        positions = [position for position, token in enumerate(example.tokens) if token.fate]
        assert positions == masked.mask_positions[example.record][masked.mask_weights[example.record] > 0].tolist()


def test_small_data_shows_all_examples(tmp_path) -> None:
    write_directory(tmp_path, CONFIG, VOCABULARY, {"train": [3, 0, 2], "validation": []})
    examples = describe_data(tmp_path).examples
    assert [(example.shard[:11], example.record) for example in examples if example.shard.startswith("train-00002")]
    assert sorted((example.shard[:11], example.record) for example in examples) == [
        ("train-00000", 0), ("train-00000", 1), ("train-00000", 2), ("train-00002", 0), ("train-00002", 1)
    ]  # fmt: skip


def test_record_of_another_schema_is_refused(tmp_path) -> None:
    write_directory(tmp_path, CONFIG, VOCABULARY, SIZES)
    manifest_of(tmp_path, config=STATIC)
    with pytest.raises(ValueError, match=r"train-00000-of-00002.tfrecord: record 0: .* lacks the feature `input_mask`"):
        describe_data(tmp_path)


def test_only_the_first_records_are_read(tmp_path) -> None:
    write_directory(tmp_path, CONFIG, VOCABULARY, SIZES)
    manifest = read_manifest(tmp_path)
    asked = []

    def records(name: str):
        for number, record in enumerate(read_shard(tmp_path / name)):
            asked.append((name, number))
            yield record

    read_examples(records, manifest, VOCABULARY)
    assert max(number for _, number in asked) < 45


# Facts.


def test_statistics_equal_those_of_the_manifest(data, report: DataReport) -> None:
    summary, manifest = report.summary(), data[1]
    assert summary["examples"] == {"train": 150, "validation": 10} and report.total_examples == 160
    assert summary["sources"][0]["left_out"] == {"empty": 200}
    assert summary["rejected"] == manifest.rejected and summary["config"]["seed"] == 7
    assert summary["bytes"] == sum(path.stat().st_size for path in data[0].glob("*.tfrecord"))
    assert summary["histograms"]["document_lengths"] == {"p50": 31, "p95": 63, "max": 63}
    assert report.documents_read == 1_200


def test_lengths_equal_those_of_the_pairs(data, report: DataReport) -> None:
    lengths = np.concatenate([np.diff(pairs.row_splits) for parts in data[2].values() for pairs in parts])
    expected = [int(np.quantile(lengths, part, method="inverted_cdf")) for part in (0.5, 0.95, 1.0)]
    assert list(dataclasses.astuple(report.example_lengths)) == expected
    assert report.full_examples == (lengths == 32).sum()
    bins = report.example_bins(8)
    assert [(begin, end) for begin, end, _ in bins] == [(1 + 4 * n, 4 + 4 * n) for n in range(8)]
    assert [count for _, _, count in bins] == [((begin <= lengths) & (lengths <= end)).sum() for begin, end, _ in bins]
    assert report.document_bins() == [(4, 7, 3), (8, 15, 0), (16, 31, 900), (32, 63, 97)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> DataReport:
    directory = tmp_path_factory.mktemp("plain")
    write_sample(directory)
    return describe_data(directory)


def changed(report: DataReport, **changes) -> DataReport:
    return describe(dataclasses.replace(report.manifest, **changes), report.examples)


@given(st.lists(st.integers(0, 9), min_size=33, max_size=33).filter(any))
def test_quantiles_equal_those_of_all_lengths(plain: DataReport, counts: list[int]) -> None:
    report = changed(plain, histograms={"example_lengths": counts})
    lengths = np.repeat(np.arange(33), counts)
    expected = [int(np.quantile(lengths, part, method="inverted_cdf")) for part in (0.5, 0.95, 1.0)]
    assert list(dataclasses.astuple(report.example_lengths)) == expected
    assert report.document_lengths is None


@given(st.integers(1, 10**7), st.floats(0.0, 1.0), st.floats(0.05, 0.95))
def test_label_balance_is_measured_in_standard_deviations(plain: DataReport, total: int, part: float, p: float) -> None:
    random = round(total * part)
    config = dataclasses.replace(CONFIG, random_next_prob=p)
    report = changed(plain, config=config, label_histogram={"next": total - random, "random": random})
    deviation = (random - total * p) / math.sqrt(total * p * (1 - p))
    assert report.balance.deviation == pytest.approx(deviation, rel=1e-6, abs=1e-6)
    assert any("of the pairs are random" in warning for warning in report.warnings) == (abs(deviation) > 4)


@pytest.mark.parametrize(("p", "random", "warned"), [(0.0, 0, False), (0.0, 1, True), (1.0, 9, False), (1.0, 8, True)])
def test_constant_label_has_no_tolerance(plain: DataReport, p: float, random: int, warned: bool) -> None:
    config = dataclasses.replace(CONFIG, random_next_prob=p)
    report = changed(plain, config=config, label_histogram={"next": 9 - random, "random": random})
    assert any("of the pairs are random" in warning for warning in report.warnings) == warned
    assert page(report)


def counts(**changes: int) -> dict:
    return {"examples": 100, "documents_read": 1_000, "documents": 1_000, "tokens": 1, **changes}


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"unk_rate": 0.0100}, ""),
        ({"unk_rate": 0.0101}, "1.0% of all tokens are [UNK], more than 1%"),
        ({"counts": counts(single_sentence_documents=50)}, ""),
        ({"counts": counts(single_sentence_documents=51)}, "5.1% of the documents are a single sentence"),
        ({"fill": 0.6}, ""),
        ({"fill": 0.599}, "An example fills 59.9% of its length"),
        ({"counts": counts(), "rejected": {"empty": 200}}, ""),
        ({"counts": counts(), "rejected": {"empty": 201}}, "20.1% of the documents read were left out as empty"),
        ({"counts": counts(), "rejected": {"odd": 201}}, "20.1% of the documents read were left out as odd."),
        ({"sources": (dataclasses.replace(SOURCE, documents=1),)}, ""),
        ({"sources": (SOURCE, Source("b*", "text", "en", 1.0, 1, 9))}, "source b* contributed no documents: none"),
        ({"sources": (dataclasses.replace(SOURCE, documents=0),)}, "all 1,200 documents were left out."),
    ],
)  # fmt: skip
def test_warnings_appear_at_their_thresholds(plain: DataReport, changes: dict, warning: str) -> None:
    assert plain.warnings == ()
    report = changed(plain, **changes)
    assert len(report.warnings) == bool(warning)
    assert warning in "".join(report.warnings)
    assert "".join(report.warnings) in in_words(report).replace("\n  ", " ")
    assert ("No warnings" in page(report)) == (not warning)


@pytest.mark.parametrize(
    ("train", "held_out", "fraction", "advice"),
    [
        (7_409, 8, 0.001, "8 examples of 7,417 are held out, fewer than 200.*--validation_fraction 0.03`"),
        (4_310, 190, 0.05, "190 examples .*--validation_fraction 0.06`"),
        (7_400, 0, 0.001, "0 examples .*--validation_fraction 0.03`"),
        (900, 9, 0.01, "use more text"),
        (7_217, 200, 0.01, None),
        (7_417, 0, 0.0, None),
    ],
)
def test_few_validation_examples_are_a_warning(
    plain: DataReport, train: int, held_out: int, fraction: float, advice: str | None
) -> None:
    shards = {
        split: (dataclasses.replace(plain.manifest.shards[split][0], examples=examples),)
        for split, examples in (("train", train), ("validation", held_out))
    }
    config = dataclasses.replace(CONFIG, validation_fraction=fraction)
    warnings = changed(plain, config=config, shards=shards).warnings
    assert len(warnings) == bool(advice)
    assert not advice or re.search(advice, warnings[0])


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 9, "0%"), (0, 0, "0%"), (1, 3, "33.3%"), (1, 10_000, "<0.1%"), (1, 2_000, "0.1%"), (1, 1, "100.0%")],
)
def test_percent(part: int, whole: int, text: str) -> None:
    assert percent(part, whole) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (29_720_730, "29.7 MB"), (999_600_000, "1 GB"), (5 * 10**15, "5,000 TB")],
)
def test_bytes(count: int, text: str) -> None:
    assert in_bytes(count) == text

"""Accounts of documents: dead letters, the tally, and the limit of faulty documents."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

import apache_beam as beam
import pytest

from beam_pipelines.output.run_output import RunOutput
from beam_pipelines.sources.documents import EMPTY, OVER_LONG, RawDocument
from beam_pipelines.transforms import rejections
from beam_pipelines.transforms.rejections import (
    DEAD_LETTERS,
    TALLY,
    FaultLimit,
    Tally,
    account,
    write_accounts,
)


class Account(beam.DoFn):
    def process(self, batch: list[RawDocument]) -> Iterable[object]:
        yield from account(batch, [(document, document.reason) for document in batch if document.reason])


def write(directory: Path, batches: list[list[RawDocument]], limit: FaultLimit) -> list[dict[str, str]]:
    """Writes the accounts of batches; returns the dead letters."""
    output = RunOutput(str(directory))
    output.begin()
    letters = directory / "letters.jsonl"
    try:
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            outputs = pipeline | beam.Create(batches) | beam.ParDo(Account()).with_outputs(TALLY, DEAD_LETTERS)
            write_accounts(outputs, output, str(letters), str(directory), limit)
    finally:
        lines = letters.read_text().splitlines()
    return [json.loads(line) for line in lines]


def faulty(reason: str, count: int) -> list[RawDocument]:
    return [RawDocument("a.txt", f"line {number}", (f"{reason} {number}",), reason) for number in range(count)]


def test_all_rejections_are_counted_and_the_first_of_each_reason_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejections, "MOST_LISTED", 3)
    good = [RawDocument("b.txt", "line 1", ("text",))] * 10
    batches = [faulty(EMPTY, 5)[::-1], good, faulty(OVER_LONG, 2), faulty(EMPTY, 8)[5:]]
    letters = write(tmp_path, batches, FaultLimit(1.0, math.inf))
    assert [(letter["reason"], letter["place"]) for letter in letters] == [
        *((EMPTY, f"line {number}") for number in range(3)),
        *((OVER_LONG, f"line {number}") for number in range(2)),
    ]
    tally = Tally.load(str(tmp_path))
    assert (tally.read(), tally.left_out()) == (20, {EMPTY: 8, OVER_LONG: 2})
    assert "empty 8, over_long 2" in tally.rejections("letters.jsonl")
    assert "the first 3 of each reason" in tally.rejections("letters.jsonl")


def test_too_many_faults_fail_the_pipeline_after_reading(tmp_path: Path) -> None:
    batches = [faulty(EMPTY, 2), [RawDocument("b.txt", "line 1", ("text",))] * 18]
    with pytest.raises(Exception, match=r"2 of 20 documents were rejected \(empty 2\).*letters.jsonl, which lists"):
        write(tmp_path, batches, FaultLimit(0.09, math.inf))

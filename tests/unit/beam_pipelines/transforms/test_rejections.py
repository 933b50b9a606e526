"""Accounts of documents: dead letters, the tally, and the limit of faulty documents."""

from __future__ import annotations

import json
import math

import pytest

from beam_pipelines.errors import PipelineError
from beam_pipelines.sources.corpus import Corpus, Input
from beam_pipelines.sources.documents import InputFile
from beam_pipelines.transforms.rejections import (
    FaultLimit,
    StopWhenCertain,
)


@pytest.mark.parametrize(
    ("fraction", "most", "allowed"), [(0.0, math.inf, 0), (0.05, 100, 5), (0.055, 100, 5), (0.5, math.inf, 50)]
)
def test_run_ends_early_when_the_fault_limit_is_certainly_exceeded(fraction: float, most: float, allowed: int) -> None:
    step = StopWhenCertain(FaultLimit(fraction, most))
    letter = ("empty", json.dumps({"file": "a.txt", "place": "line 9", "excerpt": "x"}))
    for _ in range(2):  # a bundle that is processed again is counted again
        step.start_bundle()
        for _ in range(allowed):
            assert list(step.process(letter)) == [letter]
    if allowed == 50:
        return
    with pytest.raises(PipelineError, match=rf"{allowed + 1} documents.* {fraction} .*a.txt, line 9"):
        list(step.process(letter))


def test_upper_bound_of_the_number_of_documents() -> None:
    def most(**sizes: int) -> float:
        names = {"txt": "text", "gz": "text", "book": "books", "parquet": "parquet"}
        inputs = tuple(Input("*", names[suffix]) for suffix in sizes)
        files = tuple(InputFile(f"a.{suffix}", size, 0.0, source=n) for n, (suffix, size) in enumerate(sizes.items()))
        return Corpus(inputs, files).most_documents

    assert most(txt=70, book=900) == 71
    assert most(txt=70, gz=10) == most(parquet=10) == math.inf

"""Runs a sample of one input through the steps of a run in this process and measures them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from beam_pipelines.cleaning.signatures import ROW, band_shape, find_near_duplicates
from beam_pipelines.estimate.sample import Unit
from beam_pipelines.output.run_output import RunOutput
from beam_pipelines.run_plan import RunPlan
from beam_pipelines.runners.progress import ProgressLog
from beam_pipelines.sources.documents import RawDocument, in_batches
from beam_pipelines.transforms.build_shards import REPORTS, BuildShard, ShardReport
from beam_pipelines.transforms.filter_documents import filter_documents
from beam_pipelines.transforms.near_duplicates import SignDocuments
from beam_pipelines.transforms.packed_documents import unpack
from beam_pipelines.transforms.tokenize import TokenizeDocuments

READ, FILTER, TOKENIZE, NEAR_DUPLICATES, BUILD = "read", "filter", "tokenize", "near duplicates", "build"
STEPS = (READ, FILTER, TOKENIZE, NEAR_DUPLICATES, BUILD)


class MeasuredUnit(NamedTuple):
    """Size of one unit of a sample."""

    bytes: float
    documents: int
    tokens: int


@dataclass(frozen=True)
class Measured:
    """Measurements of a sample.

    `counts` has `documents`, `tokens`, `examples`, and bytes of shards (`disk`), of packed documents (`packed`) and of
    near-duplicate rows (`shuffled`).
    """

    bytes: float  # on disk
    counts: dict[str, int]
    seconds: dict[str, float]  # CPU time by step
    units: list[MeasuredUnit]  # without duplicates within a unit


class SampleRun:
    """The steps of a run, set up to process samples."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._cleaning = plan.config.cleaning
        self._languages = plan.corpus.languages
        self._tokenize = TokenizeDocuments(plan.config, self._languages, plan.vocabulary, plan.buckets, frozenset())
        self._tokenize.setup()
        # One-time work of the first call (TensorFlow's graph takes as long as a megabyte of text) must not be scaled,
        # so it is done here.
        once = [RawDocument("", "", ("A sentence.",))]
        self._tokenize.start_bundle()
        list(self._tokenize.process(once))
        if self._cleaning.filters:
            filter_documents(once, self._cleaning, self._languages)

    def measure(self, units: Sequence[Unit]) -> Measured:
        """Runs the units of one input through all steps and returns the measurements."""
        seconds = dict.fromkeys(STEPS, 0.0) | {READ: sum(unit.seconds for unit in units)}
        measured_units: list[MeasuredUnit] = []
        chunks: list[bytes] = []
        filtered: list[list[RawDocument]] = []
        for unit in units:
            self._tokenize.start_bundle()
            batches = list(in_batches(unit.documents))
            if self._cleaning.filters:
                with _timed(seconds, FILTER):
                    batches = [filter_documents(batch, self._cleaning, self._languages) for batch in batches]
            with _timed(seconds, TOKENIZE):
                packed = list(_main_output(element for batch in batches for element in self._tokenize.process(batch)))
            documents = unpack(packed).documents
            measured_units.append(
                MeasuredUnit(unit.bytes, len(documents), sum(len(each.token_ids) for each in documents))
            )
            chunks += packed
            filtered += batches
        shuffled = 0
        if self._cleaning.near_duplicates:
            with _timed(seconds, NEAR_DUPLICATES):
                shuffled = self._sign(filtered)
        with _timed(seconds, BUILD):
            counts = self._build(chunks)
        counts |= {"packed": sum(map(len, chunks)), "shuffled": shuffled}
        return Measured(sum(unit.bytes for unit in units), counts, seconds, measured_units)

    def _sign(self, batches: Iterable[list[RawDocument]]) -> int:
        """Signs and compares documents; returns the bytes of their rows."""
        threshold, seed = self._cleaning.near_duplicates, self._plan.config.seed
        step = SignDocuments(seed, *band_shape(threshold), partitions=1)
        step.start_bundle()
        packed = [rows for batch in batches for _, rows in step.process(batch)]
        packed += [windowed.value[1] for windowed in step.finish_bundle()]
        find_near_duplicates(np.frombuffer(b"".join(packed), ROW), threshold)
        return sum(map(len, packed))

    def _build(self, chunks: list[bytes]) -> dict[str, int]:
        """Builds the shards of one bucket and returns their counts."""
        with tempfile.TemporaryDirectory(prefix="bert_tf_estimate_") as folder:
            output = RunOutput(folder)
            output.begin()
            plan = self._plan
            step = BuildShard(
                plan.configs, plan.corpus.weights, plan.vocabulary, plan.buckets, output, "", ProgressLog()
            )
            list(step.process((0, chunks)))
            (path,) = Path(folder, REPORTS).iterdir()
            report = ShardReport.from_json(path.read_bytes())
        counts = {name: report.counts[name] for name in ("documents", "tokens")}
        counts["examples"] = sum(length.counts["examples"] for length in report.lengths)
        counts["disk"] = sum(length.shard.bytes for length in report.lengths if length.shard)
        return counts


def _main_output(elements: Iterable[Any]) -> Iterator[bytes]:
    return (element[1] for element in elements if isinstance(element, tuple))


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    started = time.process_time()
    yield
    seconds[step] += time.process_time() - started

"""Samples compared with their corpus, and estimates compared with runs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from beam_pipelines.errors import InputError
from beam_pipelines.estimate.estimate import Estimate, Workers, estimate, workers_of
from beam_pipelines.estimate.sample import read_sample
from beam_pipelines.run_plan import plan_run
from beam_pipelines.sources.corpus import find_corpus
from beam_pipelines.sources.documents import ReadSettings
from bert_tf.config import CleaningConfig, DataConfig
from bert_tf.text.vocabulary import load_vocabulary
from tests.support.beam_pipelines.corpus_layouts import LAYOUTS, TEXT, TEXTS, as_gzip, as_plain
from tests.support.beam_pipelines.samples import write_corpus, write_vocabulary

SETTINGS = ReadSettings()


@pytest.fixture(scope="module", params=LAYOUTS)
def corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    write, format = LAYOUTS[request.param]
    return find_corpus(write(tmp_path_factory.mktemp(request.param)), format)


# The sample.


def texts_of(units) -> list[str]:
    return ["\n".join(document.paragraphs) for unit in units for document in unit.documents]


def test_a_small_corpus_is_its_own_sample(corpus) -> None:
    units = read_sample(corpus, SETTINGS, text_bytes=10**9)
    assert sorted(texts_of(units)) == sorted(text.strip() for text in TEXTS)
    assert sum(unit.bytes for unit in units) == corpus.bytes


@pytest.mark.parametrize("text_bytes", [300_000, 800_000])
def test_sample_is_extrapolated_to_the_corpus(corpus, text_bytes: int) -> None:
    units = read_sample(corpus, SETTINGS, text_bytes)
    found = texts_of(units)
    assert set(found) <= {text.strip() for text in TEXTS}
    assert len(set(found)) == len(found)
    share = sum(unit.bytes for unit in units) / corpus.bytes
    assert 0.02 < share < 0.8
    # Documents in a unit are contiguous, so counts have one error at each edge.
    assert len(found) == pytest.approx(share * len(TEXTS), rel=0.06)
    assert sum(map(len, found)) == pytest.approx(share * len(TEXT), rel=0.06)
    assert all(unit.bytes > 0 and unit.seconds >= 0 for unit in units)


def test_a_sample_is_spread(tmp_path: Path) -> None:
    corpus = find_corpus(as_plain(tmp_path))
    files = {document.file for unit in read_sample(corpus, SETTINGS, 100_000) for document in unit.documents}
    assert len(files) == 2
    places = [text.split(maxsplit=2)[1] for text in texts_of(read_sample(corpus, SETTINGS, 100_000))]
    numbers = np.array([int(place.strip(".")) for place in places])
    assert (np.histogram(numbers, 6, (0, 12_000))[0] > 0).all()


def test_every_input_is_sampled(tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    pattern = as_plain(tmp_path / "large")
    (tmp_path / "tiny.txt").write_text("\n".join(TEXTS[:5]))
    corpus = find_corpus(f"{pattern},{tmp_path}/tiny.txt")
    units = read_sample(corpus, SETTINGS, 100_000)
    assert {unit.source for unit in units} == {0, 1}
    assert {document.source for unit in units if unit.source == 1 for document in unit.documents} == {1}


def test_sampling_does_not_change_later_reads(tmp_path: Path) -> None:
    opened = FileSystems.open
    corpus = find_corpus(as_gzip(tmp_path))
    read_sample(corpus, SETTINGS, 100_000)
    (tmp_path / "text.txt.gz").write_bytes(b"\x1f\x8b" + b"damaged")
    with pytest.raises(InputError, match="damaged"):
        read_sample(corpus, SETTINGS, 100_000)
    assert FileSystems.open is opened


# The estimate.


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_vocabulary(tmp_path_factory.mktemp("vocabulary") / "vocab.txt")


def estimate_of(pattern: str, vocabulary: Path, configs: list[DataConfig], workers: int = 0, **options) -> Estimate:
    plan = plan_run(find_corpus(pattern), SETTINGS, configs, load_vocabulary(vocabulary))
    return estimate(plan, Workers(workers), **options)


def test_estimated_time_includes_every_step(tmp_path: Path, vocabulary: Path) -> None:
    pattern = write_corpus(tmp_path, TEXTS[:100])
    plain = estimate_of(pattern, vocabulary, [DataConfig()])
    cleaning = CleaningConfig(min_words=1, near_duplicates=0.8)
    cleaned = estimate_of(pattern, vocabulary, [DataConfig(cleaning=cleaning)])
    assert list(plain.cpu_seconds) == ["read", "tokenize", "build"]
    assert list(cleaned.cpu_seconds) == ["read", "filter", "tokenize", "near duplicates", "build"]
    assert plain.estimated_seconds > 0
    left_out = estimate_of(pattern, vocabulary, [DataConfig(cleaning=CleaningConfig(min_words=40))])
    assert 0 < left_out.documents < plain.documents


def test_input_without_accepted_documents(tmp_path: Path, vocabulary: Path) -> None:
    pattern = write_corpus(tmp_path, TEXTS[:100])
    found = estimate_of(pattern, vocabulary, [DataConfig(cleaning=CleaningConfig(min_words=10_000))])
    assert (found.documents, found.tokens, found.examples, found.shards, found.estimated_disk_bytes) == (0, 0, 0, 0, 0)
    assert found.table()


def test_more_and_larger_buckets_take_more_memory(tmp_path: Path, vocabulary: Path) -> None:
    pattern = write_corpus(tmp_path, TEXTS[:2000])

    def memory(workers: int, shards: int) -> int:
        config = DataConfig(num_shards=shards)
        return estimate_of(pattern, vocabulary, [config], workers, sample_bytes=50_000).estimated_memory_bytes

    assert memory(0, 1) < memory(1, 1) < memory(4, 8)
    tokens = estimate_of(pattern, vocabulary, [DataConfig()]).tokens
    assert memory(0, 1) - memory(0, 2) == pytest.approx(tokens / 2 * 26, abs=40 << 20)


def test_table_is_readable(tmp_path: Path, vocabulary: Path) -> None:
    pattern = write_corpus(tmp_path, TEXTS[:2000])
    found = estimate_of(pattern, vocabulary, [DataConfig()], 2, sample_bytes=100_000)
    lines = found.table().splitlines()
    assert lines[0].startswith("estimate from ") and lines[0].endswith(" of input:")
    names = ["time", "memory", "disk", "temporary", "documents", "tokens", "examples"]
    assert [line.split()[0] for line in lines[1:8]] == names
    assert lines[1].endswith(", 2 workers") and lines[3].endswith("2 shards")
    assert f" {found.examples:,}  " in lines[7]
    assert json.loads(json.dumps(dataclasses.asdict(found)))["input_bytes"] == found.input_bytes
    whole = estimate_of(pattern, vocabulary, [DataConfig()]).table()
    assert "one process" in whole and whole.count("whole input") == 4


@pytest.mark.parametrize(
    ("workers", "costs", "seconds"),
    [
        (Workers(0), [3.0, 2.0, 1.0], 6.0),
        (Workers(2, here=False), [3.0, 2.0, 1.0], 4.0),  # 3 + 1 and 2
        (Workers(2, here=False), [5.0], 5.0),
        (Workers(8, here=False), [1.0] * 9, 2.0),
        (Workers(3, here=False), [], 0.0),
    ],
)
def test_tasks_are_distributed_in_order(workers: Workers, costs: list[float], seconds: float) -> None:
    assert workers.seconds(costs) == seconds


def test_workers_share_the_cores_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_pipelines.estimate.estimate.available_cores", lambda: 2)
    assert Workers(8).seconds([1.0] * 8) == 4.0 * 1.25
    assert Workers(1).seconds([1.0] * 8) == 8.0
    assert Workers(8, here=False).seconds([1.0] * 8) == 1.0


@pytest.mark.parametrize(
    ("flags", "workers"),
    [
        (["--runner=FnApiRunner", "--direct_running_mode=in_memory"], Workers(0)),
        (["--runner=FnApiRunner", "--direct_running_mode=multi_processing", "--direct_num_workers=3"], Workers(3)),
        (["--runner=FlinkRunner", "--parallelism=4", "--environment_type=LOOPBACK"], Workers(4)),
        (["--runner=FlinkRunner", "--parallelism=4", "--environment_type=EXTERNAL"], Workers(4, here=False)),
        (["--runner=SparkRunner", "--sdk_worker_parallelism=2"], Workers(2)),
        (["--runner=DataflowRunner", "--max_num_workers=40"], Workers(40, here=False)),
        (["--runner=DataflowRunner"], Workers(1, here=False)),
    ],
)
def test_number_of_workers_follows_the_flags(flags: list[str], workers: Workers) -> None:
    assert workers_of(PipelineOptions(flags)) == workers

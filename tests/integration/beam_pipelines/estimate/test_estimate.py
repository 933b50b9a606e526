"""Samples compared with their corpus, and estimates compared with runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipelines.create_pretraining_data import run
from beam_pipelines.estimate.estimate import Estimate, Workers, estimate
from beam_pipelines.run_plan import plan_run
from beam_pipelines.sources.corpus import find_corpus
from beam_pipelines.sources.documents import ReadSettings
from bert_tf.config import DataConfig
from bert_tf.data.manifest import read_manifest
from bert_tf.text.vocabulary import load_vocabulary
from tests.support.beam_pipelines.corpus_layouts import LAYOUTS, TEXTS, as_plain
from tests.support.beam_pipelines.samples import write_corpus, write_vocabulary

SETTINGS = ReadSettings()


@pytest.fixture(scope="module", params=LAYOUTS)
def corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    write, format = LAYOUTS[request.param]
    return find_corpus(write(tmp_path_factory.mktemp(request.param)), format)


# The sample.


# The estimate.


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_vocabulary(tmp_path_factory.mktemp("vocabulary") / "vocab.txt")


def estimate_of(pattern: str, vocabulary: Path, configs: list[DataConfig], workers: int = 0, **options) -> Estimate:
    plan = plan_run(find_corpus(pattern), SETTINGS, configs, load_vocabulary(vocabulary))
    return estimate(plan, Workers(workers), **options)


def create_data(pattern: str, vocabulary: Path, output: Path, *flags: str) -> dict:
    return run(
        [
            f"--input={pattern}",
            f"--vocabulary={vocabulary}",
            f"--output={output}",
            "--direct_running_mode=in_memory",
            *flags,
        ]
    )


@pytest.mark.parametrize(
    ("flags", "config"),
    [
        ((), DataConfig()),
        (("--masking=static", "--dupe_factor=2"), DataConfig(masking="static", dupe_factor=2)),
        (
            ("--no_nsp", "--max_seq_length=64"),
            DataConfig(max_seq_length=64, max_predictions_per_seq=10, next_sentence=False),
        ),
    ],
    ids=["dynamic", "static", "singles"],
)  # fmt: skip
def test_estimate_of_a_small_run_is_exact(tmp_path: Path, vocabulary: Path, flags: tuple[str, ...], config) -> None:
    pattern = write_corpus(tmp_path / "corpus", TEXTS[:400])
    config = DataConfig(**(vars(config) | {"validation_fraction": 0.0, "num_shards": 1}))
    summary = create_data(pattern, vocabulary, tmp_path / "data", "--num_shards=1", "--validation_fraction=0", *flags)
    found = estimate_of(pattern, vocabulary, [config])
    manifest = read_manifest(tmp_path / "data")
    assert found.sample_bytes == found.input_bytes == sum(source.bytes for source in manifest.sources)
    assert found.documents == manifest.counts["documents"]
    assert (found.tokens, found.examples, found.shards) == (summary["tokens"], summary["examples"], summary["shards"])
    assert found.estimated_disk_bytes == manifest.shards["train"][0].bytes
    assert found.spread["tokens"] == found.spread["documents"] == 0.0


def test_estimate_of_a_larger_run_is_close(tmp_path: Path, vocabulary: Path) -> None:
    pattern = as_plain(tmp_path / "corpus")
    flags = ("--max_seq_length=64,128", "--num_shards=3", "--weights=2")
    summary = create_data(pattern, vocabulary, tmp_path / "data", *flags)
    corpus = find_corpus(pattern, weights="2")
    configs = [DataConfig(max_seq_length=length, max_predictions_per_seq=20, num_shards=3) for length in (64, 128)]
    found = estimate(plan_run(corpus, SETTINGS, configs, load_vocabulary(vocabulary)), Workers(2), 200_000)
    manifests = [read_manifest(tmp_path / "data" / f"length-{length}") for length in (64, 128)]
    disk = sum(shard.bytes for manifest in manifests for shards in manifest.shards.values() for shard in shards)
    assert found.sample_bytes < found.input_bytes / 3
    assert found.shards == summary["shards"] == 8
    assert found.documents == pytest.approx(manifests[0].counts["documents"], rel=0.05)
    assert found.tokens == pytest.approx(summary["tokens"], rel=0.05)
    assert found.examples == pytest.approx(summary["examples"], rel=0.05)
    assert found.estimated_disk_bytes == pytest.approx(disk, rel=0.05)
    assert 0.0 < found.spread["tokens"] < 0.1 and found.spread["seconds"] > 0.2

"""The description of a run, and the differences allowed for a resumed run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam_pipelines.output import directory as data_directory
from beam_pipelines.output.directory import DataDirectory
from beam_pipelines.run_plan import plan_run
from beam_pipelines.sources.corpus import Corpus
from beam_pipelines.sources.documents import ReadSettings
from bert_tf.config import ConfigError, DataConfig
from bert_tf.text.vocabulary import load_vocabulary
from tests.support.beam_pipelines.samples import write_vocabulary


def directory(home: Path) -> DataDirectory:
    vocabulary = load_vocabulary(write_vocabulary(home / "vocab.txt"))
    config = DataConfig(num_shards=1, validation_fraction=0.0)
    return DataDirectory(str(home / "data"), plan_run(Corpus((), ()), ReadSettings(), [config], vocabulary))


def recorded(home: Path) -> list[dict[str, str]]:
    return json.loads((home / "data" / "run.json").read_text())["software"]


def test_shards_of_two_algorithms_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory(tmp_path).claim()
    directory(tmp_path).claim()
    monkeypatch.setattr(data_directory, "DATA_ALGORITHM_VERSION", 10_000)
    with pytest.raises(ConfigError, match=r"bert-tf \d.*data_algorithm_version.*Delete the directory and run"):
        directory(tmp_path).claim()


def test_versions_without_effect_on_the_bytes_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory(tmp_path).claim()
    (before,) = recorded(tmp_path)
    assert set(before) == {"apache-beam", "bert-tf", "python"}
    after = before | {"apache-beam": "99.0", "python": "3.99.0"}
    monkeypatch.setattr(data_directory, "installed_software", lambda: after)
    for _ in range(2):
        directory(tmp_path).claim()
        assert recorded(tmp_path) == [before, after]

"""TF Serving's configuration files: the ones in `saved_models/`, and files with mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_tf.config import ConfigError
from bert_tf.serving.configuration import read_batching_parameters, read_model_config
from bert_tf.serving.models.batching import BatchingOptions
from bert_tf.serving.models.versions import ServedModel
from bert_tf.storage import Store
from tests.support.paths import REPOSITORY
from tests.support.storage.faulty import create_bucket

SAVED_MODELS = REPOSITORY / "saved_models"


def test_configuration_files_of_the_project_are_read() -> None:
    models = read_model_config(SAVED_MODELS / "models.config")
    assert models[0].base_path.name == models[0].name
    options = read_batching_parameters(SAVED_MODELS / "batching.config")
    assert options.max_enqueued_rows % options.max_batch_size == 0


@pytest.mark.parametrize(
    ("policy", "versions"),
    [
        ("", [7]),
        ("model_version_policy { latest { num_versions: 2 } }", [3, 7]),
        ("model_version_policy { latest {} }", [7]),
        ("model_version_policy { all {} }", [1, 3, 7]),
        ("model_version_policy { specific { versions: 3 versions: 9 } }", [3]),
    ],
)
def test_policies_select_versions(policy: str, versions: list[int], tmp_path: Path) -> None:
    path = tmp_path / "models.config"
    entry = f'name: "m" base_path: "here" {policy} version_labels {{ key: "stable" value: 3 }}'
    path.write_text(f"model_config_list {{ config {{ {entry} }} }}")
    [model] = read_model_config(path)
    assert (model.name, model.base_path, model.labels) == ("m", tmp_path / "here", {"stable": 3})
    assert model.wanted([1, 3, 7]) == versions
    assert model.wanted([]) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least one model, and each once. Received: none"),
        ("nonsense", "models.config: not a ModelServerConfig"),
        ("model_config_list { config { name: 'm' } }", "model 'm' must have a base_path"),
        ("model_config_list { config { name: 'a/b' base_path: 'x' } }", "must be without `/`"),
        ("model_config_list { config { base_path: 'x' } }", "must be without `/`"),
        (
            "model_config_list { config { name: 'm' base_path: 'x' } config { name: 'm' base_path: 'y' } }",
            "each once. Received: m, m",
        ),
        ("custom_model_config {}", "models.config: custom_model_config is not supported"),
        (
            "model_config_list { config { name: 'm' base_path: 'x' logging_config {} } }",
            "models.config: model 'm': logging_config is not supported; remove it",
        ),
        (
            "model_config_list { config { name: 'm' base_path: 'x' model_platform: 'torch' } }",
            "model 'm': model_platform must be 'tensorflow'. Received: 'torch'",
        ),
        (
            "model_config_list { config { name: 'm' base_path: 'x' model_type: OTHER } }",
            "model 'm': model_type must be TENSORFLOW.* Received: OTHER",
        ),
        (
            "model_config_list { config { name: 'm' base_path: 'file:///x/m' } }",
            "model 'm': base_path 'file:///x/m' is a URL",
        ),
    ],
)
def test_invalid_model_configurations_are_explained(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "models.config"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_model_config(path)


def test_batching_parameters(tmp_path: Path) -> None:
    path = tmp_path / "batching.config"
    path.write_text(
        "max_batch_size { value: 8 }  # rows\nbatch_timeout_micros{value:0}\nmax_enqueued_batches { value: 3 }\n"
        "allowed_batch_sizes: 4\nallowed_batch_sizes: 8\nenable_large_batch_splitting { value: true }\n"
        "pad_variable_length_inputs: false\n"
    )
    expected = BatchingOptions(max_batch_size=8, batch_timeout_micros=0, max_enqueued_rows=24)
    assert read_batching_parameters(path) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_batch_size: ", "batching.config: not a BatchingParameters"),
        ("max_batch_sise { value: 3 }", 'no field named "max_batch_sise"'),
        ("max_batch_size { value: 0 }", "`max_batch_size` must be at least 1. Received: 0"),
        ("pad_variable_length_inputs: true", "pad_variable_length_inputs must be false"),
        ("max_enqueued_rows { value: 3 }", 'no field named "max_enqueued_rows"'),
    ],
)
def test_invalid_batching_parameters_are_explained(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "batching.config"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_batching_parameters(path)


def test_model_from_a_folder() -> None:
    assert ServedModel("m", Path("x")).wanted([2, 4]) == [4]


def test_base_paths_and_the_file_may_be_on_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    config = "model_config_list { config { name: 'a' base_path: 'gs://x/a/' } config { name: 'b' base_path: 'b' } }"
    url = f"{create_bucket('bucket')}/models.config"
    Store(url).write("", config.encode())
    assert [model.base_path for model in read_model_config(url)] == ["gs://x/a", "faulty://bucket/b"]

"""Compares the files of `saved_models/` with TF Serving's message definitions, and the examples with our models."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from tensorflow_serving.config.model_server_config_pb2 import ModelConfig, ModelServerConfig

from tests.support.paths import REPOSITORY
from tests.support.serving.example_requests import EXAMPLES

SAVED_MODELS = REPOSITORY / "saved_models"
_TYPES = {"int64": 3, "bool": 8, "string": 9}

# Messages that no Python package has: message -> field -> (number, type); a type ending in `*` is repeated.
# Only the fields in use, from tensorflow_serving/config/monitoring_config.proto and
# tensorflow_serving/servables/tensorflow/session_bundle_config.proto.
MESSAGES = {
    "Value": {"value": (1, "int64")},
    "PrometheusConfig": {"enable": (1, "bool"), "path": (2, "string")},
    "MonitoringConfig": {"prometheus_config": (1, "PrometheusConfig")},
    "BatchingParameters": {
        "max_batch_size": (1, "Value"),
        "batch_timeout_micros": (2, "Value"),
        "max_enqueued_batches": (3, "Value"),
        "num_batch_threads": (4, "Value"),
        "allowed_batch_sizes": (6, "int64*"),
        "pad_variable_length_inputs": (7, "bool"),
    },
}


def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="serving.proto", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            added = message.field.add(name=field, number=number, label=3 if kind.endswith("*") else 1)
            if (bare := kind.rstrip("*")) in _TYPES:
                added.type = _TYPES[bare]
            else:
                added.type, added.type_name = 11, f".{bare}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def parse(file: str, message: str) -> Any:
    """Parses a configuration strictly: an unknown field or a value of another type is an error."""
    kind = message_factory.GetMessageClass(_pool().FindMessageTypeByName(message))
    return text_format.Parse((SAVED_MODELS / file).read_text(encoding="utf-8"), kind())


def parse_models(text: str) -> list[ModelConfig]:
    return list(text_format.Parse(text, ModelServerConfig()).model_config_list.config)


def test_models_have_unique_names_and_one_root() -> None:
    models = parse_models((SAVED_MODELS / "models.config").read_text(encoding="utf-8"))
    assert models
    assert len({model.name for model in models}) == len(models)
    assert [model.base_path for model in models] == [f"/models/{model.name}" for model in models]
    assert {model.model_platform for model in models} == {"tensorflow"}


def test_labels_of_the_comment_refer_to_loaded_versions() -> None:
    text = (SAVED_MODELS / "models.config").read_text(encoding="utf-8")
    comment = [line.removeprefix("#   ") for line in text.splitlines() if line.startswith("#   ")]
    (model,) = parse_models("model_config_list { config { " + " ".join(comment) + " } }")
    assert set(model.version_labels) == {"stable", "canary"}
    assert set(model.version_labels.values()) == set(model.model_version_policy.specific.versions)


def test_batching_example_is_valid_for_tf_serving() -> None:
    batching = parse("batching.config", "BatchingParameters")
    sizes = list(batching.allowed_batch_sizes)
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == batching.max_batch_size.value
    assert batching.num_batch_threads.value >= 1
    assert not batching.pad_variable_length_inputs


def test_monitoring_is_enabled() -> None:
    prometheus = parse("monitoring.config", "MonitoringConfig").prometheus_config
    assert prometheus.enable
    assert prometheus.path.startswith("/")


def test_every_example_is_tested() -> None:
    assert {path.name for path in (SAVED_MODELS / "examples").glob("*.json")} == set(EXAMPLES)

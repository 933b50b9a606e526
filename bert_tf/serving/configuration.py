"""Reads TF Serving's configuration files."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from tensorflow_serving.config.model_server_config_pb2 import ModelConfig, ModelServerConfig, ModelType

from bert_tf.config import ConfigError, local_path
from bert_tf.serving import metrics
from bert_tf.serving.access import TlsFiles
from bert_tf.serving.models.batching import BatchingOptions
from bert_tf.serving.models.versions import ServedModel
from bert_tf.storage import input_path, is_url

# TF Serving's name of the only supported platform.
_PLATFORM = "tensorflow"
_METRICS_PATH = re.compile(r"/[^\s{}?#]*")
# Messages that no Python package has, from TF Serving's config/monitoring_config.proto, config/ssl_config.proto and
# servables/tensorflow/session_bundle_config.proto.
_MESSAGES = """
name: "bert_tf.proto" package: "bert_tf" syntax: "proto3"
message_type { name: "PrometheusConfig"
  field { name: "enable" number: 1 type: TYPE_BOOL }
  field { name: "path" number: 2 type: TYPE_STRING } }
message_type { name: "MonitoringConfig"
  field { name: "prometheus_config" number: 1 type: TYPE_MESSAGE type_name: ".bert_tf.PrometheusConfig" } }
message_type { name: "Int64Value" field { name: "value" number: 1 type: TYPE_INT64 } }
message_type { name: "BoolValue" field { name: "value" number: 1 type: TYPE_BOOL } }
message_type { name: "BatchingParameters"
  field { name: "max_batch_size" number: 1 type: TYPE_MESSAGE type_name: ".bert_tf.Int64Value" }
  field { name: "batch_timeout_micros" number: 2 type: TYPE_MESSAGE type_name: ".bert_tf.Int64Value" }
  field { name: "max_enqueued_batches" number: 3 type: TYPE_MESSAGE type_name: ".bert_tf.Int64Value" }
  field { name: "num_batch_threads" number: 4 type: TYPE_MESSAGE type_name: ".bert_tf.Int64Value" }
  field { name: "allowed_batch_sizes" number: 6 type: TYPE_INT64 label: LABEL_REPEATED }
  field { name: "pad_variable_length_inputs" number: 7 type: TYPE_BOOL }
  field { name: "enable_large_batch_splitting" number: 8 type: TYPE_MESSAGE type_name: ".bert_tf.BoolValue" }
  field { name: "max_execution_batch_size" number: 9 type: TYPE_MESSAGE type_name: ".bert_tf.Int64Value" } }
message_type { name: "SSLConfig"
  field { name: "server_key" number: 1 type: TYPE_STRING }
  field { name: "server_cert" number: 2 type: TYPE_STRING }
  field { name: "custom_ca" number: 3 type: TYPE_STRING }
  field { name: "client_verify" number: 4 type: TYPE_BOOL } }
"""


def read_model_config(path: Path | str) -> list[ServedModel]:
    """Returns the models of a `--model_config_file`, a ModelServerConfig in text format at a local path or a URL.

    Relative base paths are relative to the file's folder. Raises ConfigError as `served_models` does, and for another
    file.
    """
    folder = path.rpartition("/")[0] if isinstance(path, str) else path.parent
    return served_models(_parsed(input_path(path), ModelServerConfig()), str(path), folder)


def served_models(config: ModelServerConfig, source: str, folder: Path | str | None) -> list[ServedModel]:
    """Returns the models of a configuration from `source`, which errors name.

    Without the folder of relative base paths, only absolute ones are allowed. Raises ConfigError if there is no model
    or a duplicate name, or for an unsupported field.
    """
    if config.HasField("custom_model_config"):
        raise ConfigError(f"{source}: custom_model_config is not supported; use model_config_list")
    models = [_served_model(source, folder, entry) for entry in config.model_config_list.config]
    names = [model.name for model in models]
    if not models or len(set(names)) != len(names):
        received = ", ".join(names) or "none"
        raise ConfigError(f"{source}: must name at least one model, and each once. Received: {received}")
    return models


def _served_model(source: str, folder: Path | str | None, entry: ModelConfig) -> ServedModel:
    where = f"{source}: model {entry.name!r}"
    if entry.HasField("logging_config"):
        raise ConfigError(f"{where}: logging_config is not supported; remove it")
    if entry.model_platform not in ("", _PLATFORM):
        raise ConfigError(f"{where}: model_platform must be {_PLATFORM!r}. Received: {entry.model_platform!r}")
    if entry.model_type not in (ModelType.MODEL_TYPE_UNSPECIFIED, ModelType.TENSORFLOW):
        received = ModelType.Name(entry.model_type) if entry.model_type in ModelType.values() else entry.model_type
        raise ConfigError(f"{where}: model_type must be TENSORFLOW, or use model_platform. Received: {received}")
    if not entry.base_path:
        raise ConfigError(f"{where} must have a base_path")
    try:
        base_path = _base_path(folder, entry.base_path)
    except ConfigError as error:
        raise ConfigError(f"{where}: base_path {error}") from error
    try:
        return ServedModel(entry.name, base_path, dict(entry.version_labels), entry.model_version_policy)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error


def _base_path(folder: Path | str | None, text: str) -> Path | str:
    """Returns a base path or its URL. `folder` is that of relative paths, None if they are not allowed."""
    if is_url(text) and not text.startswith("file:"):
        return text.rstrip("/")
    path = local_path(text)
    if path.is_absolute():
        return path
    if folder is None:
        raise ConfigError(f"must be absolute. Received: {text!r}")
    return folder / path if isinstance(folder, Path) else f"{folder}/{path.as_posix()}"


def read_batching_parameters(path: Path) -> BatchingOptions:
    """Returns the options of a `--batching_parameters_file`; the fields for splitting batches have no effect here.

    `max_enqueued_batches` counts batches of `max_batch_size` rows. Raises ConfigError for invalid BatchingParameters,
    and for an unsupported field or value.
    """
    parameters = _parsed(path, _message("BatchingParameters"))
    if parameters.pad_variable_length_inputs:
        raise ConfigError(f"{path}: pad_variable_length_inputs must be false, because it changes BERT's outputs")
    names = ("max_batch_size", "batch_timeout_micros", "num_batch_threads")
    try:
        options = BatchingOptions(**{n: getattr(parameters, n).value for n in names if parameters.HasField(n)})
        if not parameters.HasField("max_enqueued_batches"):
            return options
        rows = parameters.max_enqueued_batches.value * options.max_batch_size
        return dataclasses.replace(options, max_enqueued_rows=rows)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def read_monitoring_config(path: Path) -> str | None:
    """Returns the metrics path of a `--monitoring_config_file`, by default TF Serving's; None if they are not enabled.

    Raises ConfigError if the file is not a MonitoringConfig, or its path is not a plain path.
    """
    prometheus = _parsed(path, _message("MonitoringConfig")).prometheus_config
    if prometheus.path and not _METRICS_PATH.fullmatch(prometheus.path):
        raise ConfigError(f"{path}: `path` must begin with `/` and be a plain path. Received: {prometheus.path!r}")
    return (prometheus.path or metrics.PATH) if prometheus.enable else None


def read_ssl_config(path: Path, folder: Path) -> TlsFiles:
    """Returns the certificate of a `--ssl_config_file`, whose contents are written to a folder as OpenSSL needs files.

    Args:
        path: SSLConfig in text format, with PEM in its fields.
        folder: a folder that other users cannot read.

    Raises:
        ConfigError: the file is not an SSLConfig, has no key or certificate, or asks for the certificates of clients
            without naming their authority.
    """
    config = _parsed(path, _message("SSLConfig"))
    if not config.server_key or not config.server_cert:
        missing = "server_cert" if config.server_key else "server_key"
        raise ConfigError(f"{path}: `{missing}` must hold PEM. Add it.")
    if config.client_verify and not config.custom_ca:
        raise ConfigError(f"{path}: `client_verify` needs the authority of the clients in `custom_ca`. Add it.")
    files = {name: folder / f"{name}.pem" for name in ("server_cert", "server_key", "custom_ca")}
    for name, file in files.items():
        file.write_text(getattr(config, name), encoding="utf-8")
    authority = files["custom_ca"] if config.client_verify else None
    try:
        return TlsFiles(files["server_cert"], files["server_key"], authority)
    except ConfigError as error:
        message = str(error)
        for name, file in files.items():
            message = message.replace(str(file), f"`{name}`")
        raise ConfigError(f"{path}: {message}") from error


def _message(name: str) -> Any:
    """Returns an empty message of `_MESSAGES`."""
    pool = DescriptorPool()
    pool.Add(text_format.Parse(_MESSAGES, FileDescriptorProto()))
    return GetMessageClass(pool.FindMessageTypeByName(f"bert_tf.{name}"))()


def _parsed(path: Path, message: Any) -> Any:
    """Returns a message that is read from a file in text format."""
    try:
        return text_format.Parse(path.read_text(encoding="utf-8"), message)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a {type(message).__name__}: {error}") from error

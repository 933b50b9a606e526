"""Reads TF Serving's configuration files.

`models.config` is parsed as a ModelServerConfig. No Python package has the message of `batching.config`
(BatchingParameters in servables/tensorflow/session_bundle_config.proto), so its few fields are parsed here.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf import text_format
from tensorflow_serving.config.file_system_storage_path_source_pb2 import FileSystemStoragePathSourceConfig
from tensorflow_serving.config.model_server_config_pb2 import ModelConfig, ModelServerConfig, ModelType

from bert_tf.config import ConfigError, local_path
from bert_tf.serving.models.batching import BatchingOptions

# TF Serving's name of the only supported platform.
_PLATFORM = "tensorflow"
_NAME = re.compile(r"[^/:\s]+")
_WRAPPED = re.compile(r"(?P<name>[a-z_]+)\s*\{\s*value\s*:\s*(?P<value>-?[0-9]+)\s*\}")
_BARE = re.compile(r"(?P<name>[a-z_]+)\s*:\s*(?P<value>-?[0-9]+|true|false)")
_BATCHES = "max_enqueued_batches"
# Fields for padding and splitting in TF Serving; here batches are neither padded nor split.
_WITHOUT_EFFECT = ("allowed_batch_sizes", "enable_large_batch_splitting", "max_execution_batch_size")


@dataclass(frozen=True)
class ServedModel:
    """Configuration of a served model.

    Args:
        name: name for clients.
        base_path: folder of its versions.
        labels: version numbers by label.
        policy: policy that selects the versions; defaults to the highest version.
    """

    name: str
    base_path: Path
    labels: dict[str, int] = field(default_factory=dict)
    policy: FileSystemStoragePathSourceConfig.ServableVersionPolicy | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"a model's name must be without `/`, `:` and spaces. Received: {self.name!r}")

    def wanted(self, versions: list[int]) -> list[int]:
        """Returns the existing versions that the policy selects, ascending."""
        policy = self.policy or FileSystemStoragePathSourceConfig.ServableVersionPolicy()
        if policy.HasField("all"):
            return versions
        if policy.HasField("specific"):
            return [version for version in versions if version in policy.specific.versions]
        return versions[-max(1, policy.latest.num_versions) :]

    def older(self, versions: list[int]) -> list[int]:
        """Returns the older versions that `latest` does not select, ascending: the fallback if no newer one loads."""
        policy = self.policy or FileSystemStoragePathSourceConfig.ServableVersionPolicy()
        if policy.HasField("all") or policy.HasField("specific"):
            return []
        return versions[: -max(1, policy.latest.num_versions)]


def read_model_config(path: Path) -> list[ServedModel]:
    """Returns the models of a `--model_config_file`.

    Args:
        path: a ModelServerConfig in text format; relative base paths are relative to its folder.

    Raises:
        ConfigError: if it is not a ModelServerConfig, has no model or a duplicate name, or has an unsupported field.
        OSError: if it cannot be read.
    """
    config = ModelServerConfig()
    try:
        text_format.Parse(path.read_text(encoding="utf-8"), config)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a ModelServerConfig: {error}") from error
    return served_models(config, str(path), path.parent)


def served_models(config: ModelServerConfig, source: str, folder: Path | None) -> list[ServedModel]:
    """Returns the models of a configuration.

    Args:
        config: configuration from a file or a request.
        source: name of the source for errors.
        folder: folder of relative base paths; None to allow only absolute ones.

    Raises:
        ConfigError: if it has no model or a duplicate name, or has an unsupported field.
    """
    if config.HasField("custom_model_config"):
        raise ConfigError(f"{source}: custom_model_config is not supported; use model_config_list")
    models = [_served_model(source, folder, entry) for entry in config.model_config_list.config]
    names = [model.name for model in models]
    if not models or len(set(names)) != len(names):
        received = ", ".join(names) or "none"
        raise ConfigError(f"{source}: must name at least one model, and each once. Received: {received}")
    return models


def _served_model(source: str, folder: Path | None, entry: ModelConfig) -> ServedModel:
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
        base_path = local_path(entry.base_path)
    except ConfigError as error:
        raise ConfigError(f"{where}: base_path: {error}") from error
    if folder is None and not base_path.is_absolute():
        raise ConfigError(f"{where}: base_path must be absolute. Received: {entry.base_path!r}")
    try:
        return ServedModel(
            entry.name, (folder or Path()) / base_path, dict(entry.version_labels), entry.model_version_policy
        )
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error


def read_batching_parameters(path: Path) -> BatchingOptions:
    """Returns the options of a `--batching_parameters_file`.

    Args:
        path: BatchingParameters in text format. `max_enqueued_batches` counts batches of `max_batch_size` rows.

    Raises:
        ConfigError: for invalid BatchingParameters, or an unsupported field or value.
        OSError: if it cannot be read.
    """
    text = re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
    wrapped = {match["name"]: int(match["value"]) for match in _WRAPPED.finditer(text)}
    bare = {match["name"]: match["value"] for match in _BARE.finditer(_WRAPPED.sub("", text))}
    rest = _BARE.sub("", _WRAPPED.sub("", text)).strip()
    if rest:
        raise ConfigError(f"{path}: expected `name {{ value: number }}` or `name: value`. Received: {rest[:80]!r}")
    if bare.pop("pad_variable_length_inputs", "false") != "false":
        raise ConfigError(f"{path}: pad_variable_length_inputs must be false, because it changes BERT's outputs")
    batches = wrapped.pop(_BATCHES, None)
    known = {option.name for option in dataclasses.fields(BatchingOptions)} - {"max_enqueued_rows"}
    unknown = sorted((wrapped.keys() | bare.keys()) - known - set(_WITHOUT_EFFECT))
    if unknown:
        raise ConfigError(f"{path}: unknown fields: {', '.join(unknown)}")
    values = {name: value for name, value in wrapped.items() if name in known}
    try:
        options = BatchingOptions(**values)
        return (
            options
            if batches is None
            else dataclasses.replace(options, max_enqueued_rows=batches * options.max_batch_size)
        )
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error

"""What a server serves and how, from TF Serving's own configuration files.

`models.config` is read as the ModelServerConfig it is. The message of `batching.config` (BatchingParameters of
servables/tensorflow/session_bundle_config.proto) is in no package of Python's, so its few fields are read here.
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
from bert_tf.serving.batching import BatchingOptions

# TF Serving's name of the only kind of model that is served here.
_PLATFORM = "tensorflow"
_NAME = re.compile(r"[^/:\s]+")
_WRAPPED = re.compile(r"(?P<name>[a-z_]+)\s*\{\s*value\s*:\s*(?P<value>-?[0-9]+)\s*\}")
_BARE = re.compile(r"(?P<name>[a-z_]+)\s*:\s*(?P<value>-?[0-9]+|true|false)")
_BATCHES = "max_enqueued_batches"
# Fields that say how TF Serving pads and splits; here a batch has the rows that it has.
_WITHOUT_EFFECT = ("allowed_batch_sizes", "enable_large_batch_splitting", "max_execution_batch_size")


@dataclass(frozen=True)
class ServedModel:
    """A model to serve.

    Args:
        name: as clients call it.
        base_path: folder of its versions.
        labels: version by label.
        policy: which versions; the highest where None.
    """

    name: str
    base_path: Path
    labels: dict[str, int] = field(default_factory=dict)
    policy: FileSystemStoragePathSourceConfig.ServableVersionPolicy | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"a model's name must be without `/`, `:` and spaces. Received: {self.name!r}")

    def wanted(self, versions: list[int]) -> list[int]:
        """Returns which of the versions that are there are to be served, ascending."""
        policy = self.policy or FileSystemStoragePathSourceConfig.ServableVersionPolicy()
        if policy.HasField("all"):
            return versions
        if policy.HasField("specific"):
            return [version for version in versions if version in policy.specific.versions]
        return versions[-max(1, policy.latest.num_versions) :]

    def older(self, versions: list[int]) -> list[int]:
        """Returns the versions that `latest` leaves out, ascending: one of them serves if no newer one can."""
        policy = self.policy or FileSystemStoragePathSourceConfig.ServableVersionPolicy()
        if policy.HasField("all") or policy.HasField("specific"):
            return []
        return versions[: -max(1, policy.latest.num_versions)]


def read_model_config(path: Path) -> list[ServedModel]:
    """Returns the models of a `--model_config_file`.

    Args:
        path: a ModelServerConfig in text form; relative base paths count from its folder.

    Raises:
        ConfigError: if it is not a ModelServerConfig, names no model or one twice, or has an unsupported field.
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
        config: from a file or a request.
        source: named in errors.
        folder: relative base paths count from it; None allows absolute ones only.

    Raises:
        ConfigError: if it names no model or one twice, or has an unsupported field.
    """
    if config.HasField("custom_model_config"):
        raise ConfigError(f"{source}: custom_model_config is not supported; use model_config_list")
    models = [_served(source, folder, entry) for entry in config.model_config_list.config]
    names = [model.name for model in models]
    if not models or len(set(names)) != len(names):
        received = ", ".join(names) or "none"
        raise ConfigError(f"{source}: must name at least one model, and each once. Received: {received}")
    return models


def _served(source: str, folder: Path | None, entry: ModelConfig) -> ServedModel:
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
    """Returns what a `--batching_parameters_file` says.

    Args:
        path: BatchingParameters in text form. `max_enqueued_batches` counts batches of `max_batch_size` rows.

    Raises:
        ConfigError: for what is no BatchingParameters, or cannot be had here.
        OSError: where it cannot be read.
    """
    text = re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
    wrapped = {found["name"]: int(found["value"]) for found in _WRAPPED.finditer(text)}
    bare = {found["name"]: found["value"] for found in _BARE.finditer(_WRAPPED.sub("", text))}
    rest = _BARE.sub("", _WRAPPED.sub("", text)).strip()
    if rest:
        raise ConfigError(f"{path}: expected `name {{ value: number }}` or `name: value`. Received: {rest[:80]!r}")
    if bare.pop("pad_variable_length_inputs", "false") != "false":
        raise ConfigError(f"{path}: pad_variable_length_inputs must be false: it changes the answers of BERT")
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

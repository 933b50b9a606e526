"""Reads TF Serving's `--monitoring_config_file`."""

from __future__ import annotations

import re
from pathlib import Path

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from bert_tf.config import ConfigError
from bert_tf.serving.metrics import PATH

_PATH = re.compile(r"/[^\s{}?#]*")


def _monitoring_config() -> type:
    """Returns the message class of TF Serving's config/monitoring_config.proto, which no Python package has."""
    field, optional = FieldDescriptorProto, FieldDescriptorProto.LABEL_OPTIONAL
    prometheus = DescriptorProto(
        name="PrometheusConfig",
        field=[
            field(name="enable", number=1, type=field.TYPE_BOOL, label=optional),
            field(name="path", number=2, type=field.TYPE_STRING, label=optional),
        ],
    )
    part = field(
        name="prometheus_config",
        number=1,
        type=field.TYPE_MESSAGE,
        type_name=".bert_tf.PrometheusConfig",
        label=optional,
    )
    monitoring = DescriptorProto(name="MonitoringConfig", field=[part])
    pool = DescriptorPool()
    pool.Add(
        FileDescriptorProto(
            name="monitoring_config.proto",
            package="bert_tf",
            syntax="proto3",
            message_type=[prometheus, monitoring],
        )
    )
    return GetMessageClass(pool.FindMessageTypeByName("bert_tf.MonitoringConfig"))


def read_monitoring_config(path: Path) -> str | None:
    """Returns the metrics path of a `--monitoring_config_file`.

    Args:
        path: a MonitoringConfig in text format.

    Returns:
        The path, which defaults to that of TF Serving; None if the file does not enable metrics.

    Raises:
        ConfigError: if the file is not a MonitoringConfig, or its path is not a plain path.
        OSError: if the file cannot be read.
    """
    config = _monitoring_config()()
    try:
        text_format.Parse(path.read_text(encoding="utf-8"), config)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a MonitoringConfig: {error}") from error
    prometheus = config.prometheus_config
    if prometheus.path and not _PATH.fullmatch(prometheus.path):
        raise ConfigError(f"{path}: `path` must begin with `/` and be a plain path. Received: {prometheus.path!r}")
    return (prometheus.path or PATH) if prometheus.enable else None

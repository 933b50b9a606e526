"""Configuration of a run for TensorBoard's HParams tab, which compares runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import metadata
from tensorboard.plugins.hparams.api_pb2 import STATUS_SUCCESS
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo
from tensorboard.plugins.hparams.summary_v2 import hparams_pb


def session_start(settings: Mapping[str, Any]) -> Summary:
    """Returns the summary that opens a run.

    Args:
        settings: settings of the run as nested dictionaries; names are joined with dots, as `training.batch_size`.
    """
    return hparams_pb(dict(_flat(settings)), start_time_secs=time.time())


def session_end() -> Summary:
    """Returns the summary that closes a finished run."""
    info = SessionEndInfo(status=STATUS_SUCCESS, end_time_secs=time.time())
    content = metadata.create_summary_metadata(HParamsPluginData(session_end_info=info))
    value = Summary.Value(tag=metadata.SESSION_END_INFO_TAG, metadata=content, tensor=metadata.NULL_TENSOR)
    return Summary(value=[value])


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, bool | float | str]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, bool | float | int | str) else str(value)

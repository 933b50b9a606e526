"""TensorBoard event files and summaries of the HParams tab, which compares runs; written without TensorFlow."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import metadata
from tensorboard.plugins.hparams.api_pb2 import STATUS_SUCCESS
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.record_writer import RecordWriter

from bert_tf.config.base import flatten

EVENT_FILES = "events.out.tfevents.*"
_FILE_NAME = re.compile(r"events\.out\.tfevents\.(\d+)\..*")


class EventFile:
    """A new event file of a directory; each event is in the file when the call returns.

    TensorBoard reads the files of a directory in the order of their names. Events of earlier files after `start_step`
    are superseded, and TensorBoard drops them from its curves.
    """

    def __init__(self, directory: Path, start_step: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        earlier = (_FILE_NAME.fullmatch(path.name) for path in directory.glob(EVENT_FILES))
        # Files of the same second would be read in the order of process numbers, perhaps the later one first.
        second = max([int(time.time()), *(int(name[1]) + 1 for name in earlier if name)])
        name = f"events.out.tfevents.{second:010d}.{socket.gethostname()}.{os.getpid()}"
        self._records = RecordWriter((directory / name).open("xb"))
        self._write(Event(file_version="brain.Event:2"))
        self._write(Event(step=start_step + 1, session_log=SessionLog(status=SessionLog.START)))

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Adds a point to the curve `tag`."""
        # A plain number: TensorBoard's Python reader keeps superseded points if they are tensors.
        self.summary(Summary(value=[Summary.Value(tag=tag, simple_value=value)]), step)

    def text(self, tag: str, markdown: str, step: int) -> None:
        """Adds a text in Markdown under the name `tag`."""
        self.summary(text_pb(tag, markdown), step)

    def summary(self, summary: Summary, step: int) -> None:
        """Adds a TensorBoard summary at a step."""
        self._write(Event(step=step, summary=summary))

    def close(self) -> None:
        """Closes the file."""
        self._records.close()

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        self._records.write(event.SerializeToString())
        self._records.flush()


def session_start(settings: Mapping[str, Any]) -> Summary:
    """Returns the summary that opens a run; names of nested settings are joined with dots, as `training.batch_size`."""
    values = {
        name: value if isinstance(value, bool | float | int | str) else str(value)
        for name, value in flatten(settings).items()
    }
    return hparams_pb(values, start_time_secs=time.time())


def session_end() -> Summary:
    """Returns the summary that closes a finished run."""
    info = SessionEndInfo(status=STATUS_SUCCESS, end_time_secs=time.time())
    content = metadata.create_summary_metadata(HParamsPluginData(session_end_info=info))
    value = Summary.Value(tag=metadata.SESSION_END_INFO_TAG, metadata=content, tensor=metadata.NULL_TENSOR)
    return Summary(value=[value])

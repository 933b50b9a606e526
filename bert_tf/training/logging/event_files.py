"""TensorBoard's event files, written without TensorFlow."""

from __future__ import annotations

import os
import re
import socket
import time
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.record_writer import RecordWriter

EVENT_FILES = "events.out.tfevents.*"
_FILE_NAME = re.compile(r"events\.out\.tfevents\.(\d+)\..*")


class EventFile:
    """One more event file of a directory; each event is in the file when the call returns.

    TensorBoard reads the files of a directory one after the other, by name. What the earlier ones hold of the steps
    after `start_step` is superseded: it drops them from its curves.

    Args:
        directory: created when missing.
        start_step: finished steps.
    """

    def __init__(self, directory: Path, start_step: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        earlier = (_FILE_NAME.fullmatch(path.name) for path in directory.glob(EVENT_FILES))
        # Two files of one second would be read by process number: the later comes first, perhaps.
        second = max([int(time.time()), *(int(name[1]) + 1 for name in earlier if name)])
        name = f"events.out.tfevents.{second:010d}.{socket.gethostname()}.{os.getpid()}"
        self._records = RecordWriter((directory / name).open("xb"))
        self._write(Event(file_version="brain.Event:2"))
        self._write(Event(step=start_step + 1, session_log=SessionLog(status=SessionLog.START)))

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Adds a point to a curve.

        Args:
            tag: of the curve.
            value: of the point.
            step: finished steps.
        """
        # As a plain number: of tensors, TensorBoard's own reader in Python keeps what is superseded.
        self.summary(Summary(value=[Summary.Value(tag=tag, simple_value=value)]), step)

    def text(self, tag: str, markdown: str, step: int) -> None:
        """Adds a text.

        Args:
            tag: of the text, as that of a curve.
            markdown: what TensorBoard shows.
            step: finished steps.
        """
        self.summary(text_pb(tag, markdown), step)

    def summary(self, summary: Summary, step: int) -> None:
        """Adds what TensorBoard calls a summary, at a step."""
        self._write(Event(step=step, summary=summary))

    def close(self) -> None:
        """Closes the file."""
        self._records.close()

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        self._records.write(event.SerializeToString())
        self._records.flush()

"""Ctrl-C and SIGTERM while training: finish the step, save, then do what the signal means."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn


class Interruption:
    """Whether a signal asked the run to stop."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Takes note of SIGINT and SIGTERM inside; a second one stops at once.

        Does nothing outside the main thread, where Python delivers no signals.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        former = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def act(self) -> NoReturn:
        """Raises what the signal means: KeyboardInterrupt, or SystemExit with the shell's 128 + number."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + (self.signal or signal.SIGTERM))

    def _note(self, number: int, frame: FrameType | None) -> None:
        again = bool(self)
        self.signal = number
        if again:
            self.act()

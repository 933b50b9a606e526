"""SIGINT and SIGTERM during training: the step ends, a checkpoint is saved, and the signal takes effect."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Seconds that a signal may wait for the main thread, which may be blocked on input data.
PATIENCE = 5.0
# An agreement of workers waits for their devices. It takes place about once in this time, at least every `_MOST_STEPS`.
_AGREEMENT_SECONDS, _MOST_STEPS = 1.0, 32


class PreemptionHandler:
    """State of a request to stop the run by a signal.

    Args:
        agree: takes whether this worker was asked to stop and its milliseconds since the last call; returns whether any
            worker was, and the largest number of milliseconds. All workers call it together. None for one process.
        clock: function that returns seconds.
    """

    def __init__(
        self,
        agree: Callable[[bool, int], tuple[bool, int]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.signal: int | None = None
        self._agree = agree
        self._clock = clock
        self._last = clock()
        self._asked, self._interval = 0, 1
        self._agreed = False
        self._has_steps = False
        self._noted = threading.Event()

    def __bool__(self) -> bool:
        """Returns True if the run must stop; equal in all workers of a run."""
        return self._agreed if self._agree else self.signal is not None

    def step_ended(self) -> None:
        """Marks that there is a step to save; before the first call, a signal stops the run at once.

        Must be called after every step.
        """
        self._has_steps = True
        self.ask()

    def ask(self, now: bool = False) -> None:
        """Lets the workers of a run agree whether to stop; does nothing in a run of one process.

        Must be called by all workers after the same steps and batches of an evaluation. They agree about once a second:
        the interval in calls follows from the time that the slowest of them took, so that it is equal in all.

        Args:
            now: agree in this call, and in the next one again because its duration may differ.
        """
        if self._agree is None:
            return
        self._asked += 1
        if not now and self._asked < self._interval:
            return
        milliseconds = round(1000 * (self._clock() - self._last))
        stop, slowest = self._agree(self.signal is not None, milliseconds)
        self._agreed = self._agreed or stop
        calls = int(1000 * _AGREEMENT_SECONDS * self._asked / max(slowest, 1))
        self._interval = 1 if now else max(1, min(calls, 2 * self._interval, _MOST_STEPS))
        self._asked, self._last = 0, self._clock()

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Records SIGINT and SIGTERM in its block; a second signal, or one before the first step, stops at once.

        Does nothing outside the main thread, because Python delivers signals to the main thread only.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        former = {number: signal.signal(number, self._note) for number in _SIGNALS}
        try:
            with self._watched_from_outside():
                yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def act(self) -> NoReturn:
        """Raises KeyboardInterrupt for SIGINT, or SystemExit with the shell's 128 + signal number."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + (self.signal or signal.SIGTERM))

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted.set()
        again = self.signal is not None
        self.signal = number
        if not again and not self._has_steps:
            _report("before the first step was finished; nothing is lost")
        if again or not self._has_steps:
            self.act()

    @contextlib.contextmanager
    def _watched_from_outside(self) -> Iterator[None]:
        """Ends the process on a signal that Python cannot handle because TensorFlow blocks the main thread."""
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        former = signal.set_wakeup_fd(writer.fileno())
        threading.Thread(target=self._listen, args=(reader,), name="signals", daemon=True).start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(former)
            writer.close()

    def _listen(self, reader: socket.socket) -> None:
        received = 0
        with reader:
            while number := reader.recv(1):
                if number[0] not in _SIGNALS:
                    continue
                received += 1
                handled = self._noted.wait(PATIENCE)
                self._noted.clear()
                if not handled and (received > 1 or not self._has_steps):
                    lost = "the steps since the last checkpoint are lost" if self._has_steps else "nothing is lost"
                    _report(f"while waiting for TensorFlow; {lost}")
                    os._exit(128 + number[0])


def _report(text: str) -> None:
    print(f"interrupted {text}.", file=sys.stderr, flush=True)

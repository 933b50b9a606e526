"""Ctrl-C and SIGTERM while training: finish the step, save, then do what the signal means."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# How long a signal may wait for the main thread, which may be held up by data that do not come.
PATIENCE = 5.0


class PreemptionHandler:
    """Whether a signal asked the run to stop.

    Args:
        vote: tells each process of a run whether any of them says yes, see `agreement.vote`; `None` where there is one.
    """

    def __init__(self, any_worker: Callable[[bool], bool] | None = None) -> None:
        self.signal: int | None = None
        self._vote = any_worker
        self._agreed = False
        self._has_steps = False
        self._noted = threading.Event()

    def __bool__(self) -> bool:
        """Tells whether to stop: the same in all processes of a run, where there are several."""
        return self._agreed if self._vote else self.signal is not None

    def step_ended(self) -> None:
        """From here on there is something to save; before, a signal stops at once.

        To be called after every step and every batch of an evaluation, where several processes agree on what follows.
        """
        self._has_steps = True
        self.ask()

    def ask(self) -> None:
        """Lets the processes of a run agree whether to stop; does nothing where there is one."""
        if self._vote:
            self._agreed = self._vote(self.signal is not None) or self._agreed

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Takes note of SIGINT and SIGTERM inside; a second one stops at once, as does one before the first step.

        Does nothing outside the main thread, where Python delivers no signals.
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
        """Raises what the signal means: KeyboardInterrupt, or SystemExit with the shell's 128 + number."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + (self.signal or signal.SIGTERM))

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted.set()
        again = self.signal is not None
        self.signal = number
        if not again and not self._has_steps:
            _say("before a step was finished; nothing is lost")
        if again or not self._has_steps:
            self.act()

    @contextlib.contextmanager
    def _watched_from_outside(self) -> Iterator[None]:
        """Ends the process where a signal should, but TensorFlow holds the main thread, which never learns of it."""
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
                heard = self._noted.wait(PATIENCE)
                self._noted.clear()
                if not heard and (received > 1 or not self._has_steps):
                    lost = "the steps since the last checkpoint are lost" if self._has_steps else "nothing is lost"
                    _say(f"while waiting for TensorFlow; {lost}")
                    os._exit(128 + number[0])


def _say(what: str) -> None:
    print(f"interrupted {what}.", file=sys.stderr, flush=True)

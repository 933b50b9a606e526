"""Several server processes on one listener."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait

from uvicorn.config import STARTUP_FAILURE

from bert_tf.serving.http.server import DrainingConfig, DrainingServer

logger = logging.getLogger(__name__)

_BEAT_SECONDS = 5.0
# For processes to end after the time for their requests, and the least life of one that is replaced without a pause.
_MARGIN_SECONDS = 10.0
_PAUSE_SECONDS = 1.0
_spawn = multiprocessing.get_context("spawn")


class Workers:
    """Runs several `DrainingServer` processes, and replaces those that end or hang.

    Processes share the listener. SIGTERM and SIGINT drain all of them, SIGHUP makes all of them read the certificate
    and the tokens again. Processes whose supervisor was killed drain and end.

    Args:
        config: configuration of each server; `workers` is the number of processes, and a process hangs if it sends no
            sign of life for `timeout_worker_healthcheck` seconds.
        listener: socket of all processes, which this class closes.
    """

    def __init__(self, config: DrainingConfig, listener: socket.socket) -> None:
        self._config = config
        self._listener = listener
        self._workers: list[_Worker] = []
        self._stopping = self._failed = False

    def run(self) -> None:
        """Runs the processes until a signal stops them. Raises OSError if one cannot start."""
        with _handled({signal.SIGTERM: self._stop, signal.SIGINT: self._stop, signal.SIGHUP: self._hang_up}):
            self._workers = [_Worker(self._config, self._listener) for _ in range(self._config.workers)]
            while not self._stopping:
                wait([worker.process.sentinel for worker in self._workers], _BEAT_SECONDS / 10)
                self._replace_ended()
            # The last process with the listener accepts the connections in its backlog, and then closes it.
            self._listener.close()
            for worker in self._workers:
                worker.signal(signal.SIGTERM)
            end = time.monotonic() + self._config.drain_seconds + (self._config.timeout_graceful_shutdown or 0)
            for worker in self._workers:
                worker.process.join(max(0.0, end + _MARGIN_SECONDS - time.monotonic()))
                # One that hangs does not end.
                worker.process.kill()
                worker.process.join()
        if self._failed:
            raise OSError("no worker could start; the messages above have the reason")

    def _stop(self) -> None:
        self._stopping = True

    def _hang_up(self) -> None:
        for worker in self._workers:
            worker.signal(signal.SIGHUP)

    def _replace_ended(self) -> None:
        for number, worker in enumerate(self._workers):
            if self._stopping or worker.lives(self._config.timeout_worker_healthcheck):
                continue
            worker.process.kill()
            worker.process.join()
            if worker.process.exitcode == STARTUP_FAILURE:
                # A further one would fail in the same way.
                logger.error("worker %d failed to start; the server stops", worker.process.pid)
                self._stopping = self._failed = True
            else:
                logger.warning("worker %d ended; another one starts", worker.process.pid)
                if time.monotonic() - worker.began < _MARGIN_SECONDS:
                    # It may fail again.
                    time.sleep(_PAUSE_SECONDS)
                self._workers[number] = _Worker(self._config, self._listener)


class _Worker:
    """A process with a `DrainingServer`, and its signs of life."""

    def __init__(self, config: DrainingConfig, listener: socket.socket) -> None:
        self._beats, beating = _spawn.Pipe(duplex=False)
        self.began = self._last_beat = time.monotonic()
        self.process = _spawn.Process(target=_serve, args=(config, listener, beating))
        # The process inherits the mask, so that SIGHUP waits for its handler instead of ending it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        beating.close()

    def lives(self, seconds: float) -> bool:
        """Returns True if the process runs and has sent a sign of life in the last `seconds`."""
        with contextlib.suppress(EOFError, OSError):
            while self._beats.poll():
                self._beats.recv()
                self._last_beat = time.monotonic()
        return self.process.is_alive() and time.monotonic() - self._last_beat < seconds

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process if it runs."""
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, number)


def _serve(config: DrainingConfig, listener: socket.socket, beats: Connection) -> None:
    """Runs a server in a worker process."""
    threading.Thread(target=_beat, args=(beats,), daemon=True).start()
    # uvicorn raises SIGINT again after its shutdown.
    with contextlib.suppress(KeyboardInterrupt):
        DrainingServer(config).run([listener])


def _beat(beats: Connection) -> None:
    """Sends signs of life; ends the process if nobody receives them."""
    with contextlib.suppress(OSError):
        while True:
            beats.send(None)
            time.sleep(_BEAT_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


@contextlib.contextmanager
def _handled(handlers: dict[signal.Signals, object]) -> Iterator[None]:
    """Calls functions without arguments for signals within the block."""
    former = {number: signal.signal(number, lambda *_, call=call: call()) for number, call in handlers.items()}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)

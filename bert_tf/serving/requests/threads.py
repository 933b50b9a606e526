"""A pool of threads that does not keep its process alive."""

from __future__ import annotations

import functools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class RequestThreads(Executor):
    """Runs calls in at most `most` daemon threads, which start when they are needed.

    The threads of `concurrent.futures.ThreadPoolExecutor` are joined when Python exits, so that one request that never
    ends would keep a stopped server forever.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._started = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Runs a call in a thread, and returns the future of its result."""
        future: Future[Any] = Future()
        self._calls.put((future, functools.partial(fn, *args, **kwargs)))
        with self._lock:
            if not self._idle.acquire(blocking=False) and self._started < self._most:
                try:
                    threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
                except RuntimeError:
                    # The system has no thread left; the others will run the call.
                    if not self._started:
                        raise
                else:
                    self._started += 1
        return future

    def _work(self) -> None:
        while True:
            _run(*self._calls.get())
            self._idle.release()


def _run(future: Future[Any], call: Callable[[], Any]) -> None:
    # A separate function, so that the request is freed before the thread waits for the next one.
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
        # The frame of the traceback would hold the future, and that the error: a reference cycle.
        del future, call
    else:
        future.set_result(result)

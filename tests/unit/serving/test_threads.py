"""Threads of requests."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from bert_tf.serving.requests.threads import RequestThreads


def test_results_and_errors_reach_the_caller() -> None:
    threads = RequestThreads(2, "test")
    assert [future.result(60) for future in [threads.submit(pow, 2, number) for number in range(50)]] == [
        2**number for number in range(50)
    ]
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 / 0).result(60)
    assert threads.submit(int).result(60) == 0


def test_at_most_so_many_calls_run_and_threads_are_daemons() -> None:
    threads, release = RequestThreads(3, "test"), threading.Event()
    entered: list[threading.Thread] = []
    ready = threading.Barrier(4)

    def call() -> None:
        entered.append(threading.current_thread())
        ready.wait(60)
        release.wait(60)

    waiting = [threads.submit(call) for _ in range(3)]
    ready.wait(60)
    cancelled = threads.submit(call)
    assert cancelled.cancel()
    release.set()
    for future in waiting:
        future.result(60)
    assert len(set(entered)) == 3 and all(thread.daemon for thread in entered)
    assert threads.submit(int).result(60) == 0


def test_a_thread_that_cannot_start_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    threads = RequestThreads(1, "test")

    def fail(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(RuntimeError):
        threads.submit(int)
    monkeypatch.setattr(threading.Thread, "start", start)
    assert threads.submit(int).result(60) == 0

"""Workers compare their runs and agree on decisions."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from bert_tf.training.distributed import collectives
from bert_tf.training.distributed.collectives import Workers
from bert_tf.training.loop.checkpoints import TrainingError
from bert_tf.training.loop.preemption import PreemptionHandler

NAMES = ("a:1", "b:2", "c:3")


class Threads(Workers):
    """Workers in threads of this process, which exchange numbers in a list."""

    def __init__(self, index: int, board: list[Any], barrier: threading.Barrier) -> None:
        super().__init__(NAMES, index)
        self._board, self._barrier = board, barrier

    def gather(self, values: Sequence[int]) -> np.ndarray:
        self._board[self.index] = list(values)
        self._barrier.wait(10)
        gathered = np.array(self._board)
        self._barrier.wait(10)
        return gathered


def of_all(work: Callable[[Workers], Any]) -> list[Any]:
    """Returns the results, or the errors, of all workers."""

    def result(worker: Workers) -> Any:
        try:
            return work(worker)
        except TrainingError as error:
            return error

    board, barrier = [None] * len(NAMES), threading.Barrier(len(NAMES))
    with ThreadPoolExecutor(len(NAMES)) as pool:
        return list(pool.map(result, [Threads(index, board, barrier) for index in range(len(NAMES))]))


def test_texts_of_all_workers_in_their_order():
    texts = ["first", "", "größer als die andern"]
    assert of_all(lambda worker: worker.gather_texts(texts[worker.index])) == [texts] * 3


@pytest.mark.parametrize("stopped", [(), (1,), (0, 2)])
def test_one_signal_stops_all_workers(stopped):
    agreements = of_all(lambda worker: worker.agree(worker.index in stopped, 10 * worker.index))
    assert agreements == [(bool(stopped), 20)] * 3


@pytest.mark.parametrize(
    ("seconds", "agreements"),
    [
        # Of 400 steps; intervals double, from one step. The slowest worker decides.
        pytest.param(0.0, 6 + 10, id="at least every 32 steps"),
        pytest.param(0.1, 4 + 38, id="once a second"),
        pytest.param(2.0, 400, id="after every slow step"),
    ],
)
def test_workers_agree_about_once_a_second(seconds, agreements):
    def train(worker: Workers) -> tuple[int, list[int]]:
        # Clocks of workers differ.
        now, steps, agreed = 1e3 * worker.index, 0, []

        def agree(stop: bool, milliseconds: int) -> tuple[bool, int]:
            agreed.append(steps)
            return worker.agree(stop, milliseconds)

        handler = PreemptionHandler(agree, lambda: now)

        def step() -> None:
            nonlocal now, steps
            now, steps = now + seconds / (1 + worker.index), steps + 1
            handler.step_ended()

        for _ in range(400):
            step()
        count = len(agreed)
        # The batches of an evaluation may be slower than steps.
        handler.ask(now=True)
        step()
        assert agreed[count:] == [400, 401]
        # A signal of one worker stops all of them after the same step.
        handler.signal = signal.SIGTERM if worker.index == 1 else None
        while not handler:
            step()
        assert steps <= 401 + 2
        return count, agreed

    first, *others = of_all(train)
    assert first[0] == agreements and others == [first] * 2


def test_different_steps_are_named():
    assert of_all(lambda worker: worker.check_same_step(10)) == [None] * 3
    for error in of_all(lambda worker: worker.check_same_step(10 * worker.index)):
        assert "a:1 after step 0, b:2 after step 10, c:3 after step 20" in str(error)


def facts(worker: Workers, **fields: Any) -> dict[str, Any]:
    # The time-out of a worker is its own.
    return {"training": {"seed": 1, "worker_timeout": 5.0 + worker.index}, "data": ["0f", "1e"]} | fields


@pytest.mark.parametrize(
    ("name", "different"),
    [
        ("data", {"data": ["0f", "77"]}),
        ("training.seed", {"training": {"seed": 2}}),
        ("init.sha256", {"init": {"sha256": "9c"}}),
    ],
)
def test_a_different_run_is_named(name, different):
    assert of_all(lambda worker: worker.check_same_run(facts(worker))) == [None] * 3
    errors = of_all(lambda worker: worker.check_same_run(facts(worker, **(different if worker.index == 1 else {}))))
    for error in errors:
        assert isinstance(error, TrainingError)
        assert f"`{name}`" in str(error)
        assert all(worker in str(error) for worker in NAMES)


def test_different_code_is_named(monkeypatch):
    """Versions are equal, but a source file differs."""
    here = threading.local()

    def check(worker: Workers) -> None:
        here.version = f"0.2.0 {worker.index // 2}"
        worker.check_same_run(facts(worker))

    monkeypatch.setattr(collectives, "code_version", lambda: here.version)
    for error in of_all(check):
        assert "`code`" in str(error) and "c:3 '0.2.0 1'" in str(error)


def test_the_version_of_the_code_depends_on_the_sources(tmp_path, monkeypatch):
    monkeypatch.setattr(collectives, "_PACKAGE", tmp_path)
    versions = []
    for source in ("a = 1", "a = 2"):
        (tmp_path / "module.py").write_text(source)
        collectives.code_version.cache_clear()
        versions.append(collectives.code_version())
    collectives.code_version.cache_clear()
    assert len(set(versions)) == 2

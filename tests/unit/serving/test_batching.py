"""Each request of a batch gets its own rows back, and a bad request does not affect others."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import closing

import numpy as np
import pytest

from bert_tf.serving.errors import ServingError
from bert_tf.serving.models.batching import Batcher, BatchingOptions, bin_of
from bert_tf.serving.requests.tensors import Arrays


class Model:
    """Doubles numbers, counts batches, and waits if requested."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.free = threading.Event()
        self.free.set()
        self.busy = threading.Event()

    def __call__(self, signature: str, inputs: Arrays) -> Arrays:
        self.busy.set()
        assert self.free.wait(20)
        x = inputs["x"]
        self.sizes.append(x.shape[0])
        if (x < 0).any():
            raise ValueError(f"negative: {int(x.min())}")
        return {"y": 2 * x}


def rows(*values: int) -> Arrays:
    return {"x": np.array(values, np.int32).reshape(len(values), 1)}


def held(model: Model, batcher: Batcher) -> Future[Arrays]:
    """Keeps the only thread busy, so that later requests have to wait."""
    model.free.clear()
    first = batcher.submit("s", rows(0))
    assert model.busy.wait(20)
    return first


def test_waiting_requests_are_batched_and_get_their_own_rows() -> None:
    model = Model()
    with closing(
        Batcher(model, BatchingOptions(max_batch_size=8, batch_timeout_micros=0, num_batch_threads=1))
    ) as batcher:
        first = held(model, batcher)
        futures = [
            batcher.submit("s", rows(*range(n, n + size))) for n, size in ((1, 1), (10, 3), (20, 4), (30, 2), (40, 0))
        ]
        model.free.set()
        answers = [future.result(20)["y"].ravel().tolist() for future in (first, *futures)]
    assert answers == [[0], [2], [20, 22, 24], [40, 42, 44, 46], [60, 62], []]
    assert model.sizes == [1, 8, 2]


def test_invalid_request_does_not_affect_others() -> None:
    model = Model()
    with closing(Batcher(model, BatchingOptions(batch_timeout_micros=0, num_batch_threads=1))) as batcher:
        first = held(model, batcher)
        good, bad, other = batcher.submit("s", rows(1)), batcher.submit("s", rows(5, -7)), batcher.submit("s", rows(2))
        model.free.set()
        assert (first.result(20)["y"].item(), good.result(20)["y"].item(), other.result(20)["y"].item()) == (0, 2, 4)
        with pytest.raises(ValueError, match="negative: -7"):
            bad.result(20)


def test_rows_of_different_shapes_and_lengths_are_not_batched() -> None:
    model = Model()
    with closing(Batcher(model, BatchingOptions(batch_timeout_micros=0, num_batch_threads=1))) as batcher:
        held(model, batcher)
        wide = batcher.submit("s", {"x": np.ones((1, 2), np.int32)})
        narrow = batcher.submit("s", rows(1))
        model.free.set()
        assert wide.result(20)["y"].shape == (1, 2)
        assert narrow.result(20)["y"].shape == (1, 1)
    assert sorted(model.sizes) == [1, 1, 1]


def test_inputs_with_different_first_dimensions_run_by_themselves_and_are_limited() -> None:
    seen: list[tuple[int, ...]] = []

    def run(_: str, inputs: Arrays) -> Arrays:
        seen.append(tuple(array.size for array in inputs.values()))
        return {"y": inputs["a"]}

    options = BatchingOptions(max_enqueued_rows=3, batch_timeout_micros=0, num_batch_threads=1)
    with closing(Batcher(run, options)) as batcher:
        for inputs in ({"a": np.zeros(2), "b": np.zeros(3)}, {"a": np.zeros(()), "b": np.zeros(2)}):
            for _ in range(2):
                assert batcher.submit("s", inputs).result(20)["y"].shape == inputs["a"].shape
    assert seen == [(2, 3), (2, 3), (1, 2), (1, 2)]
    model = Model()
    with closing(Batcher(model, options)) as batcher:
        first = held(model, batcher)
        waiting = batcher.submit("s", {"x": np.zeros((3, 1)), "b": np.zeros(2)})
        with pytest.raises(ServingError, match="at most 3 rows may wait"):
            batcher.submit("s", {"x": np.zeros((1, 1)), "b": np.zeros(2)})
        model.free.set()
        assert first.result(20)["y"].size == 1
        assert waiting.result(20)["y"].shape == (3, 1)


def test_rows_beyond_the_queue_are_refused_and_queued_ones_are_answered() -> None:
    model = Model()
    batcher = Batcher(model, BatchingOptions(max_enqueued_rows=3, batch_timeout_micros=0, num_batch_threads=1))
    held(model, batcher)
    waiting = batcher.submit("s", rows(1, 2))
    with pytest.raises(ServingError, match="at most 3 rows may wait; 2 are waiting"):
        batcher.submit("s", rows(1, 2))
    cancelled = batcher.submit("s", rows(9))
    assert cancelled.cancel()
    model.free.set()
    batcher.close()
    assert waiting.result(0)["y"].tolist() == [[2], [4]]
    with pytest.raises(RuntimeError, match="closed"):
        batcher.submit("s", rows(1))


def test_request_larger_than_a_batch_runs_alone() -> None:
    model = Model()
    with closing(Batcher(model, BatchingOptions(max_batch_size=2, max_enqueued_rows=1))) as batcher:
        assert batcher.submit("s", rows(*range(7))).result(20)["y"].shape == (7, 1)
    assert model.sizes == [7]


@pytest.mark.parametrize(("length", "number"), [(0, 0), (1, 0), (64, 0), (65, 1), (96, 1), (97, 2), (10**6, 24)])
def test_length_bins_grow_by_half(length: int, number: int) -> None:
    assert bin_of(np.array([b"", b"a" * length], object)) == number


def test_numbers_and_empty_inputs_are_in_the_first_bin() -> None:
    assert bin_of(np.zeros((2, 99), np.int32)) == bin_of(np.zeros(0, object)) == 0


@pytest.mark.parametrize(
    "options", [{"max_batch_size": 0}, {"max_enqueued_rows": 0}, {"num_batch_threads": 0}, {"batch_timeout_micros": -1}]
)
def test_options_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        BatchingOptions(**options)


def test_cancelled_request_frees_its_place() -> None:
    model = Model()
    options = BatchingOptions(max_batch_size=4, batch_timeout_micros=0, max_enqueued_rows=2, num_batch_threads=1)
    with closing(Batcher(model, options)) as batcher:
        first = held(model, batcher)
        cancelled = batcher.submit("s", rows(1, 2))
        with pytest.raises(ServingError, match="queue .* is full"):
            batcher.submit("s", rows(3))
        assert cancelled.cancel()
        kept = batcher.submit("s", rows(3))
        model.free.set()
        assert kept.result(20)["y"].tolist() == [[6]]
        assert first.result(20)
    assert model.sizes == [1, 1]


def test_hanging_batch_is_detected() -> None:
    model = Model()
    with closing(Batcher(model, BatchingOptions(batch_timeout_micros=0, num_batch_threads=1))) as batcher:
        assert batcher.busy_seconds() == 0
        first = held(model, batcher)
        before = batcher.busy_seconds()
        second = batcher.submit("s", rows(1))
        assert 0 < before < batcher.busy_seconds()
        model.free.set()
        assert first.result(20) and second.result(20)
    assert batcher.busy_seconds() == 0


def test_long_texts_are_not_batched() -> None:
    sizes: list[int] = []
    free, busy = threading.Event(), threading.Event()

    def run(signature: str, inputs: Arrays) -> Arrays:
        busy.set()
        assert free.wait(20)
        sizes.append(len(inputs["text"]))
        return {"y": np.zeros(len(inputs["text"]))}

    def texts(*lengths: int) -> Arrays:
        array = np.empty(len(lengths), object)
        array[:] = [b"x" * length for length in lengths]
        return {"text": array}

    options = BatchingOptions(max_batch_size=8, batch_timeout_micros=0, num_batch_threads=1)
    with closing(Batcher(run, options)) as batcher:
        futures = [batcher.submit("s", texts(1))]
        assert busy.wait(20)
        futures += [batcher.submit("s", texts(2**19)) for _ in range(3)]
        free.set()
        assert all(future.result(20) for future in futures)
    assert sizes == [1, 2, 1]


def test_scalar_inputs_leave_no_trace_in_the_queue() -> None:
    options = BatchingOptions(max_enqueued_rows=2, batch_timeout_micros=0, num_batch_threads=1)
    with closing(Batcher(lambda _, inputs: {"y": inputs["a"]}, options)) as batcher:
        for _ in range(3):
            assert batcher.submit("s", {"a": np.zeros(())}).result(20)["y"].shape == ()
        assert batcher._rows_waiting == 0 and not batcher._queues
    model = Model()
    with closing(Batcher(model, options)) as batcher:
        first = held(model, batcher)
        for _ in range(3):
            assert batcher.submit("s", {"x": np.zeros((2, 1)), "b": np.zeros(1)}).cancel()
        assert batcher._rows_waiting == 0 and not batcher._queues
        model.free.set()
        assert first.result(20)["y"].size == 1

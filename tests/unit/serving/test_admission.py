"""There are byte limits for small requests, large requests that are arriving, and large requests being answered."""

from __future__ import annotations

import contextlib
import queue
import threading

import pytest

from bert_tf.serving.errors import ServingError
from bert_tf.serving.requests.admission import SMALL_BYTES, Admission

LARGE = SMALL_BYTES + 1


def test_single_request_may_exceed_the_limit() -> None:
    with Admission(5).request() as alone:
        alone.add(LARGE)
        alone.add(LARGE)
        alone.complete()


@pytest.mark.parametrize("sizes", [[LARGE], [10, LARGE]])
def test_large_bodies_beyond_the_limit_are_refused_until_others_end(sizes: list[int]) -> None:
    admission = Admission(2 * LARGE - 1)
    with admission.request() as first:
        first.add(LARGE)
        with pytest.raises(ServingError, match="are arriving hold more than"), admission.request() as other:
            for size in sizes:
                other.add(size)
    with admission.request() as first:
        first.add(LARGE)


def test_arriving_bodies_do_not_block_small_or_complete_requests() -> None:
    admission = Admission(4 * LARGE)
    with contextlib.ExitStack() as stack:
        answered = stack.enter_context(admission.request())
        answered.add(LARGE)
        answered.complete()
        for _ in range(4):
            stack.enter_context(admission.request()).add(LARGE)
        with pytest.raises(ServingError), admission.request() as large:
            large.add(LARGE)
        with admission.request() as small:
            small.add(100)
            small.complete()
        answered.complete()


def test_small_requests_are_limited() -> None:
    admission = Admission(4 * 100)
    with admission.request() as first, admission.request() as other:
        first.add(60)
        with pytest.raises(ServingError, match="small requests hold more than 100 bytes"):
            other.add(60)


def test_large_running_requests_have_a_separate_limit() -> None:
    admission = Admission(2 * LARGE)
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            held = stack.enter_context(admission.request())
            held.add(LARGE)
            held.complete()
        third = stack.enter_context(admission.request())
        third.add(LARGE)
        with pytest.raises(ServingError, match="being answered hold more than"):
            third.complete()


def test_memory_is_returned_after_large_requests_only() -> None:
    calls: queue.Queue[str] = queue.Queue()
    admission = Admission(3 * LARGE, trim=lambda: calls.put(threading.current_thread().name))
    for size in (LARGE, LARGE, *[LARGE // 100] * 200):
        with admission.request() as admitted:
            admitted.add(size)
    assert calls.empty()
    with admission.request() as admitted:
        admitted.add(LARGE)
    assert calls.get(timeout=60) == "trim"
    with admission.request() as admitted:
        admitted.add(2 * LARGE)
    assert calls.empty()


def test_bytes_that_a_complete_request_takes_are_those_of_an_answered_one() -> None:
    admission = Admission(2 * LARGE)
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(admission.request()).add(LARGE)
        unzipped = stack.enter_context(admission.request())
        unzipped.complete()
        unzipped.add(LARGE)
        assert unzipped.pool.name == "requests that are being answered"

"""Joins requests of several clients into batches of rows with similar lengths.

Texts are padded to the longest of their batch, so one long text makes all others as expensive. Requests wait in queues
by length (`bin_of`). A batch is taken from one queue as soon as it is full, or when the time-out of its oldest request
has expired.
"""

from __future__ import annotations

import functools
import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

import grpc
import numpy as np

from bert_tf.config.errors import check_fields
from bert_tf.serving.errors import ServingError
from bert_tf.serving.requests.tensors import Arrays

# Maximum bytes of a text in the first bin, and the ratio from one bin to the next.
_SHORTEST, _RATIO = 64, 1.5
# Maximum bytes of all texts in a batch of several requests: the tokenizer uses about 50 bytes of memory for each byte
# of punctuation.
_MAX_TEXT_BYTES = 2**20


@dataclass(frozen=True)
class BatchingOptions:
    """Batching options, with the names of TF Serving's batching parameters."""

    max_batch_size: int = 32  # maximum number of rows; a larger request is a batch by itself
    batch_timeout_micros: int = 2000  # maximum wait of a request for other requests
    max_enqueued_rows: int = 1024  # maximum number of waiting rows; further requests are rejected
    num_batch_threads: int = 2  # maximum number of concurrent batches

    def __post_init__(self) -> None:
        counts = ("max_batch_size", "max_enqueued_rows", "num_batch_threads")
        check_fields(self, counts, lambda value: value >= 1, "must be at least 1")
        check_fields(self, ["batch_timeout_micros"], lambda value: value >= 0, "must not be negative")


# Runs each request by itself, as soon as a thread is free.
ONE_BY_ONE = BatchingOptions(max_batch_size=1, batch_timeout_micros=0)


@dataclass(eq=False)
class _Waiting:
    """A waiting request."""

    signature: str
    inputs: Arrays
    rows: int  # first dimension of the inputs, the largest if they differ
    size: int  # bytes of its texts
    since: float  # time of arrival, in seconds of the monotonic clock
    alone: bool  # its inputs have different first dimensions, so that it cannot be joined
    answer: Future[Arrays] = field(default_factory=Future)


class Batcher:
    """Runs requests in batches on its own threads.

    After `close`, waiting requests are still answered. `run` takes a signature and inputs and returns outputs; the
    first dimension of all arrays is the rows.
    """

    def __init__(self, run: Callable[[str, Arrays], Mapping[str, np.ndarray]], options: BatchingOptions) -> None:
        self._run = run
        self._options = options
        self._queues: dict[Hashable, deque[_Waiting]] = {}
        self._rows_waiting = 0
        self._changed = threading.Condition()
        self._closed = False
        # Thread -> start time of its batch.
        self._running: dict[int, float] = {}
        self._threads = [
            threading.Thread(target=self._work, name=f"batch-{number}", daemon=True)
            for number in range(options.num_batch_threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, signature: str, inputs: Arrays) -> Future[Arrays]:
        """Enqueues a request, to be joined with others of its signature, and returns the future of its outputs.

        A request whose inputs have different first dimensions is run by itself.

        Raises ServingError, UNAVAILABLE, if too many rows are waiting; RuntimeError after `close`.
        """
        lengths = {array.shape[0] if array.ndim else -1 for array in inputs.values()}
        rows, alone = max(lengths), len(lengths) > 1 or min(lengths) < 0
        request = _Waiting(signature, inputs, max(rows, 0), _text_bytes(inputs), time.monotonic(), alone)
        with self._changed:
            if self._closed:
                raise RuntimeError("the batcher is closed")
            # A request that is larger than the queue is accepted if no other request waits.
            if self._rows_waiting and self._rows_waiting + request.rows > self._options.max_enqueued_rows:
                raise ServingError(
                    "The batch scheduling queue to which this task was submitted is full; at most "
                    f"{self._options.max_enqueued_rows} rows may wait; {self._rows_waiting} are waiting already",
                    grpc.StatusCode.UNAVAILABLE,
                )
            self._queues.setdefault(_key(request), deque()).append(request)
            self._rows_waiting += request.rows
            self._changed.notify()
        # Weak, because request and future would form a reference cycle.
        request.answer.add_done_callback(functools.partial(self._forget_cancelled, weakref.ref(request)))
        return request.answer

    def busy_seconds(self) -> float:
        """Returns the longest time in seconds that a request has waited or a batch has run."""
        with self._changed:
            since = [*self._running.values(), *(queue[0].since for queue in self._queues.values() if queue)]
        return max(0.0, time.monotonic() - min(since)) if since else 0.0

    def close(self) -> None:
        """Answers the waiting requests and ends the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _forget_cancelled(self, reference: weakref.ref[_Waiting], answer: Future[Arrays]) -> None:
        """Removes a cancelled request, so that it does not occupy its queue."""
        request = reference()
        if request is None or not answer.cancelled():
            return
        with self._changed:
            key = _key(request)
            queue = self._queues.get(key, deque())
            if request in queue:
                queue.remove(request)
                self._rows_waiting -= request.rows
                if not queue:
                    del self._queues[key]

    def _work(self) -> None:
        while (batch := self._next()) is not None:
            try:
                if batch:
                    self._answer(batch)
            except Exception as error:
                for request in batch:
                    request.answer.set_exception(error)
            finally:
                with self._changed:
                    self._running.pop(threading.get_ident(), None)

    def _next(self) -> list[_Waiting] | None:
        """Waits for a batch and returns it; None if the batcher is closed and empty."""
        with self._changed:
            while True:
                key, at = self._ripest()
                wait = at - time.monotonic()
                if key is not None and wait <= 0:
                    return self._taken(key)
                if key is None and self._closed:
                    return None
                self._changed.wait(None if key is None else wait)

    def _ripest(self) -> tuple[Hashable | None, float]:
        """Returns the next queue and its time; full queues are due at once, the one with the longest wait first."""
        best_key, best = None, float("inf")
        for key, queue in self._queues.items():
            if not queue:
                continue
            since = queue[0].since
            full = queue[0].alone or sum(request.rows for request in queue) >= self._options.max_batch_size
            at = since if full or self._closed else since + self._options.batch_timeout_micros / 1e6
            if at < best:
                best_key, best = key, at
        return best_key, best

    def _taken(self, key: Hashable) -> list[_Waiting]:
        """Takes a batch from a queue without requests that were cancelled in the meantime; it may be empty."""
        queue, rows, size = self._queues[key], 0, 0
        batch: list[_Waiting] = []
        while queue and (
            not batch
            or (rows + queue[0].rows <= self._options.max_batch_size and size + queue[0].size <= _MAX_TEXT_BYTES)
        ):
            request = queue.popleft()
            size += request.size
            self._rows_waiting -= request.rows
            if request.answer.set_running_or_notify_cancel():
                batch.append(request)
                rows += request.rows
        if not queue:
            del self._queues[key]
        self._running[threading.get_ident()] = time.monotonic()
        return batch

    def _answer(self, batch: list[_Waiting]) -> None:
        """Answers requests together; if that fails, each by itself, so that a bad request does not affect others."""
        try:
            answers = self._answers(batch)
        except Exception:
            if len(batch) == 1:
                raise
            for request in batch:
                try:
                    request.answer.set_result(self._answers([request])[0])
                except Exception as error:
                    request.answer.set_exception(error)
            return
        for request, answer in zip(batch, answers, strict=True):
            request.answer.set_result(answer)

    def _answers(self, batch: list[_Waiting]) -> list[Arrays]:
        if batch[0].alone:
            return [dict(self._run(batch[0].signature, batch[0].inputs))]
        joined = {name: np.concatenate([request.inputs[name] for request in batch]) for name in batch[0].inputs}
        outputs = self._run(batch[0].signature, joined)
        ends = np.cumsum([request.rows for request in batch])
        return [
            {name: array[end - request.rows : end] for name, array in outputs.items()}
            for request, end in zip(batch, ends, strict=True)
        ]


def _key(request: _Waiting) -> Hashable:
    """Returns the key of requests that can be joined: signature, shapes of rows, and bins of text lengths."""
    if request.alone:
        return request
    shapes = ((name, array.shape[1:], bin_of(array)) for name, array in sorted(request.inputs.items()))
    return request.signature, *shapes


def _text_bytes(inputs: Arrays) -> int:
    return sum(len(text) for array in inputs.values() if array.dtype == object for text in array.reshape(-1))


def bin_of(array: np.ndarray) -> int:
    """Returns the length bin of the longest text of an array; 0 for numbers."""
    if array.dtype != object:
        return 0
    longest = max((len(text) for text in array.reshape(-1)), default=0)
    return max(0, math.ceil(math.log(max(longest, 1) / _SHORTEST, _RATIO)))

"""Requests of several clients joined into batches, rows of about one length together.

A text is padded to the longest of its batch, so that a long one makes all others as dear. Requests wait in queues by
length (`bin_of`), and a batch is taken from one queue: as soon as it is full, or when its oldest request has waited for
as long as it may.
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

import numpy as np

Arrays = dict[str, np.ndarray]
# Bytes of the texts in the first bin at most, and how much longer those of the next one are.
_SHORTEST, _RATIO = 64, 1.5
# Bytes of all texts of a batch of several requests at most: the tokenizer takes some 50 bytes for one of punctuation.
_MAX_TEXT_BYTES = 2**20


class QueueFullError(RuntimeError):
    """There is no room for a further request."""


@dataclass(frozen=True)
class BatchingOptions:
    """What TF Serving's batching parameters say, by their names.

    Args:
        max_batch_size: rows of a batch at most; a request of more is a batch by itself.
        batch_timeout_micros: microseconds that a request waits for others at most.
        max_enqueued_rows: rows that wait at most; a request beyond them is refused.
        num_batch_threads: batches worked on at once.
    """

    max_batch_size: int = 32
    batch_timeout_micros: int = 2000
    max_enqueued_rows: int = 1024
    num_batch_threads: int = 2

    def __post_init__(self) -> None:
        for name in ("max_batch_size", "max_enqueued_rows", "num_batch_threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1. Received: {getattr(self, name)}")
        if self.batch_timeout_micros < 0:
            raise ValueError(f"`batch_timeout_micros` must not be negative. Received: {self.batch_timeout_micros}")


# Each request by itself, as soon as a thread is free.
ONE_BY_ONE = BatchingOptions(max_batch_size=1, batch_timeout_micros=0)


@dataclass(eq=False)
class _Waiting:
    """One request.

    Args:
        signature: what is asked.
        inputs: arrays whose first dimensions are all `rows`.
        rows: how many.
        size: bytes of its texts.
        since: when it came, in seconds of the monotonic clock.
        answer: gets the outputs.
    """

    signature: str
    inputs: Arrays
    rows: int
    size: int
    since: float
    answer: Future[Arrays] = field(default_factory=Future)


class Batcher:
    """Runs requests in batches, on threads of its own.

    Args:
        run: takes a signature and inputs, gives outputs; all arrays have the rows first.
        options: sizes and times.

    Use it as a context, or call `close`: requests that wait are still answered.
    """

    def __init__(self, run: Callable[[str, Arrays], Mapping[str, np.ndarray]], options: BatchingOptions) -> None:
        self._run = run
        self._options = options
        self._queues: dict[Hashable, deque[_Waiting]] = {}
        self._rows_waiting = 0
        self._changed = threading.Condition()
        self._closed = False
        # Thread -> since when it runs a batch.
        self._running: dict[int, float] = {}
        self._threads = [
            threading.Thread(target=self._work, name=f"batch-{number}", daemon=True)
            for number in range(options.num_batch_threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, signature: str, inputs: Arrays) -> Future[Arrays]:
        """Returns the answer to come.

        Args:
            signature: what is asked; only requests of one signature are joined.
            inputs: arrays of equal first dimensions, the rows.

        Raises:
            QueueFullError: where too many rows wait.
            RuntimeError: after `close`.
        """
        rows = next(iter(inputs.values())).shape[0]
        request = _Waiting(signature, inputs, rows, _text_bytes(inputs), time.monotonic())
        with self._changed:
            if self._closed:
                raise RuntimeError("the batcher is closed")
            # One that is larger than the queue alone may still be answered, when nothing else waits.
            if self._rows_waiting and self._rows_waiting + rows > self._options.max_enqueued_rows:
                raise QueueFullError(f"{self._rows_waiting} rows wait, of {self._options.max_enqueued_rows} at most")
            self._queues.setdefault(_key(request), deque()).append(request)
            self._rows_waiting += rows
            self._changed.notify()
        # Weak: the answer would hold the request that holds it.
        request.answer.add_done_callback(functools.partial(self._forget_cancelled, weakref.ref(request)))
        return request.answer

    def busy_seconds(self) -> float:
        """Returns for how long the oldest request has waited, or the oldest batch has run."""
        with self._changed:
            since = [*self._running.values(), *(queue[0].since for queue in self._queues.values() if queue)]
        return max(0.0, time.monotonic() - min(since)) if since else 0.0

    def close(self) -> None:
        """Answers what waits, and ends the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Batcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _forget_cancelled(self, reference: weakref.ref[_Waiting], answer: Future[Arrays]) -> None:
        """Removes a request that was cancelled, so that it takes no place in its queue."""
        request = reference()
        if request is None or not answer.cancelled():
            return
        with self._changed:
            queue = self._queues.get(_key(request), deque())
            if request in queue:
                queue.remove(request)
                self._rows_waiting -= request.rows

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
        """Waits for a batch; None when there will be none any more."""
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
        """Returns the queue to take from next, and when; full ones at once, the one that waits longest first."""
        found, best = None, float("inf")
        for key, queue in self._queues.items():
            if not queue:
                continue
            since = queue[0].since
            full = sum(request.rows for request in queue) >= self._options.max_batch_size
            at = since if full or self._closed else since + self._options.batch_timeout_micros / 1e6
            if at < best:
                found, best = key, at
        return found, best

    def _taken(self, key: Hashable) -> list[_Waiting]:
        """Takes a batch from a queue; what was cancelled meanwhile is left out, so that it may be []."""
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
        """Answers requests together; where that fails, each by itself, so that a bad one harms no other."""
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
        joined = {name: np.concatenate([request.inputs[name] for request in batch]) for name in batch[0].inputs}
        outputs = self._run(batch[0].signature, joined)
        ends = np.cumsum([request.rows for request in batch])
        return [
            {name: array[end - request.rows : end] for name, array in outputs.items()}
            for request, end in zip(batch, ends, strict=True)
        ]


def _key(request: _Waiting) -> Hashable:
    """Returns what requests of one batch have in common: signature, shapes of rows, about the length of the texts."""
    shapes = ((name, array.shape[1:], bin_of(array)) for name, array in sorted(request.inputs.items()))
    return request.signature, *shapes


def _text_bytes(inputs: Arrays) -> int:
    return sum(len(text) for array in inputs.values() if array.dtype == object for text in array.reshape(-1))


def bin_of(array: np.ndarray) -> int:
    """Returns the number of the bin that the longest text of an array is in; 0 for numbers."""
    if array.dtype != object:
        return 0
    longest = max((len(text) for text in array.reshape(-1)), default=0)
    return max(0, math.ceil(math.log(max(longest, 1) / _SHORTEST, _RATIO)))

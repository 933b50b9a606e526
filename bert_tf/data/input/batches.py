"""Batches of numpy arrays, with the few operations of a `tf.data.Dataset` that a run needs."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

_Item = TypeVar("_Item")


class Dataset(Protocol):
    """What a run asks of its data; a `tf.data.Dataset` has it."""

    def __iter__(self) -> Iterator[Any]:
        """Begins a pass."""

    def take(self, count: int) -> Dataset:
        """Returns the first `count` batches, all of them where it is -1."""

    def concatenate(self, dataset: Dataset) -> Dataset:
        """Returns these batches, then those of `dataset`."""


class Batches:
    """Batches that can be gone through again and again.

    Args:
        make: begins a pass.
    """

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return self._make()

    def take(self, count: int) -> Batches:
        """Returns the first `count` batches, all of them where it is -1."""
        return self if count == -1 else Batches(lambda: itertools.islice(self, count))

    def concatenate(self, dataset: Dataset) -> Batches:
        """Returns these batches, then those of `dataset`."""
        return Batches(lambda: itertools.chain(self, dataset))


def made_ahead(items: Iterator[_Item], count: int) -> Iterator[_Item]:
    """Yields `items`, up to `count` of which a thread makes before they are asked for."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        pending = deque(pool.submit(next, items, end) for _ in range(count))
        try:
            while (item := pending.popleft().result()) is not end:
                pending.append(pool.submit(next, items, end))
                yield item  # type: ignore[misc]
        finally:
            for future in pending:
                future.cancel()

"""Batches of numpy arrays with the operations of a `tf.data.Dataset` that training needs."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

_Item = TypeVar("_Item")


class Dataset(Protocol):
    """Interface of training data; a `tf.data.Dataset` implements it."""

    def __iter__(self) -> Iterator[Any]:
        """Starts a new pass."""

    def take(self, count: int) -> Dataset:
        """Returns the first `count` batches, or all batches if `count` is -1."""

    def concatenate(self, dataset: Dataset) -> Dataset:
        """Returns these batches followed by the batches of `dataset`."""


class Batches:
    """A re-iterable sequence of batches.

    Args:
        make: function that starts a new pass.
    """

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return self._make()

    def take(self, count: int) -> Batches:
        """Returns the first `count` batches, or all batches if `count` is -1."""
        return self if count == -1 else Batches(lambda: itertools.islice(self, count))

    def concatenate(self, dataset: Dataset) -> Batches:
        """Returns these batches followed by the batches of `dataset`."""
        return Batches(lambda: itertools.chain(self, dataset))


def made_ahead(items: Iterator[_Item], count: int) -> Iterator[_Item]:
    """Yields `items` and prefetches up to `count` of them in a background thread."""
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

"""Which answers a page shows: the worst ones, and a sample of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Row = TypeVar("Row")
SHOWN_WORST = 100


def worst(rows: Sequence[Row], badness: Callable[[Row], Any], count: int = SHOWN_WORST) -> list[Row]:
    """Returns the `count` rows of the greatest badness, the worst first.

    Of those between which the badness of the last one decides nothing, it takes some from all over the file: its
    beginning may be about one thing.
    """
    bad = [(badness(row), row) for row in rows]
    order = sorted(bad, key=lambda pair: pair[0], reverse=True)
    if len(order) <= count:
        return [row for _, row in order]
    limit = order[count - 1][0]
    beyond = [row for value, row in order if value > limit]
    return beyond + spread([row for value, row in bad if value == limit], count - len(beyond))


def spread(rows: Sequence[Row], count: int) -> list[Row]:
    """Returns `count` of the rows, at equal distances, in their order; all where there are no more."""
    if len(rows) <= count:
        return list(rows)
    return [rows[(2 * number + 1) * len(rows) // (2 * count)] for number in range(count)]

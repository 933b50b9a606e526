"""Selects the predictions shown in a report: the worst ones and a sample of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Row = TypeVar("Row")
SHOWN_WORST = 100


def worst(rows: Sequence[Row], badness: Callable[[Row], Any], count: int = SHOWN_WORST) -> list[Row]:
    """Returns the rows with the largest badness, the worst first.

    Ties at the last place are sampled evenly over the file, because its beginning may cover a single topic.

    Args:
        rows: rows in the order of the file.
        badness: sort key of a row; larger is worse.
        count: maximum number of rows.

    Returns:
        At most `count` rows.
    """
    bad = [(badness(row), row) for row in rows]
    order = sorted(bad, key=lambda pair: pair[0], reverse=True)
    if len(order) <= count:
        return [row for _, row in order]
    limit = order[count - 1][0]
    beyond = [row for value, row in order if value > limit]
    return beyond + spread([row for value, row in bad if value == limit], count - len(beyond))


def spread(rows: Sequence[Row], count: int) -> list[Row]:
    """Returns `count` evenly spaced rows in order, or all rows if there are at most `count`."""
    if len(rows) <= count:
        return list(rows)
    return [rows[(2 * number + 1) * len(rows) // (2 * count)] for number in range(count)]

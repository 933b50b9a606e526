"""Numbers and durations in messages, and the number of cores."""

from __future__ import annotations

import os


def plural(count: int, what: str) -> str:
    """Formats a number with its noun.

    Example:
        >>> from bert_tf.entry.amounts import plural
        >>> plural(1, "shard"), plural(1024, "shard")
        ('1 shard', '1,024 shards')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def in_time(seconds: float) -> str:
    """Formats a duration.

    Example:
        >>> from bert_tf.entry.amounts import in_time
        >>> [in_time(seconds) for seconds in (40, 110, 1500, 12_000)]
        ['40 s', '1 min 50 s', '25 min', '3 h 20 min']
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    whole, rest = divmod(round(seconds), 60)
    if whole < 10:
        return f"{whole} min {rest} s" if rest else f"{whole} min"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def available_cores() -> int:
    """Returns the number of cores that this process may use.

    Example:
        >>> from bert_tf.entry.amounts import available_cores
        >>> available_cores() > 0
        True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

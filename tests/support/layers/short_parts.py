"""Attention in parts of a few tokens, so that short rows are computed as long ones are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from bert_tf.layers import attention_pattern

QUERIES, NARROWEST, LONGEST_WHOLE = 4, 2, 5


@contextlib.contextmanager
def short_parts() -> Iterator[None]:
    """Shortens the parts until the end of the block. Graphs must be traced inside it."""
    short = {"_QUERIES": QUERIES, "_NARROWEST": NARROWEST, "_LONGEST_WHOLE": LONGEST_WHOLE}
    before = {name: getattr(attention_pattern, name) for name in short}
    try:
        for name, value in short.items():
            setattr(attention_pattern, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(attention_pattern, name, value)

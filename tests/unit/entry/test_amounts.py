"""Durations in messages."""

from __future__ import annotations

import pytest

from bert_tf.entry.amounts import in_time


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (99.4, "99 s"),
        (107, "1 min 47 s"),
        (120, "2 min"),
        (630, "10 min"),
        (7_200, "2 h"),
        (12_000, "3 h 20 min"),
    ],
)
def test_durations_are_formatted(seconds: float, text: str) -> None:
    assert in_time(seconds) == text

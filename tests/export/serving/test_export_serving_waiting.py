"""The bytes of requests that wait are bounded, except of one alone."""

from __future__ import annotations

import pytest

from bert_tf.export.serving.errors import ServingError
from bert_tf.export.serving.waiting import WaitingBytes


def test_one_alone_may_have_more() -> None:
    waiting = WaitingBytes(5)
    with waiting.request() as arrived:
        arrived(4)
        arrived(4)


@pytest.mark.parametrize("sizes", [[1], [8]])
def test_what_comes_beyond_is_refused_until_others_are_done(sizes: list[int]) -> None:
    waiting = WaitingBytes(5)
    with waiting.request() as first:
        first(5)
        with (
            pytest.raises(ServingError, match="requests of more than 5 bytes wait already"),
            waiting.request() as other,
        ):
            for size in sizes:
                other(size)
    with waiting.request() as first, waiting.request() as other:
        first(2)
        other(3)
        with pytest.raises(ServingError):
            first(1)

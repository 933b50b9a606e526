from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_tf.tasks.features.embed import read_lines, windows
from bert_tf.tasks.input_errors import InputErrors


@given(length=st.integers(0, 200), most=st.integers(2, 40))
def test_windows_keep_every_piece_once_with_context(length, most):
    kept = []
    for window in windows(length, most):
        begin, end = (window.first - 1 + place for place in window.keep)
        last = min(window.first + most, length)
        assert window.first <= begin <= end <= last
        kept += range(begin, end)
        # On a side where the text continues, half of the overlap with the neighbouring row.
        for at_edge, context in ((window.first == 0, begin - window.first), (last == length, last - end)):
            assert at_edge or context >= most // 4
    assert kept == list(range(length))


def test_invalid_utf8_is_named(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes(b"good\nb\xffd\n")
    lines = read_lines(path, InputErrors())
    assert next(lines).texts == ("good",)
    with pytest.raises(ValueError, match=r"texts\.txt: line 2: not UTF-8"):
        next(lines)

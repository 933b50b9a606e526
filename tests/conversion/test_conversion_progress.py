"""Tests the progress log of a conversion."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bert_tf.commands import convert
from bert_tf.config import BertConfig
from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.formats.registry import FORMS
from bert_tf.conversion.progress import watched
from bert_tf.conversion.tensors import Heads, Tensor
from bert_tf.entry import progress


def test_count_rate_and_time_left_are_told_now_and_then(monkeypatch, capsys):
    arrays = {name: np.full((1_000_000,), number, np.float32) for number, name in enumerate("abcd")}
    tensors = {name: Tensor(name, array.shape, lambda array=array: array) for name, array in arrays.items()}
    # The first reading of the clock is the start; the tensors are read 1, 5, 6 and 10 seconds later.
    seconds = iter([0.0, 1.0, 5.0, 6.0, 10.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    checkpoint = watched(Checkpoint("preset", Path("x"), BertConfig(), Heads(), tensors))
    assert [float(checkpoint.array(name)[0]) for name in "abcd"] == [0, 1, 2, 3]
    assert capsys.readouterr().err.splitlines() == [
        "2000000 parameters of 4000000, 5 s left, 400000 a second",
        "4000000 parameters of 4000000, 0 s left, 400000 a second",
    ]


def test_the_command_names_the_forms_that_there_are():
    assert convert.FORMS == FORMS

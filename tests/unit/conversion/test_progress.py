"""Tests the progress log of a conversion."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from bert_tf.commands import convert
from bert_tf.config import BertConfig
from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.convert import watched
from bert_tf.conversion.formats.registry import FORMS
from bert_tf.conversion.tensors import Heads, Tensor


def test_count_rate_and_remaining_time_are_reported_at_intervals(caplog):
    arrays = {name: np.full((1_000_000,), number, np.float32) for number, name in enumerate("abcd")}
    tensors = {name: Tensor(name, array.shape, lambda array=array: array) for name, array in arrays.items()}
    # The clock is first read at the start; the tensors are read 1, 4, 5 and 8 seconds later.
    seconds = iter([0.0, 1.0, 4.0, 5.0, 8.0])
    checkpoint = watched(Checkpoint("preset", Path("x"), BertConfig(), Heads(), tensors), lambda: next(seconds))
    with caplog.at_level(logging.INFO):
        assert [float(checkpoint.array(name)[0]) for name in "abcd"] == [0, 1, 2, 3]
    assert [record.getMessage().strip() for record in caplog.records] == [
        "2/4 tensors, 2.0 of 4.0 million parameters, 0.5 million/s, eta 4 s",
        "4/4 tensors, 4.0 of 4.0 million parameters, 0.5 million/s, eta 0 s",
    ]


def test_command_lists_all_formats():
    assert convert.FORMS == FORMS

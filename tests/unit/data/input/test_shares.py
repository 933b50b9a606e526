"""Processes that each read a share of the rows read the batches of one process."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import DataConfig
from bert_tf.data.input import numpy as numpy_pipeline
from bert_tf.data.input import own_rows
from bert_tf.data.input import tf as tf_pipeline
from bert_tf.data.input.dataset import RowShare
from bert_tf.data.schema import MASK_POSITIONS
from tests.support.data.samples import make_vocabulary, write_directory

READERS = {"tf": tf_pipeline.pretraining_dataset, "numpy": numpy_pipeline.pretraining_batches}
BATCH, WORKERS = 6, 3
# Batches from which on to compare: the second group of bins.
CASES = {
    "full": {"split": "train", "start_step": 2},
    "bins": {"split": "train", "by_length": True, "start_step": 17},
    "evaluation": {"split": "validation", "training": False},
}


@pytest.fixture(scope="module", params=["dynamic", "static"])
def directory(request, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp(request.param)
    config = DataConfig(max_seq_length=32, max_predictions_per_seq=5, short_seq_prob=0.5, masking=request.param)
    write_directory(path, config, make_vocabulary(), {"train": [60, 41], "validation": [9, 2]})
    return path


def batches(reader: str, directory: Path, split: str, **options: Any) -> list[Any]:
    dataset = READERS[reader](directory, split, batch_size=BATCH, seed=5, **options)
    return [tf.nest.map_structure(np.asarray, batch) for batch in islice(dataset, 20)]


def assert_joined(shares: list[list[Any]], whole: list[Any]) -> None:
    assert len(whole) > 1
    for *parts, batch in zip(*shares, whole, strict=True):
        joined = tf.nest.map_structure(lambda *rows: np.concatenate(rows), *parts)
        tf.nest.map_structure(np.testing.assert_array_equal, joined, batch)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("reader", [pytest.param("tf", marks=pytest.mark.integration), "numpy"])
def test_shares_of_all_workers_are_the_batches_of_one_process(reader, case, directory):
    shares = [batches(reader, directory, **CASES[case], share=RowShare(i, WORKERS)) for i in range(WORKERS)]
    assert_joined(shares, batches(reader, directory, **CASES[case]))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("directory", ["dynamic"], indirect=True)
def test_a_worker_parses_and_masks_its_share_only(reader, case, directory, monkeypatch):
    masked: list[int] = []
    mask_rows = numpy_pipeline.mask_rows

    def counted(token_ids, *arguments):
        masked.append(len(token_ids))
        return mask_rows(token_ids, *arguments)

    def counted_in_graph(token_ids, *arguments):
        def count(ids):
            masked.append(len(ids))
            return ids

        ids = tf.ensure_shape(tf.numpy_function(count, [token_ids], tf.int32), token_ids.shape)
        return mask_rows_in_graph(ids, *arguments)

    mask_rows_in_graph = tf_pipeline.mask_rows
    monkeypatch.setattr(numpy_pipeline, "mask_rows", counted)
    monkeypatch.setattr(tf_pipeline, "mask_rows", counted_in_graph)
    options = CASES[case] | ({"epochs": 1, "start_step": 1} if case != "evaluation" else {})
    read = batches(reader, directory, **options, share=RowShare(1, WORKERS))
    assert set(masked) == {BATCH // WORKERS}
    assert len(masked) == len(read)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("directory", ["dynamic"], indirect=True)
def test_rows_of_whole_batches(reader, directory):
    whole = READERS[reader](directory, "train", batch_size=BATCH, seed=5, epochs=1)
    shares = [list(own_rows(whole, RowShare(i, WORKERS))) for i in range(WORKERS)]
    assert_joined(shares, [tf.nest.map_structure(np.asarray, batch) for batch in whole])
    if reader == "tf":
        assert own_rows(whole, RowShare(0, WORKERS)).element_spec[0][MASK_POSITIONS].shape == (2, 5)


def test_unequal_shares_are_refused(tmp_path):
    with pytest.raises(ValueError, match="multiple of the number of shares, 4. Received: 6"):
        batches("numpy", tmp_path, "train", share=RowShare(0, 4))

"""The numpy pipeline is bit-identical to the tf.data pipeline."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
from itertools import islice

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import DataConfig
from bert_tf.data.input import numpy as numpy_pipeline
from bert_tf.data.input import packed_data
from bert_tf.data.input import tf as tf_pipeline
from bert_tf.data.input.bins import GROUP
from bert_tf.data.input.dataset import Batches, prefetched
from bert_tf.data.input.numpy import pretraining_batches
from bert_tf.data.input.tf import pretraining_dataset
from bert_tf.data.manifest import write_manifest
from bert_tf.data.tfrecord.example_reader import decode_example, decode_examples
from bert_tf.data.tfrecord.shards import write_shard
from tests.support.data.samples import make_vocabulary, write_directory

VOCABULARY = make_vocabulary()
PIECE = DataConfig(max_seq_length=32, max_predictions_per_seq=5)
CONFIGS = {
    "piece": PIECE,
    "whole_word": dataclasses.replace(PIECE, mask_unit="whole_word"),
    "span": dataclasses.replace(PIECE, mask_unit="span"),
    "single": dataclasses.replace(PIECE, next_sentence=False),
    "static": dataclasses.replace(PIECE, masking="static"),
}
SIZES = {"train": [23, 1, 0, 40, 17], "validation": [9, 2]}  # 81 and 11 examples


@pytest.fixture(scope="module", params=CONFIGS)
def directory(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param)
    write_directory(path, CONFIGS[request.param], VOCABULARY, SIZES)
    return path


@pytest.fixture(autouse=True)
def window(monkeypatch):
    """Several windows in an epoch of 81."""
    monkeypatch.setattr(tf_pipeline, "WINDOW", 10)
    monkeypatch.setattr(numpy_pipeline, "WINDOW", 10)


def assert_same(directory, split, **arguments):
    """Compares names, dtypes, shapes and values."""
    arguments = {"batch_size": 7, "seed": 5} | arguments
    expected = list(pretraining_dataset(directory, split, **arguments))
    assert_equal(list(pretraining_batches(directory, split, **arguments)), expected)


def assert_equal(found, expected):
    expected = [tf.nest.map_structure(np.asarray, batch) for batch in expected]
    assert len(found) == len(expected) > 0
    for ours, theirs in zip(found, expected, strict=True):
        for part, other in zip(ours, theirs, strict=True):
            assert part.keys() == other.keys()
            for name in part:
                assert part[name].dtype == other[name].dtype
                np.testing.assert_array_equal(part[name], other[name], err_msg=name)


def test_training_batches_equal_those_of_tf_data(directory):
    assert_same(directory, "train", epochs=4, start_step=3)


@pytest.mark.parametrize("directory", ["piece"], indirect=True)
def test_shares_of_masks_replace_those_of_the_data(directory):
    assert_same(directory, "train", epochs=1, mask_share=0.0, random_share=0.0)
    for inputs, targets, weights in pretraining_batches(
        directory, "train", batch_size=7, seed=5, epochs=1, mask_share=0.0, random_share=0.0
    ):
        predicted = np.take_along_axis(inputs["token_ids"], inputs["mask_positions"], axis=1)
        used = weights["mlm_logits"] > 0
        np.testing.assert_array_equal(predicted[used], targets["mlm_logits"][used])
        assert used.any()


@pytest.mark.parametrize("directory", ["static"], indirect=True)
def test_shares_of_static_masks_cannot_be_replaced(directory):
    with pytest.raises(ValueError, match="mask_share"):
        list(pretraining_batches(directory, "train", batch_size=7, seed=5, mask_share=1.0))


@pytest.mark.integration
@pytest.mark.parametrize("start", [0, 5, GROUP + 3])
def test_batches_by_length_equal_those_of_tf_data(directory, start):
    assert_same(directory, "train", batch_size=2, epochs=2, start_step=start, by_length=True)


def test_packed_batches_equal_those_of_tf_data(directory):
    arguments = {"batch_size": 7, "seed": 5, "epochs": 1}
    expected = packed_data(pretraining_dataset(directory, "train", **arguments), 2)
    found = packed_data(pretraining_batches(directory, "train", **arguments), 2)
    assert isinstance(expected, tf.data.Dataset)
    assert_equal(list(found), list(expected))


def test_evaluation_batches_equal_those_of_tf_data(directory):
    assert_same(directory, "validation", batch_size=4, training=False)


@pytest.mark.parametrize("directory", ["piece"], indirect=True)
def test_batch_size_of_an_epoch_or_more(directory):
    assert_same(directory, "train", epochs=2, batch_size=81)
    assert_same(directory, "validation", batch_size=16, training=False)


@pytest.mark.parametrize("directory", ["piece"], indirect=True)
def test_a_window_longer_than_an_epoch(directory, monkeypatch):
    monkeypatch.setattr(tf_pipeline, "WINDOW", 16384)
    monkeypatch.setattr(numpy_pipeline, "WINDOW", 16384)
    assert_same(directory, "train", epochs=2, start_step=5)


@pytest.mark.parametrize("directory", ["piece"], indirect=True)
@pytest.mark.parametrize("start", [1, 11, 12, 23, 40])
def test_start_step_equals_skip(directory, start):
    everything = list(islice(pretraining_batches(directory, "train", batch_size=7, seed=5), 44))
    rest = islice(pretraining_batches(directory, "train", batch_size=7, seed=5, start_step=start), 44 - start)
    for one, other in zip(everything[start:], rest, strict=True):
        for part, same in zip(one, other, strict=True):
            for name in part:
                np.testing.assert_array_equal(part[name], same[name], err_msg=name)


@pytest.mark.parametrize("directory", ["piece"], indirect=True)
def test_every_iteration_starts_again(directory):
    batches = pretraining_batches(directory, "validation", batch_size=4, seed=0, training=False)
    first, second = ([batch[0]["token_ids"] for batch in batches] for _ in range(2))
    assert len(first) == 3
    np.testing.assert_array_equal(first, second)


def changed(tmp_path, feature, values):
    """Writes a data directory whose only training record has other `values` of one feature."""
    features = {"input_ids": [1, 2, 3], "segment_lengths": [2, 1], "next_sentence_labels": [0]} | {feature: values}
    record = tf.train.Example(
        features=tf.train.Features(
            feature={k: tf.train.Feature(int64_list=tf.train.Int64List(value=v)) for k, v in features.items()}
        )
    ).SerializeToString()
    manifest, _ = write_directory(tmp_path, PIECE, VOCABULARY, {"train": [1], "validation": [1]})
    shard = write_shard(tmp_path / manifest.shards["train"][0].name, [record])
    write_manifest(dataclasses.replace(manifest, shards=manifest.shards | {"train": (shard,)}), tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("feature", "values", "message"),
    [
        ("input_ids", [1, 2, 505], r"token ids must be in \[0, 505\).* Received: 1 to 505"),
        ("input_ids", [1, 2, -3], r"token ids must be in .* Received: -3 to 2"),
        ("input_ids", list(range(33)), "at most max_seq_length = 32 tokens. Received: 33"),
        ("segment_lengths", [2, 2], "`segment_lengths` must sum"),
        ("segment_lengths", [3], "`segment_lengths` must have 2 values in every record. Received: 1"),
        ("next_sentence_labels", [0, 1], "`next_sentence_labels` must have 1 values .* Received: 2"),
    ],
)
def test_invalid_record_is_refused(tmp_path, feature, values, message):
    directory = changed(tmp_path, feature, values)
    with pytest.raises(ValueError, match=message):
        next(iter(pretraining_batches(directory, "train", batch_size=1, seed=0)))


def test_a_record_without_a_feature_is_refused():
    with pytest.raises(ValueError, match="lacks the feature `input_ids`. Received: a"):
        decode_examples([b"\x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x05"], ["input_ids"])


def example(values):
    return tf.train.Example(
        features=tf.train.Features(
            feature={
                "i": tf.train.Feature(int64_list=tf.train.Int64List(value=values)),
                "f": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5, -1.0])),
                "other": tf.train.Feature(int64_list=tf.train.Int64List(value=[1])),
            }
        )
    ).SerializeToString()


NUMBERS = [[0], [127, 128, 300], [2**63 - 1, -1, -(2**63)], list(range(16380, 16390))]


def test_columns_equal_those_of_the_record_reader():
    records = [example(values) for values in NUMBERS]
    columns = decode_examples(records, ["i", "f"])
    assert columns["i"].values.tolist() == [number for numbers in NUMBERS for number in numbers]
    assert columns["i"].counts.tolist() == [len(values) for values in NUMBERS]
    assert columns["f"].values.tolist() == [0.5, -1.0] * len(NUMBERS)
    assert [decode_example(record)["i"].tolist() for record in records] == NUMBERS


def test_other_encodings_are_read_too():
    unpacked = b"\x0a\x0f\x0a\x0d\x0a\x01i\x12\x08\x1a\x06\x08\x05\x08\x80\x80\x01"
    columns = decode_examples([example([7]), unpacked], ["i"])
    assert columns["i"].values.tolist() == [7, 5, 16384]
    assert columns["i"].counts.tolist() == [1, 2]


def test_prefetching_keeps_the_order_and_raises_errors():
    def items():
        yield from range(5)
        raise ValueError("boom")

    found = []
    with pytest.raises(ValueError, match="boom"):
        found.extend(prefetched(items(), 3))
    assert found == [0, 1, 2, 3, 4]
    assert list(prefetched(iter("abc"), 10)) == ["a", "b", "c"]


def test_closed_iterator_leaves_no_thread():
    before = threading.active_count()
    ahead = prefetched(iter(range(10**9)), 3)
    assert next(ahead) == 0
    ahead.close()
    assert threading.active_count() == before


def test_batches_support_take_and_concatenate():
    batches = Batches(lambda: iter(range(4)))
    assert list(batches.take(2)) == [0, 1]
    assert list(batches.take(-1)) == [0, 1, 2, 3]
    assert list(batches.take(1).concatenate(batches)) == [0, 0, 1, 2, 3]
    assert list(batches) == [0, 1, 2, 3]


@pytest.mark.parametrize("directory", ["piece"], indirect=True)
def test_the_pipeline_needs_no_tensorflow(directory):
    program = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "from bert_tf.data.input.numpy import pretraining_batches\n"
        "print(len(list(pretraining_batches(sys.argv[1], 'train', batch_size=7, seed=5, epochs=1))))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(directory)], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "11", done.stderr

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.config import DataConfig
from bert_tf.data.examples.build import build_pairs
from bert_tf.data.masking.tokens import mask_pairs
from bert_tf.data.tfrecord import shards
from bert_tf.data.tfrecord.example_codec import RecordColumn, encode_examples
from tests.support.data.samples import make_vocabulary, random_documents, rows

CONFIG = DataConfig(max_seq_length=64, max_predictions_per_seq=10)
VOCABULARY = make_vocabulary(words=40_000)


@pytest.fixture(scope="module")
def pairs():
    return build_pairs(random_documents(VOCABULARY, 60), CONFIG, VOCABULARY)


def example(features) -> bytes:
    message = tf.train.Example()
    for name, values in features.items():
        values = np.asarray(values)
        feature = message.features.feature[name]
        target = feature.float_list if values.dtype.kind == "f" else feature.int64_list
        target.value.extend(values.tolist())
    return message.SerializeToString(deterministic=True)


@pytest.mark.parametrize("chunk", [7, 8192])
def test_dynamic_records_equal_those_of_protobuf(pairs, chunk, monkeypatch):
    monkeypatch.setattr(shards, "_CHUNK", chunk)
    expected = [
        example({"input_ids": row, "segment_lengths": lengths, "next_sentence_labels": [label]})
        for row, lengths, label in zip(rows(pairs), pairs.segment_lengths, pairs.next_sentence_labels, strict=True)
    ]
    assert shards.encode_dynamic(pairs) == expected


@pytest.mark.parametrize("chunk", [7, 8192])
def test_static_records_equal_those_of_protobuf(pairs, chunk, monkeypatch):
    monkeypatch.setattr(shards, "_CHUNK", chunk)
    masked = mask_pairs(pairs, CONFIG, VOCABULARY)
    encoded = shards.encode_static(pairs, masked, CONFIG)
    assert len(encoded) == len(pairs)
    for i, (first, second) in enumerate(pairs.segment_lengths):
        padding = [0] * (64 - first - second)
        features = {
            "input_ids": masked.token_ids[i],
            "input_mask": [1] * (first + second) + padding,
            "segment_ids": [0] * first + [1] * second + padding,
            "masked_lm_positions": masked.mask_positions[i],
            "masked_lm_ids": masked.mask_ids[i],
            "masked_lm_weights": masked.mask_weights[i],
            "next_sentence_labels": [pairs.next_sentence_labels[i]],
        }
        assert encoded[i] == example(features)


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=40),
            st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=5),
        ),
        max_size=8,
    )
)
@settings(deadline=None, max_examples=60)
def test_any_values_are_encoded_like_protobuf(batch):
    ids, floats = [row for row, _ in batch], [row for _, row in batch]
    columns = {
        "zeta" * 40: RecordColumn(
            np.array([value for row in ids for value in row], np.int64), np.array([len(row) for row in ids], np.int64)
        ),
        "alpha": RecordColumn(
            np.array([value for row in floats for value in row], np.float32),
            np.array([len(row) for row in floats], np.int64),
        ),
    }
    expected = [
        example({"zeta" * 40: np.array(i, np.int64), "alpha": np.array(f, np.float32)})
        for i, f in zip(ids, floats, strict=True)
    ]
    assert encode_examples(columns) == expected


@pytest.mark.parametrize(
    "column", [RecordColumn(np.array([1, -1]), np.array([2])), RecordColumn(np.array([1]), np.array([1, 0]))]
)
def test_invalid_values_are_named(column):
    with pytest.raises(ValueError, match=r"feature `ids`: .* Received"):
        encode_examples({"ids": column})


def test_no_pairs_give_no_records():
    empty = build_pairs([], CONFIG, VOCABULARY)
    assert shards.encode_dynamic(empty) == []
    assert shards.encode_static(empty, mask_pairs(empty, CONFIG, VOCABULARY), CONFIG) == []


@pytest.mark.parametrize("count", [0, 1, 30])
def test_shards_are_tfrecords(tmp_path, count):
    path = tmp_path / "train-00000-of-00001.tfrecord"
    content = [bytes([i]) * (i * 37) for i in range(count)]
    info = shards.write_shard(path, content)
    assert list(shards.read_shard(path)) == content
    assert list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()) == content
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in content:
            writer.write(record)
    data = path.read_bytes()
    assert data == (tmp_path / "theirs").read_bytes()
    expected = shards.ShardInfo(path.name, count, len(data), hashlib.sha256(data).hexdigest())
    assert info == expected


def test_a_failed_write_leaves_the_older_file(tmp_path):
    path = tmp_path / "shard"
    shards.write_shard(path, [b"old"])
    with pytest.raises(TypeError):
        shards.write_shard(path, [b"new", None])
    assert list(shards.read_shard(path)) == [b"old"]
    assert [file.name for file in tmp_path.iterdir()] == ["shard"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], r"record 2 at byte 92: the file ends within the record. Received: 33 of 34 bytes"),
        (lambda data: data[: -(34 + 5)], r"record 2 at byte 92: the file ends within the header. Received: 7 bytes"),
        (lambda data: data[:20] + b"?" + data[21:], r"record 0 at byte 0: the checksum of its data does not match"),
        (lambda data: data[:46] + b"?" + data[47:], r"record 1 at byte 46: the checksum of its length does not match"),
    ],
    ids=["cut data", "cut header", "changed data", "changed length"],
)
def test_damage_is_reported_with_file_and_record(tmp_path, damage, message):
    path = tmp_path / "shard"
    shards.write_shard(path, [b"x" * 30] * 3)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=f"{path}: {message}"):
        list(shards.read_shard(path))


def test_every_flipped_bit_is_detected(tmp_path):
    path = tmp_path / "shard"
    shards.write_shard(path, [b"some text", b"more"])
    data = path.read_bytes()
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="does not match"):
            list(shards.read_shard(path))


@given(sizes=st.lists(st.integers(0, 300), max_size=20), cut=st.integers(0, 400))
def test_a_record_beyond_the_end_is_found_without_its_checksum(tmp_path_factory, sizes, cut):
    path = tmp_path_factory.mktemp("shards") / "shard"
    shards.write_shard(path, [bytes(size) for size in sizes])
    assert shards.find_long_record(path) is None
    ends = np.cumsum([size + 16 for size in sizes]).tolist()
    content = path.read_bytes()[: max(0, sum(size + 16 for size in sizes) - cut)]
    path.write_bytes(content)
    # What is left of a header is no record; the reader of TensorFlow says so.
    whole = sum(end <= len(content) for end in ends)
    place = ([0, *ends])[whole]
    is_long = len(content) - place >= 12
    found = shards.find_long_record(path)
    assert (found == f"{path}: record {whole} at byte {place}: the file ends within the record") == is_long
    assert (found is None) != is_long


def test_shard_info_is_plain_data():
    info = shards.ShardInfo("a", 1, 2, "c")
    assert dataclasses.asdict(info) == {"name": "a", "examples": 1, "bytes": 2, "sha256": "c"}

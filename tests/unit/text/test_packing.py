"""Tests packing of segments against a simple implementation of the published truncation."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.data import schema
from bert_tf.text.packing import pack, trim
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*reversed(SPECIAL_TOKENS), "a", "b"))


def ragged(rows: list[list[int]]) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_lengths(
        tf.constant([token for row in rows for token in row], tf.int32),
        tf.constant([len(row) for row in rows], tf.int64),
    )


def plain_pack(segments: list[list[int]], length: int) -> tuple[list[int], list[int]]:
    """One row: drop the last token of the longer segment, of the second when equal, until all fit."""
    segments = [list(segment) for segment in segments]
    while sum(map(len, segments)) > length - 1 - len(segments):
        first, last = segments[0], segments[-1]
        (first if len(first) > len(last) else last).pop()
    ids, types = [VOCABULARY.cls_id], [0]
    for index, segment in enumerate(segments):
        ids += [*segment, VOCABULARY.sep_id]
        types += [index] * (len(segment) + 1)
    return ids, types


def check(packed: dict[str, tf.Tensor], rows: list[tuple[list[int], list[int]]], width: int) -> None:
    assert set(packed) == {schema.TOKEN_IDS, schema.SEGMENT_IDS, schema.PADDING_MASK}
    for tensor in packed.values():
        assert tensor.dtype == tf.int32
        assert tensor.shape == (len(rows), width)
    for index, (ids, types) in enumerate(rows):
        pad = width - len(ids)
        assert packed["token_ids"][index].numpy().tolist() == ids + [VOCABULARY.pad_id] * pad
        assert packed["segment_ids"][index].numpy().tolist() == types + [0] * pad
        assert packed["padding_mask"][index].numpy().tolist() == [1] * len(ids) + [0] * pad


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("length", [5, 6, 7, 12])
def test_every_pair_of_lengths(count, length):
    sizes = [(a, b) for a in range(14) for b in range(14)]
    columns = [[list(range(10 * k, 10 * k + pair[k])) for pair in sizes] for k in range(count)]
    rows = [plain_pack(list(segments), length) for segments in zip(*columns, strict=True)]
    check(pack([ragged(column) for column in columns], VOCABULARY, length, True), rows, length)


@settings(max_examples=40, deadline=None)
@given(
    pairs=st.lists(st.tuples(*[st.lists(st.integers(5, 6), max_size=40)] * 2), min_size=1, max_size=5),
    length=st.integers(5, 40),
)
def test_random_pairs_padded_to_the_longest(pairs, length):
    rows = [plain_pack(list(pair), length) for pair in pairs]
    packed = pack([ragged(list(column)) for column in zip(*pairs, strict=True)], VOCABULARY, length)
    check(packed, rows, max(len(ids) for ids, _ in rows))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(*[st.lists(st.integers(0, 9), max_size=12)] * 2), max_size=5),
    count=st.sampled_from([1, 2]),
    most=st.integers(0, 16),
)
def test_trim_equals_the_trimmer_of_tensorflow_text(rows, count, most):
    segments = [ragged([row[number] for row in rows]) for number in range(count)]
    expected = tf_text.RoundRobinTrimmer(most).trim(segments)
    for trimmed, wanted in zip(trim(segments, most), expected, strict=True):
        assert trimmed.dtype == wanted.dtype
        assert trimmed.to_list() == wanted.to_list()


@pytest.mark.parametrize("count", [1, 2])
def test_empty_batch(count):
    assert pack([ragged([])] * count, VOCABULARY, 8, fixed_length=True)["token_ids"].shape == (0, 8)
    assert pack([ragged([])] * count, VOCABULARY, 8)["token_ids"].shape[0] == 0


def test_in_a_saved_graph(tmp_path):
    module = tf.Module()
    spec = tf.RaggedTensorSpec([None, None], tf.int32)
    module.pack = tf.function(lambda a, b: pack([a, b], VOCABULARY, 7, True), input_signature=[spec, spec])
    tf.saved_model.save(module, str(tmp_path / "model"))
    packed = tf.saved_model.load(str(tmp_path / "model")).pack(ragged([[5] * 9, [5]]), ragged([[6] * 9, []]))
    check(packed, [plain_pack([[5] * 9, [6] * 9], 7), plain_pack([[5], []], 7)], 7)
    assert module.pack.get_concrete_function().structured_outputs["token_ids"].shape.as_list() == [None, 7]


@pytest.mark.parametrize(
    ("count", "length", "message"),
    [(0, 8, "one or two. Received: 0"), (3, 8, "Received: 3"), (1, 2, "at least 3"), (2, 4, "at least 5")],
)
def test_bad_arguments(count, length, message):
    with pytest.raises(ValueError, match=message):
        pack([ragged([[5]])] * count, VOCABULARY, length)


def test_padding_uses_the_pad_id_of_the_vocabulary():
    packed = pack([ragged([[5], [5, 6]])], VOCABULARY, 9)
    assert VOCABULARY.pad_id == 4
    np.testing.assert_array_equal(packed["token_ids"][0], [2, 5, 1, 4])

from __future__ import annotations

import dataclasses
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import DataConfig
from bert_tf.data.input import tf as tf_pipeline
from bert_tf.data.input.tf import pretraining_dataset
from bert_tf.data.manifest import write_manifest
from bert_tf.data.masking.tokens import mask_pairs, mask_rows
from bert_tf.data.randomness import stream_keys
from bert_tf.data.tfrecord.shards import encode_dynamic, write_shard
from tests.support.data.samples import make_vocabulary, rows, write_directory

VOCABULARY = make_vocabulary()
DYNAMIC = DataConfig(max_seq_length=32, max_predictions_per_seq=5)
STATIC = dataclasses.replace(DYNAMIC, masking="static")
SIZES = {"train": [23, 1, 0, 40, 17], "validation": [9, 2]}  # 81 and 11 examples
EXAMPLES = 81


@pytest.fixture(scope="module", params=["dynamic", "static"])
def data(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    config = DYNAMIC if request.param == "dynamic" else STATIC
    manifest, splits = write_directory(directory, config, VOCABULARY, SIZES)
    return directory, manifest, splits


@pytest.fixture(params=[10, 16384])
def window(request, monkeypatch):
    monkeypatch.setattr(tf_pipeline, "WINDOW", request.param)
    return request.param


def flat(batch) -> dict[str, np.ndarray]:
    inputs, targets, weights = batch
    named = {"inputs": inputs, "targets": targets, "weights": weights}
    return {f"{part}/{name}": np.asarray(x) for part, xs in named.items() for name, x in xs.items()}


def batches(directory, split="train", *, count=None, **arguments) -> list[dict[str, np.ndarray]]:
    dataset = pretraining_dataset(directory, split, **({"batch_size": 7, "seed": 5} | arguments))
    return [flat(batch) for batch in islice(dataset, count)]


def same(one, other) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def stacked(found) -> dict[str, np.ndarray]:
    return {name: np.concatenate([batch[name] for batch in found]) for name in found[0]}


def expected_rows(config, part, keys) -> dict[str, np.ndarray]:
    """Returns the expected batch of all pairs of `part`, computed in numpy."""
    lengths, width = np.diff(part.row_splits), config.max_seq_length
    if config.masking == "static":
        masked = mask_pairs(part, config, VOCABULARY)
    else:
        dense = np.full((len(part), width), VOCABULARY.pad_id, np.int32)
        for i, row in enumerate(rows(part)):
            dense[i, : len(row)] = row
        masked = mask_rows(dense, lengths, keys, config, VOCABULARY)
    mask = np.arange(width) < lengths[:, None]
    second = mask & (np.arange(width) >= part.segment_lengths[:, :1])
    return {
        "inputs/token_ids": masked.token_ids,
        "inputs/segment_ids": second.astype(np.int32),
        "inputs/padding_mask": mask.astype(np.int32),
        "inputs/mask_positions": masked.mask_positions,
        "targets/mlm_logits": masked.mask_ids,
        "targets/nsp_logits": part.next_sentence_labels,
        "weights/mlm_logits": masked.mask_weights,
        "weights/nsp_logits": np.ones(len(part), np.float32),
    }


def expected_epoch(config, parts, seed, epoch, window) -> list[dict[str, np.ndarray]]:
    """Returns the rows of one epoch in order."""
    found = []
    for shard in np.argsort(stream_keys(seed, epoch, np.arange(len(parts))), kind="stable"):
        keys = stream_keys(seed, epoch, shard, np.arange(len(parts[shard])))
        columns = expected_rows(config, parts[shard], keys)
        found += [(key, {name: x[i] for name, x in columns.items()}) for i, key in enumerate(keys)]
    windows = [found[i : i + window] for i in range(0, len(found), window)]
    return [row for window in windows for _, row in sorted(window, key=lambda pair: int(pair[0]))]


def test_training_batches_equal_a_numpy_reference(data, window):
    directory, manifest, splits = data
    stream = [row for epoch in range(3) for row in expected_epoch(manifest.config, splits["train"], 5, epoch, window)]
    found = batches(directory, epochs=3)
    assert len(found) == 3 * EXAMPLES // 7
    actual = stacked(found)
    for name, column in actual.items():
        np.testing.assert_array_equal(column, [row[name] for row in stream[: len(column)]], err_msg=name)


@pytest.mark.integration
def test_start_step_equals_skip(data, window):
    directory = data[0]
    everything = batches(directory, count=44)
    for start in (1, 4, 11, 12, 23, 40):
        same(batches(directory, start_step=start, count=44 - start), everything[start:])


@pytest.mark.integration
@pytest.mark.parametrize("window", [10], indirect=True)
@pytest.mark.parametrize("batch_size", [1, 3, 27, 81])
def test_start_step_equals_skip_for_any_batch_size(data, window, batch_size):
    directory = data[0]
    steps = 2 * EXAMPLES // batch_size
    everything = batches(directory, batch_size=batch_size, epochs=2)
    assert len(everything) == steps
    for start in {1, steps // 2, steps - 1, steps}:
        same(batches(directory, batch_size=batch_size, epochs=2, start_step=start), everything[start:])


def test_batch_size_does_not_change_the_order(data, window):
    directory = data[0]
    one, other = (stacked(batches(directory, batch_size=size, epochs=2)) for size in (6, 27))
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def test_every_epoch_has_every_example_once_in_another_order(data, window):
    directory, manifest, splits = data
    found = stacked(batches(directory, batch_size=27, epochs=2))
    text = found["inputs/token_ids"].copy()
    row, slot = np.nonzero(found["weights/mlm_logits"])
    text[row, found["inputs/mask_positions"][row, slot]] = found["targets/mlm_logits"][row, slot]
    first, second = ([tuple(row) for row in half.tolist()] for half in (text[:EXAMPLES], text[EXAMPLES:]))
    assert first != second
    assert sorted(first) == sorted(second)
    masks = [found["inputs/mask_positions"][half] for half in (slice(EXAMPLES), slice(EXAMPLES, None))]
    order = [sorted(range(EXAMPLES), key=half.__getitem__) for half in (first, second)]
    changed = (masks[0][order[0]] != masks[1][order[1]]).any()
    assert changed == (manifest.config.masking == "dynamic")
    assert sum(len(part) for part in splits["train"]) == EXAMPLES


def test_seed_changes_order(data):
    one, other = (batches(data[0], seed=seed, count=2) for seed in (0, 2**63 - 1))
    assert one[0]["inputs/token_ids"].tolist() != other[0]["inputs/token_ids"].tolist()
    same(one, batches(data[0], seed=0, count=2))


@pytest.mark.parametrize("batch_size", [4, 11, 64])
def test_evaluation_is_one_fixed_pass_padded_with_rows_of_zero_weight(data, batch_size):
    directory, manifest, splits = data
    found = batches(directory, "validation", batch_size=batch_size, seed=1, training=False)
    same(found, batches(directory, "validation", batch_size=batch_size, seed=2, training=False))
    assert len(found) == -(-11 // batch_size)
    actual = stacked(found)
    keys = [stream_keys(0, 0, shard, np.arange(count)) for shard, count in enumerate(SIZES["validation"])]
    parts = [expected_rows(manifest.config, *pair) for pair in zip(splits["validation"], keys, strict=True)]
    for name, column in actual.items():
        np.testing.assert_array_equal(column[:11], np.concatenate([part[name] for part in parts]), err_msg=name)
    for name in ("weights/mlm_logits", "weights/nsp_logits"):
        assert not actual[name][11:].any()
    assert actual["inputs/padding_mask"].any(axis=1).all()


@pytest.mark.parametrize("training", [True, False])
def test_shapes_are_static(data, training):
    dataset = pretraining_dataset(data[0], "train", batch_size=4, seed=0, training=training)
    inputs, targets, weights = dataset.element_spec
    row, slots = tf.TensorSpec((4, 32), tf.int32), tf.TensorSpec((4, 5), tf.int32)
    assert inputs == {"token_ids": row, "segment_ids": row, "padding_mask": row, "mask_positions": slots}
    assert targets == {"mlm_logits": slots, "nsp_logits": tf.TensorSpec((4,), tf.int32)}
    assert weights == {"mlm_logits": tf.TensorSpec((4, 5)), "nsp_logits": tf.TensorSpec((4,))}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "test"}, "`split` must be one of train, validation. Received: 'test'"),
        ({"batch_size": 0}, "`batch_size` must be at least 1. Received: 0"),
        ({"seed": -1}, "`seed` must be in"),
        ({"start_step": -1}, "`start_step` must be at least 0"),
        ({"start_step": 1, "training": False}, "`start_step` must be at least 0, and 0 in evaluation"),
        ({"epochs": 0}, "`epochs` must be at least 1"),
        ({"epochs": 2, "training": False}, "1 or None in evaluation. Received: 2"),
        ({"epochs": 2, "batch_size": 163}, "too few to fill a batch in 2 epochs. Received: batch_size=163"),
    ],
)
def test_arguments_out_of_range_are_named(data, arguments, message):
    arguments = {"split": "train", "batch_size": 4, "seed": 0} | arguments
    with pytest.raises(ValueError, match="Received") as error:
        pretraining_dataset(data[0], arguments.pop("split"), **arguments)
    assert message in str(error.value)


def test_an_empty_split_is_named(tmp_path):
    write_directory(tmp_path, DYNAMIC, VOCABULARY, {"train": [3], "validation": []})
    with pytest.raises(ValueError, match=f"{tmp_path}: split `validation` is empty"):
        pretraining_dataset(tmp_path, "validation", batch_size=2, seed=0)
    write_directory(tmp_path, DYNAMIC, VOCABULARY, {"train": [3], "validation": [0]})
    with pytest.raises(ValueError, match=f"{tmp_path}: split `validation` is empty"):
        pretraining_dataset(tmp_path, "validation", batch_size=2, seed=0, training=False)


def rewritten(directory, change):
    """Writes a directory whose train shard holds `change`d pairs."""
    manifest, splits = write_directory(directory, DYNAMIC, VOCABULARY, {"train": [8], "validation": [1]})
    path = directory / manifest.shards["train"][0].name
    info = write_shard(path, encode_dynamic(change(splits["train"][0])))
    shards = {"train": (info,), "validation": manifest.shards["validation"]}
    write_manifest(dataclasses.replace(manifest, shards=shards), directory)


def joined(pairs):
    """Merges the first three pairs into one that is too long."""
    lengths = np.diff(pairs.row_splits[[0, 1, 3]]).astype(np.int32)
    return dataclasses.replace(
        pairs,
        row_splits=np.delete(pairs.row_splits, [1, 2]),
        segment_lengths=np.vstack([lengths, pairs.segment_lengths[3:]]),
        next_sentence_labels=pairs.next_sentence_labels[2:],
        keys=pairs.keys[2:],
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (joined, "an example must have at most max_seq_length = 32 tokens"),
        (
            lambda pairs: dataclasses.replace(pairs, segment_lengths=pairs.segment_lengths - 1),
            "must sum to the number of tokens",
        ),
        (
            lambda pairs: dataclasses.replace(pairs, token_ids=pairs.token_ids + 400),
            r"token ids must be in \[0, 505\), the size of the vocabulary",
        ),
    ],
    ids=["too long", "segments", "ids"],
)
@pytest.mark.parametrize("training", [True, False])
def test_records_of_another_length_are_an_error(tmp_path, change, message, training):
    rewritten(tmp_path, change)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        batches(tmp_path, batch_size=2, count=3, training=training)


def test_a_damaged_shard_is_an_error(tmp_path):
    manifest, _ = write_directory(tmp_path, DYNAMIC, VOCABULARY, {"train": [8], "validation": []})
    path = tmp_path / manifest.shards["train"][0].name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(tf.errors.DataLossError):
        batches(tmp_path, batch_size=2, epochs=1)
    path.write_bytes(content[:-1])
    with pytest.raises(ValueError, match=f"{path}: must have"):
        batches(tmp_path, batch_size=2, epochs=1)


@pytest.mark.parametrize("masking", ["dynamic", "static"])
def test_single_segments_have_no_next_sentence_target(tmp_path, masking):
    config = dataclasses.replace(DYNAMIC, masking=masking, next_sentence=False)
    write_directory(tmp_path, config, VOCABULARY, {"train": [40], "validation": []})
    (found,) = batches(tmp_path, batch_size=40, epochs=1)
    assert not found["inputs/segment_ids"].any()
    assert not found["weights/nsp_logits"].any()
    assert found["weights/mlm_logits"].any(axis=1).all()
    assert (found["inputs/padding_mask"].sum(axis=1) > 2).all()


def test_data_modules_import_neither_tensorflow_nor_beam():
    program = (
        "import sys, bert_tf.data.randomness, bert_tf.data.examples.build, bert_tf.data.masking.tokens, "
        "bert_tf.data.tfrecord.shards, "
        "bert_tf.data.manifest; sys.exit(bool({'tensorflow', 'apache_beam', 'keras'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

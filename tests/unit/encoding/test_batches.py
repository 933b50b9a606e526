"""Encoded rows become batches of similar length, whose order is a function of seed and step."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.data.schema import PADDING_MASK, SEGMENT_IDS, SINGLE_OUTPUT, TOKEN_IDS
from bert_tf.encoding.batches import batches_in_epoch, epoch_order, training_batches
from bert_tf.encoding.rows import EncodedRows

PAD = 99
LENGTHS = [2, 9, 5, 3, 12, 4, 7, 2, 6, 3, 11]


def rows_of(lengths: list[int], choices: int = 1, **fields) -> EncodedRows:
    """Returns rows whose tokens are their positions; the first two of each row are its first segment."""
    splits = np.concatenate([[0], np.cumsum(lengths)])
    count = len(lengths) // choices
    labels = {SINGLE_OUTPUT: np.arange(count, dtype=np.int32)}
    given = {"targets": labels, "examples": np.arange(count)} | fields
    tokens = np.concatenate([100 * row + np.arange(length) for row, length in enumerate(lengths)]).astype(np.int32)
    return EncodedRows(tokens, splits, np.full(len(lengths), 2, np.int32), PAD, choices=choices, **given)


def labels_of(
    rows: EncodedRows, steps: int, batch_size: int = 3, seed: int = 5, start_step: int = 0
) -> list[list[int]]:
    dataset = training_batches(rows, batch_size, seed, start_step).take(steps)
    return [targets.numpy().tolist() for _, targets, _ in dataset]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(2, 40), min_size=1, max_size=12), st.data())
def test_batch_contains_its_rows_and_padding(lengths: list[int], data: st.DataObject) -> None:
    rows = rows_of(lengths)
    batch = np.array(data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=5)))
    inputs = rows.inputs(batch)
    width = inputs[TOKEN_IDS].shape[1]
    assert width == rows.width(batch) >= max(lengths[row] for row in batch)
    for place, row in enumerate(batch):
        length = lengths[row]
        assert inputs[TOKEN_IDS][place].tolist() == [100 * row + n for n in range(length)] + [PAD] * (width - length)
        assert inputs[SEGMENT_IDS][place].tolist() == [0, 0] + [1] * (length - 2) + [0] * (width - length)
        assert inputs[PADDING_MASK][place].tolist() == [1] * length + [0] * (width - length)
    assert {values.dtype for values in inputs.values()} == {np.dtype(np.int32)}


@pytest.mark.parametrize("most", [32, 4])
def test_batch_widths_are_few_with_little_padding(most: int) -> None:
    rows = rows_of(list(range(2, 513)), most_widths=most)
    widths = {rows.width(np.array([row])) for row in range(len(rows))}
    assert len(widths) == most and max(widths) == 512
    assert all(0 <= rows.width(np.array([row])) - (row + 2) < 512 // most for row in range(len(rows)))


def test_choices_have_a_separate_axis() -> None:
    rows = rows_of([2, 5, 3, 4], choices=2)
    assert len(rows) == 2 and rows.lengths.tolist() == [5, 4] and rows.longest == 5
    inputs = rows.inputs(np.array([1, 0]))
    assert inputs[TOKEN_IDS].shape == (2, 2, 5)
    assert inputs[TOKEN_IDS][0, :, :4].tolist() == [[200, 201, 202, PAD], [300, 301, 302, 303]]
    assert inputs[PADDING_MASK].sum(axis=2).tolist() == [[3, 4], [2, 5]]


def test_token_targets_and_weights_are_padded_with_the_row() -> None:
    lengths = [3, 5, 2]
    tokens = np.arange(1, 11, dtype=np.int32)
    by_token = rows_of(lengths, targets={SINGLE_OUTPUT: tokens}, weights={SINGLE_OUTPUT: tokens / np.float32(2)})
    assert by_token.is_by_token(SINGLE_OUTPUT) and not rows_of(lengths).is_by_token(SINGLE_OUTPUT)
    _, targets, weights = by_token.batch(np.array([2, 0]))
    assert targets[SINGLE_OUTPUT].tolist() == [[9, 10, 0, 0], [1, 2, 3, 0]]
    np.testing.assert_array_equal(weights[SINGLE_OUTPUT], targets[SINGLE_OUTPUT] / 2)
    _, _, plain = replace(by_token, weights={}).batch(np.array([2, 0]))
    assert plain[SINGLE_OUTPUT].tolist() == [[1, 1, 0, 0], [1, 1, 1, 0]]


def test_row_targets_have_separate_weights() -> None:
    rows = rows_of([3, 4, 5], weights={SINGLE_OUTPUT: np.array([1, 2, 3], np.float32)})
    _, targets, weights = rows.batch(np.array([2, 0]))
    assert (targets[SINGLE_OUTPUT].tolist(), weights[SINGLE_OUTPUT].tolist()) == ([2, 0], [3.0, 1.0])


@pytest.mark.parametrize("start", [0, 1, 3, 4, 9])
def test_start_step_continues_the_same_order(start: int) -> None:
    rows = rows_of(LENGTHS)
    whole = labels_of(rows, 12)
    assert labels_of(rows, 12 - start, start_step=start) == whole[start:]


def test_every_epoch_has_every_row_in_another_order() -> None:
    rows = rows_of([*LENGTHS, 8])
    batches = labels_of(rows, 6, batch_size=4, seed=1)
    epochs = [list(itertools.chain(*part)) for part in (batches[:3], batches[3:])]
    assert [sorted(epoch) for epoch in epochs] == [list(range(12))] * 2
    assert epochs[0] != epochs[1]
    assert labels_of(rows, 3, batch_size=4, seed=2) != batches[:3]


def test_the_last_batch_is_filled_up_from_the_beginning_of_the_epoch() -> None:
    assert batches_in_epoch(rows_of(LENGTHS), 4) == 3
    seen = epoch_order(np.array(LENGTHS), 4, seed=0, epoch=0)
    assert seen.shape == (3, 4)
    counts = np.bincount(seen.ravel(), minlength=len(LENGTHS))
    assert sorted(counts.tolist()) == [1] * 10 + [2]


def test_neighbours_in_a_batch_are_about_as_long_and_batches_are_shuffled() -> None:
    lengths = np.random.default_rng(0).integers(2, 500, 1024)
    batches = lengths[epoch_order(lengths, 8, seed=3, epoch=0)]
    spread = batches.max(axis=1) - batches.min(axis=1)
    assert spread.mean() < 0.1 * (lengths.max() - lengths.min())
    means = batches.mean(axis=1)
    assert not np.array_equal(means, np.sort(means)) and not np.array_equal(means, np.sort(means)[::-1])


def test_inputs_and_targets_are_shuffled_together() -> None:
    for inputs, targets, weights in training_batches(rows_of(LENGTHS), 4, seed=3).take(5):
        np.testing.assert_array_equal(inputs[TOKEN_IDS].numpy()[:, 0], 100 * targets.numpy())
        np.testing.assert_array_equal(weights.numpy(), np.ones(4))


def test_several_outputs_keep_their_names() -> None:
    places = {name: np.arange(len(LENGTHS), dtype=np.int32) for name in ("start", "end")}
    _, targets, weights = next(iter(training_batches(rows_of(LENGTHS, targets=places), 4, seed=0)))
    assert set(targets) == set(weights) == {"start", "end"}


def test_fingerprint_covers_ids_targets_and_weights() -> None:
    rows = rows_of([3, 4])
    others = [
        replace(rows, token_ids=rows.token_ids + 1),
        replace(rows, row_splits=np.array([0, 4, 7])),
        replace(rows, first_lengths=rows.first_lengths + 1),
        replace(rows, targets={SINGLE_OUTPUT: np.array([1, 0], np.int32)}),
        replace(rows, weights={SINGLE_OUTPUT: np.array([1, 2], np.float32)}),
    ]
    assert rows.fingerprint == rows_of([3, 4]).fingerprint
    assert len({rows.fingerprint, *(other.fingerprint for other in others)}) == 6


@given(st.lists(st.integers(1, 30), min_size=1, max_size=70), st.integers(1, 9), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_an_epoch_that_is_not_filled_up_has_each_row_once(lengths: list[int], batch_size: int, epoch: int) -> None:
    sizes = np.array(lengths)
    batches = epoch_order(sizes, batch_size, 5, epoch, fill=False)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert sorted(map(len, batches))[1:] == [batch_size] * (len(batches) - 1)
    if len(lengths) % batch_size == 0:
        np.testing.assert_array_equal(batches, epoch_order(sizes, batch_size, 5, epoch))

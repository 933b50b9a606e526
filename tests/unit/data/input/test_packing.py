from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.data.input.packing import MOST_EXAMPLES, first_fit_decreasing, pack_batch

CAPACITIES = np.array([32, 5, MOST_EXAMPLES])


def sizes_of(lengths, predictions) -> np.ndarray:
    return np.stack([lengths, predictions, np.ones(len(lengths), np.int64)], axis=1)


@st.composite
def example_sizes(draw):
    count = draw(st.integers(0, 40))
    lengths = draw(st.lists(st.integers(1, 32), min_size=count, max_size=count))
    predictions = draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))
    return sizes_of(np.array(lengths, np.int64), np.array(predictions, np.int64))


@settings(max_examples=200, deadline=None)
@given(example_sizes())
def test_rows_are_full_and_no_two_can_be_merged(sizes):
    row, start = first_fit_decreasing(sizes, CAPACITIES)
    totals = np.zeros((row.max(initial=-1) + 1, 3), np.int64)
    np.add.at(totals, row, sizes)
    assert (totals <= CAPACITIES).all()
    assert (totals[:, 2] > 0).all()
    # First fit: the first item of a row did not fit into earlier rows, so no two rows can be merged.
    for one in range(len(totals)):
        for other in range(one):
            assert (totals[one] + totals[other] > CAPACITIES).any()
    for number in range(len(totals)):
        inside = np.flatnonzero(row == number)
        inside = inside[np.argsort(start[inside, 2])]
        expected = np.cumsum(sizes[inside], axis=0) - sizes[inside]
        np.testing.assert_array_equal(start[inside], expected)


def test_largest_examples_come_first_and_ties_keep_their_order():
    row, start = first_fit_decreasing(sizes_of([10, 30, 20, 2, 20], [1, 1, 1, 1, 1]), CAPACITIES)
    assert row.tolist() == [1, 0, 1, 0, 2]
    assert start[:, 0].tolist() == [20, 0, 0, 30, 0]


def batch_of(lengths, predictions, width=16, slots=4):
    """Returns tokens and masks that identify their origin; padding is noise, which must not leak through."""
    count = len(lengths)
    rng = np.random.default_rng(0)
    mask = np.arange(width) < np.array(lengths)[:, None]
    predicted = np.arange(slots) < np.array(predictions)[:, None]
    tokens = 100 * np.arange(1, count + 1)[:, None] + np.arange(width)
    noise = rng.integers(10**6, 10**7, (count, width))
    inputs = {
        "token_ids": np.where(mask, tokens, noise).astype(np.int32),
        "segment_ids": np.where(mask, np.arange(width) >= 2, 9).astype(np.int32),
        "padding_mask": mask.astype(np.int32),
        "mask_positions": np.where(predicted, np.arange(slots), 0).astype(np.int32),
    }
    targets = {
        "mlm_logits": np.where(predicted, 1000 * np.arange(1, count + 1)[:, None] + np.arange(slots), 7).astype(
            np.int32
        ),
        "nsp_logits": (np.arange(count) % 2).astype(np.int32),
    }
    weights = {"mlm_logits": predicted.astype(np.float32), "nsp_logits": np.ones(count, np.float32)}
    return inputs, targets, weights


def test_every_example_is_packed_once_and_completely():
    lengths, predictions = [5, 16, 9, 3, 7, 2], [1, 4, 2, 1, 2, 1]
    inputs, targets, weights = pack_batch(*batch_of(lengths, predictions))
    assert inputs["token_ids"].shape == (3, 16)
    for example, (length, count) in enumerate(zip(lengths, predictions, strict=True), start=1):
        row, begin = (int(x[0]) for x in np.nonzero(inputs["token_ids"] == 100 * example))
        span = slice(begin, begin + length)
        np.testing.assert_array_equal(inputs["token_ids"][row, span], 100 * example + np.arange(length))
        np.testing.assert_array_equal(inputs["position_ids"][row, span], np.arange(length))
        np.testing.assert_array_equal(inputs["segment_ids"][row, span], np.arange(length) >= 2)
        number = inputs["example_ids"][row, begin]
        assert (inputs["example_ids"][row] == number).sum() == length
        assert inputs["first_positions"][row, number - 1] == begin
        assert targets["nsp_logits"][row, number - 1] == (example - 1) % 2
        assert weights["nsp_logits"][row, number - 1] == 1
        slots = np.flatnonzero(targets["mlm_logits"][row] // 1000 == example)
        np.testing.assert_array_equal(targets["mlm_logits"][row, slots], 1000 * example + np.arange(count))
        np.testing.assert_array_equal(inputs["mask_positions"][row, slots], begin + np.arange(count))
        np.testing.assert_array_equal(weights["mlm_logits"][row, slots], 1)


@pytest.mark.parametrize("multiple", [1, 4])
def test_all_other_positions_are_padding(multiple):
    lengths, predictions = [5, 16, 9, 3, 7, 2], [1, 4, 2, 1, 2, 1]
    inputs, targets, weights = pack_batch(*batch_of(lengths, predictions), multiple)
    assert len(inputs["token_ids"]) % multiple == 0
    padding = inputs["padding_mask"] == 0
    assert (~padding).sum() == sum(lengths)
    for name in ("token_ids", "segment_ids", "example_ids", "position_ids"):
        assert not inputs[name][padding].any(), name
    assert weights["mlm_logits"].sum() == sum(predictions)
    assert weights["nsp_logits"].sum() == len(lengths)
    for name in weights:
        assert not targets[name][weights[name] == 0].any(), name
    assert not inputs["mask_positions"][weights["mlm_logits"] == 0].any()
    for values in (*inputs.values(), *targets.values()):
        assert values.dtype == np.int32
    assert all(values.dtype == np.float32 for values in weights.values())


def test_examples_without_weight_are_left_out():
    inputs, targets, weights = batch_of([16, 16, 16], [2, 2, 2])
    weights["mlm_logits"][1:] = 0
    weights["nsp_logits"][2] = 0
    packed, _, packed_weights = pack_batch(inputs, targets, weights)
    assert packed["padding_mask"].sum() == 32
    assert packed_weights["nsp_logits"].sum() == 2
    weights = {name: np.zeros_like(values) for name, values in weights.items()}
    packed, _, packed_weights = pack_batch(inputs, targets, weights, multiple=2)
    assert packed["token_ids"].shape == (2, 16)
    assert not packed["padding_mask"].any()
    assert not packed_weights["mlm_logits"].any()


def test_number_of_examples_per_row_is_limited():
    inputs, _, _ = pack_batch(*batch_of([1] * (MOST_EXAMPLES + 1), [0] * (MOST_EXAMPLES + 1)))
    assert inputs["first_positions"].shape == (2, MOST_EXAMPLES)
    assert inputs["padding_mask"].sum(axis=1).tolist() == [MOST_EXAMPLES, 1]

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from bert_tf.config import DataConfig
from bert_tf.data.input.bins import BINS, GROUP, batch_rows, bin_slots, bin_widths
from bert_tf.data.input.tf import pretraining_dataset
from tests.support.data.samples import make_vocabulary, write_directory

VOCABULARY = make_vocabulary()
CONFIG = DataConfig(max_seq_length=32, max_predictions_per_seq=5, short_seq_prob=0.5)
BATCH = 2


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    directory = tmp_path_factory.mktemp("bins")
    write_directory(directory, CONFIG, VOCABULARY, {"train": [60, 41], "validation": [9]})
    return directory


def batches(directory, count, split="train", **arguments):
    arguments = {"batch_size": BATCH, "seed": 5, "by_length": True} | arguments
    return list(islice(pretraining_dataset(directory, split, **arguments), count))


def examples_of(some) -> list[tuple]:
    """Returns the content of the examples without padding, sorted."""
    found = []
    for inputs, targets, weights in some:
        for row in range(len(inputs["token_ids"])):
            length, slots = int(sum(inputs["padding_mask"][row])), int(sum(weights["mlm_logits"][row]))
            tokens = tuple(inputs["token_ids"][row, :length].numpy())
            masks = (
                tuple(inputs["mask_positions"][row, :slots].numpy()),
                tuple(targets["mlm_logits"][row, :slots].numpy()),
            )
            found.append((tokens, masks, int(targets["nsp_logits"][row])))
    return sorted(found)


def test_batches_contain_examples_of_similar_length():
    lengths = np.random.default_rng(1).integers(1, 33, 3 * GROUP)
    rows = batch_rows(lengths, seed=3, group=7)
    assert rows.shape == (GROUP, 3)
    assert sorted(rows.ravel()) == list(range(3 * GROUP))
    by_length = sorted(rows.tolist(), key=lambda batch: lengths[batch].max())
    np.testing.assert_array_equal(lengths[np.concatenate(by_length)], np.sort(lengths))
    assert not np.array_equal(rows, batch_rows(lengths, seed=3, group=8))
    np.testing.assert_array_equal(rows, batch_rows(lengths, seed=3, group=7))


@pytest.mark.parametrize("longest", [8, 9, 30, 128, 512])
def test_widths_are_few_and_cover_every_length(longest):
    widths = bin_widths(DataConfig(max_seq_length=longest, max_predictions_per_seq=5))
    assert len(set(widths)) <= BINS
    assert (widths >= np.arange(longest + 1)).all()
    assert widths[-1] == longest


def test_mask_slots_follow_the_longest_example_of_a_bin():
    config = DataConfig(max_seq_length=128, max_predictions_per_seq=20)
    slots = bin_slots(config)
    assert slots[128] == 19
    assert slots[16] == 2  # round(16 * 0.15)
    assert slots[17] == 5  # round(32 * 0.15)
    # Next tokens: each position but the last one.
    assert bin_slots(config, "causal_lm")[[128, 16, 17]].tolist() == [127, 15, 31]


@pytest.mark.integration
def test_a_group_has_the_same_examples_as_its_full_batches(data):
    full = batches(data, 2 * GROUP, by_length=False)
    bins = batches(data, 2 * GROUP)
    for group in (slice(0, GROUP), slice(GROUP, None)):
        assert examples_of(bins[group]) == examples_of(full[group])
    shapes = {inputs["token_ids"].shape[1] for inputs, _, _ in bins}
    assert shapes <= set(bin_widths(CONFIG).tolist())
    assert len(shapes) > 1
    padding = [1 - np.mean(np.concatenate([np.ravel(b[0]["padding_mask"]) for b in some])) for some in (full, bins)]
    assert padding[1] < padding[0] / 2


@pytest.mark.parametrize("start", [1, GROUP - 1, GROUP, GROUP + 5])
def test_start_step_equals_skip(data, start):
    whole, rest = batches(data, start + 4)[start:], batches(data, 4, start_step=start)
    for one, other in zip(whole, rest, strict=True):
        for expected, received in zip(one, other, strict=True):
            for name in expected:
                np.testing.assert_array_equal(expected[name], received[name], err_msg=name)


def test_evaluation_is_not_by_length(data):
    with pytest.raises(ValueError, match="by_length"):
        pretraining_dataset(data, "validation", batch_size=2, seed=0, training=False, epochs=1, by_length=True)

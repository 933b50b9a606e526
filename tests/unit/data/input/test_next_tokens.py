"""Batches of the left-to-right language model: no masks, and the next token as the target of each position."""

from __future__ import annotations

import dataclasses
from itertools import islice

import numpy as np
import pytest

from bert_tf.config import DataConfig
from bert_tf.data.input import packed_data
from bert_tf.data.input.bins import bin_widths
from bert_tf.data.input.numpy import pretraining_batches
from bert_tf.data.input.tf import pretraining_dataset
from bert_tf.data.schema import (
    EXAMPLE_IDS,
    MASK_POSITIONS,
    MLM_LOGITS,
    NSP_LOGITS,
    PADDING_MASK,
    POSITION_IDS,
    SEGMENT_IDS,
    TOKEN_IDS,
)
from tests.support.data.samples import make_vocabulary, rows, write_directory

VOCABULARY = make_vocabulary()
DYNAMIC = DataConfig(max_seq_length=32, max_predictions_per_seq=5, short_seq_prob=0.8)
CONFIGS = {
    "dynamic": DYNAMIC,
    "static": dataclasses.replace(DYNAMIC, masking="static", mask_share=0.5, random_share=0.5),
    "single": dataclasses.replace(DYNAMIC, next_sentence=False),
}
ARGUMENTS = {"batch_size": 4, "seed": 5, "objective": "causal_lm"}


@pytest.fixture(scope="module", params=CONFIGS)
def data(request, tmp_path_factory):
    """Returns a data directory and its validation examples without masks."""
    path = tmp_path_factory.mktemp(request.param)
    _, pairs = write_directory(path, CONFIGS[request.param], VOCABULARY, {"train": [70], "validation": [9]})
    return path, pairs["validation"][0]


@pytest.mark.parametrize("make", [pretraining_batches, pretraining_dataset])
def test_each_token_but_the_first_is_a_target_once(data, make):
    """The oracle is a loop over the examples that were written."""
    directory, pairs = data
    batches = [
        tuple({name: np.asarray(values) for name, values in part.items()} for part in batch)
        for batch in make(directory, "validation", training=False, **ARGUMENTS)
    ]
    inputs, targets, weights = (
        {name: np.concatenate([batch[part][name] for batch in batches]) for name in batches[0][part]}
        for part in range(3)
    )
    assert inputs[TOKEN_IDS].shape == (12, 32)
    assert inputs[MASK_POSITIONS].shape == targets[MLM_LOGITS].shape == weights[MLM_LOGITS].shape == (12, 31)
    for row, (tokens, segments) in enumerate(zip(rows(pairs), pairs.segment_lengths, strict=True)):
        length = len(tokens)
        assert inputs[PADDING_MASK][row].tolist() == [1] * length + [0] * (32 - length)
        assert inputs[TOKEN_IDS][row].tolist() == tokens.tolist() + [VOCABULARY.pad_id] * (32 - length)
        assert inputs[SEGMENT_IDS][row].sum() == segments[1]
        pairs_of_row = [
            (int(position), int(target))
            for position, target, weight in zip(
                inputs[MASK_POSITIONS][row], targets[MLM_LOGITS][row], weights[MLM_LOGITS][row], strict=True
            )
            if weight
        ]
        assert pairs_of_row == [(place, int(tokens[place + 1])) for place in range(length - 1)]
        unused = slice(length - 1, None)
        assert not inputs[MASK_POSITIONS][row, unused].any()
        assert not targets[MLM_LOGITS][row, unused].any()
    # The batches are filled up with rows of weight 0.
    assert not weights[MLM_LOGITS][9:].any()
    assert not weights[NSP_LOGITS][9:].any()


@pytest.mark.parametrize("changes", [{}, {"by_length": True}])
def test_training_batches_of_both_pipelines_are_equal(data, changes):
    directory, _ = data
    arguments = {**ARGUMENTS, "epochs": 2, "start_step": 3, **changes}
    found = list(pretraining_batches(directory, "train", **arguments))
    assert len(found) > 5
    for ours, theirs in zip(found, pretraining_dataset(directory, "train", **arguments), strict=True):
        for part, other in zip(ours, theirs, strict=True):
            assert part.keys() == other.keys()
            for name in part:
                assert part[name].dtype == other[name].numpy().dtype
                np.testing.assert_array_equal(part[name], other[name], err_msg=name)


def test_order_is_that_of_the_masked_language_model(data):
    directory, _ = data
    arguments = {"batch_size": 4, "seed": 5, "epochs": 1}
    masked = pretraining_batches(directory, "train", **arguments)
    causal = pretraining_batches(directory, "train", objective="causal_lm", **arguments)
    for one, other in zip(masked, causal, strict=True):
        for name in (SEGMENT_IDS, PADDING_MASK):
            np.testing.assert_array_equal(one[0][name], other[0][name])
        originals = one[0][TOKEN_IDS].copy()
        row, slot = np.nonzero(one[2][MLM_LOGITS])
        originals[row, one[0][MASK_POSITIONS][row, slot]] = one[1][MLM_LOGITS][row, slot]
        np.testing.assert_array_equal(originals, other[0][TOKEN_IDS])


def test_batches_by_length_have_a_slot_for_each_target(data):
    directory, _ = data
    widths = set(bin_widths(DYNAMIC).tolist())
    for inputs, targets, weights in islice(pretraining_batches(directory, "train", by_length=True, **ARGUMENTS), 16):
        width = inputs[TOKEN_IDS].shape[1]
        assert width in widths
        assert targets[MLM_LOGITS].shape == (4, width - 1)
        assert weights[MLM_LOGITS].sum() == inputs[PADDING_MASK].sum() - 4


def test_no_target_of_a_packed_row_belongs_to_another_example(data):
    directory, _ = data
    batches = pretraining_batches(directory, "train", epochs=1, **(ARGUMENTS | {"batch_size": 35}))
    for inputs, targets, weights in packed_data(batches, 1):
        assert len(inputs[TOKEN_IDS]) < 35
        row, slot = np.nonzero(weights[MLM_LOGITS])
        position = inputs[MASK_POSITIONS][row, slot]
        example = inputs[EXAMPLE_IDS][row, position]
        np.testing.assert_array_equal(inputs[EXAMPLE_IDS][row, position + 1], example)
        np.testing.assert_array_equal(inputs[POSITION_IDS][row, position + 1], inputs[POSITION_IDS][row, position] + 1)
        np.testing.assert_array_equal(inputs[TOKEN_IDS][row, position + 1], targets[MLM_LOGITS][row, slot])
        # Each token is a target once, except for the first of its example.
        assert len(set(zip(row.tolist(), position.tolist(), strict=True))) == len(row)
        assert len(row) == inputs[PADDING_MASK].sum() - 35


def test_unknown_objectives_are_refused(data):
    with pytest.raises(ValueError, match="`objective` must be one of"):
        pretraining_batches(data[0], "train", batch_size=4, seed=5, objective="clm")

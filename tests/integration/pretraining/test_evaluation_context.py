"""Evaluation context: the information that a run over a data directory shows next to its metrics."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from bert_tf.config import BertConfig, DataConfig, RunConfig, TrainingConfig
from bert_tf.data.examples.build import TokenizedDocument, build_pairs
from bert_tf.data.manifest import Manifest, write_manifest
from bert_tf.data.schema import MLM_LOGITS, SPLITS, TOKEN_IDS, VOCABULARY_NAME, length_folder, shard_name
from bert_tf.data.tfrecord.shards import encode_dynamic, write_shard
from bert_tf.pretraining.course import Course, constant_guess_accuracy, held_out, open_phases
from bert_tf.pretraining.run import run_pretraining
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary, save_vocabulary
from bert_tf.training.evaluation.baselines import chance_figures
from bert_tf.training.losses import PRETRAINING

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *(f"w{number}" for number in range(45))))
MODEL = BertConfig(len(VOCABULARY), 8, 1, 2, 16, max_sequence_length=32)
TRAINING = TrainingConfig(
    steps=8, batch_size=4, evaluate_every=4, long_share=0.5, checkpoint_every=8, log_every=4, evaluate_steps=2
)


def write_data(directory, length):
    """Writes random words; the validation set is half as large as the training set."""
    directory.mkdir(parents=True)
    random = np.random.default_rng(length)
    documents = [
        TokenizedDocument(number, random.integers(5, 50, 48).astype(np.int32), np.full(8, 6, np.int32))
        for number in range(60)
    ]
    config = DataConfig(max_seq_length=length, max_predictions_per_seq=3)
    shards = {}
    for split, part in zip(SPLITS, (documents[:40], documents[40:]), strict=True):
        pairs = build_pairs(part, config, VOCABULARY)
        shards[split] = (write_shard(directory / shard_name(split, 0, 1), encode_dynamic(pairs)),)
    save_vocabulary(VOCABULARY, directory / VOCABULARY_NAME)
    write_manifest(Manifest(config, VOCABULARY.fingerprint, len(VOCABULARY), shards, counts={}), directory)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Examples of two lengths."""
    directory = tmp_path_factory.mktemp("data")
    for length in (16, 32):
        write_data(directory / length_folder(length), length)
    return directory


def course(data, training=TRAINING):
    run = RunConfig(MODEL, training)
    return Course(open_phases(data, run)[0], run, PRETRAINING)


@pytest.mark.parametrize(("batch", "length"), [(0, 16), (3, 16), (4, 32), (7, 32)])
@pytest.mark.parametrize("count", [1, 4])
def test_first_validation_examples_of_the_same_length_are_shown(data, batch, length, count):
    inputs, targets, _ = course(data, replace(TRAINING, show_examples=count)).shown(batch)
    first, first_targets, _ = next(iter(held_out(data / length_folder(length), "validation", 8)))
    assert inputs[TOKEN_IDS].shape == (count, length)
    np.testing.assert_array_equal(inputs[TOKEN_IDS], first[TOKEN_IDS][:count])
    np.testing.assert_array_equal(targets[MLM_LOGITS], first_targets[MLM_LOGITS][:count])


def test_an_evaluation_takes_as_many_rows_at_once_as_a_part_of_a_step(data):
    sizes = [len(inputs[TOKEN_IDS]) for inputs, *_ in course(data, replace(TRAINING, accumulate=2)).held_out(0)]
    assert {*sizes} == {2}


def test_number_of_shown_examples_is_limited_by_the_data(data):
    _, _, weights = course(data, replace(TRAINING, show_examples=10_000)).shown(0)
    assert (weights[MLM_LOGITS].numpy().sum(axis=1) > 0).all()


@pytest.mark.parametrize("steps", [0, 2])
def test_chance_baseline_uses_the_evaluated_batches(data, steps):
    one = course(data, replace(TRAINING, evaluate_steps=steps))
    for batch, length in ((0, 16), (7, 32)):
        batches = list(islice(held_out(data / length_folder(length), "validation", 4), steps or None))
        assert one.chance(batch, lambda: False) == chance_figures(batches, PRETRAINING)
    whole = constant_guess_accuracy(data / length_folder(32), "validation")
    assert (one.chance(7, lambda: False)["mlm_accuracy"] == whole) == (steps == 0)


def test_interrupted_chance_baseline_is_computed_again(data):
    one = course(data)
    assert one.chance(0, lambda: True) == {}
    assert one.chance(0, lambda: False) == course(data).chance(0, lambda: False) != {}


def test_show_examples_0_shows_no_examples(data):
    assert course(data, replace(TRAINING, show_examples=0)).evaluation_context(VOCABULARY).examples is None


def test_run_shows_examples_and_baselines(data, tmp_path):
    training = replace(TRAINING, steps=2, evaluate_every=1, show_examples=2, peak_flops=1e9)
    run_pretraining(data / length_folder(32), RunConfig(MODEL, training), tmp_path / "run")
    records = [json.loads(line) for line in (tmp_path / "run/history.jsonl").read_text().splitlines()]
    first, last = (record for record in records if record["split"] == "validation")
    assert first["chance"] == last["chance"] == course(data).chance(7, lambda: False)
    assert last["published"]["mlm_perplexity"] == 5.84
    text = (tmp_path / "run/report.html").read_text()
    assert len(re.findall("<article", text)) == 2
    assert "<h2>Baselines</h2>" in text

"""Pre-training on single segments: heads without targets are neither built nor saved."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_tf.config import BertConfig, DataConfig, RunConfig, TrainingConfig
from bert_tf.models import BertBackbone, BertPretrainer, load_preset, save_preset
from bert_tf.pretraining import run as pretraining
from bert_tf.training.fit import TrainResult
from bert_tf.training.logging.run_log import read_history
from bert_tf.training.run_spec import RunSpec
from tests.support.data.samples import make_vocabulary, write_directory

VOCABULARY = make_vocabulary()
MODEL = BertConfig(
    vocabulary_size=len(VOCABULARY), hidden_dim=8, num_layers=1, num_heads=2, intermediate_dim=16,
    max_sequence_length=32, dropout=0.0,
)  # fmt: skip
TRAINING = TrainingConfig(steps=2, batch_size=8, learning_rate=1e-2, log_every=1, evaluate_every=2, padding="pack")
SINGLE = DataConfig(max_seq_length=32, max_predictions_per_seq=5, next_sentence=False)


def make_data(directory: Path, config: DataConfig) -> Path:
    directory.mkdir(parents=True)
    write_directory(directory, config, VOCABULARY, {"train": [40], "validation": [9]})
    return directory


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("single") / "data", SINGLE)


def untrained(monkeypatch: pytest.MonkeyPatch, data: Path, output: Path, init: Path | None = None) -> keras.Model:
    """Returns the model of a preset that a run saves without taking a step."""

    def no_steps(run: RunSpec, *_: object) -> TrainResult:
        return TrainResult(run.build_model(), 0, 0.0, 0.0, None, 0.0)

    monkeypatch.setattr(pretraining, "fit", no_steps)
    preset, _ = pretraining.run_pretraining(data, RunConfig(MODEL, TRAINING), output, init)
    return load_preset(preset).model


def test_a_run_has_neither_pooler_nor_next_sentence_head(data: Path, tmp_path: Path) -> None:
    preset, result = pretraining.run_pretraining(data, RunConfig(MODEL, TRAINING), tmp_path / "run")
    model = load_preset(preset).model
    assert not [weight.path for weight in model.weights if "nsp" in weight.path or "pooler" in weight.path]
    assert (model.backbone.config.pooler, model.next_sentence) == (False, False)
    history = read_history(tmp_path / "run" / "history.jsonl")
    assert {line["split"] for line in history} == {"train", "validation"}
    assert all("mlm_loss" in line and not [name for name in line if "nsp" in name] for line in history)
    metrics = pretraining.run_evaluation(preset, data)
    assert not [name for name in metrics if "nsp" in name]
    assert metrics["mlm_loss"] == pytest.approx((result.evaluation or {})["mlm_loss"], rel=1e-5)
    # Resuming a run that started with a pooler raises an error that names this field.
    state = json.loads((tmp_path / "run/checkpoints/step-00000002/state.json").read_text(encoding="utf-8"))
    assert state["run"]["model.pooler"] is False


def test_weights_without_gradient_are_not_loaded_from_the_first_preset(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keras.utils.set_random_seed(3)
    whole = BertPretrainer(BertBackbone(MODEL))
    save_preset(whole, tmp_path / "whole", VOCABULARY, True)
    model = untrained(monkeypatch, data, tmp_path / "run", tmp_path / "whole")
    found = {weight.path: np.asarray(weight) for weight in model.weights}
    expected = {weight.path: np.asarray(weight) for weight in whole.weights}
    assert {path.split("/")[0] for path in expected.keys() - found.keys()} == {"pooler", "nsp_logits"}
    for path, values in found.items():
        np.testing.assert_array_equal(values, expected[path])
    for part in ("pooler", "next_sentence"):
        assert f"`{part}` is omitted" in caplog.text
    assert "random weights" not in caplog.text


def test_pairs_of_one_length_train_the_head_for_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_data(tmp_path / "data/length-32", SINGLE)
    make_data(tmp_path / "data/length-16", replace(SINGLE, max_seq_length=16, next_sentence=True))
    model = untrained(monkeypatch, tmp_path / "data", tmp_path / "run")
    assert (model.backbone.config.pooler, model.next_sentence) == (True, True)

"""Runs on features and with a BiLSTM, from files to predictions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bert_tf.commands.finetune import features_of
from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.models import load_backbone, load_preset
from bert_tf.tasks import registry
from bert_tf.tasks.classify.task import ClassifyTask
from bert_tf.tasks.entry import TaskEntry, TaskFiles
from bert_tf.tasks.features import cache
from bert_tf.tasks.features.config import Features
from bert_tf.tasks.finetune.init import FinetuneInit
from bert_tf.tasks.finetune.run import finetune_task
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.predictor import TaskPredictor
from tests.support.paths import REPOSITORY
from tests.support.tasks.feature_samples import VOCABULARY, write_preset, write_texts, write_tokens
from tests.support.tasks.token_task import TokenTask

TOY = TaskEntry("toy_tokens", "words with labels", "tests.support.tasks.token_task:TokenTask")
TRAINING = TrainingConfig(epochs=6, batch_size=16, learning_rate=2e-2)
JAX = """
import sys
from pathlib import Path

import keras
import numpy as np
from tests.integration.tasks.features.test_runs import tagged

assert keras.backend.backend() == "jax"
folder = Path(sys.argv[1])
result = tagged(folder, "jax")
assert result.metrics["accuracy"] > 0.9, result.metrics
from bert_tf.models import load_preset

inputs = dict(np.load(folder / "inputs.npz"))
expected = np.load(folder / "outputs.npy")
found = np.asarray(load_preset(folder / "tensorflow" / "preset").model(inputs))
there = inputs["padding_mask"] == 1
np.testing.assert_allclose(found[there], expected[there], atol=1e-3)
"""


@pytest.fixture(autouse=True)
def toy_task(monkeypatch):
    monkeypatch.setitem(registry.TASKS, "toy_tokens", TOY)


def tagged(folder, output, features=None, config=TRAINING, **fields):
    """Trains on tokens whose labels depend on the word after them."""
    registry.TASKS.setdefault("toy_tokens", TOY)
    sources = TaskFiles(folder / "train.txt", folder / "dev.txt")
    if features is None:
        features = Features("weighted_sum_last_4", bilstm_dim=16, folder=folder / "features")
    start = FinetuneInit(folder / "preset", features=features, **fields)
    return finetune_task(TokenTask(), sources, start, config, folder / output)


def token_files(folder):
    write_preset(folder)
    write_tokens(folder / "train.txt", 160, 1)
    write_tokens(folder / "dev.txt", 40, 2)


@pytest.fixture
def texts(tmp_path):
    write_preset(tmp_path)
    write_texts(tmp_path / "train.tsv", 200, 1)
    write_texts(tmp_path / "dev.tsv", 60, 2)
    return tmp_path


def probed(folder, output, features, task=None):
    sources = TaskFiles(folder / "train.tsv", folder / "dev.tsv")
    start = FinetuneInit(folder / "preset", features=features)
    return finetune_task(task or ClassifyTask(), sources, start, TrainingConfig(), folder / output)


def test_probe_learns_resumes_and_predicts(texts, monkeypatch):
    features = Features("last", "mean", folder=texts / "features")
    result = probed(texts, "run", features)
    assert result.metrics["accuracy"] > max(0.75, result.metrics["majority"] + 0.1)
    summary = json.loads((texts / "run" / "result.json").read_text())
    assert summary["metrics"] == result.metrics and summary["step"] == result.step
    assert load_preset(texts / "run").kind == "BertProbe"
    TaskPredictor(texts / "run").predict_file(texts / "dev.tsv", texts / "again.jsonl", InputErrors())
    whole, kept = (
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in (texts / "again.jsonl", texts / "run" / "dev" / "predictions.jsonl")
    )
    assert [row["label"] for row in whole] == [row["label"] for row in kept]
    for first, second in zip(whole, kept, strict=True):
        assert first["probabilities"] == pytest.approx(second["probabilities"], abs=1e-3)
    # No feature is computed again, and training is deterministic.
    monkeypatch.setattr(cache, "_compute", None)
    assert probed(texts, "other", features).metrics == result.metrics
    weights = [load_preset(texts / name).model.get_layer("logits").get_weights() for name in ("run", "other")]
    for first, second in zip(*weights, strict=True):
        np.testing.assert_array_equal(first, second)


def test_labels_without_examples_are_never_predicted(texts):
    result = probed(texts, "run", Features("layer_2", "max"), ClassifyTask(labels=("absent", "high", "low")))
    answers = TaskPredictor(result.preset)
    examples = list(answers.task.read(texts / "dev.tsv", InputErrors()))
    assert {answer.label for answer in answers.predict_examples(examples)} == {"high", "low"}
    assert (texts / "run" / "features").is_dir()


@pytest.mark.parametrize(
    ("task", "features", "message"),
    [
        (ClassifyTask(), Features("last"), "a BiLSTM tagger needs a task of labels for tokens. Received: classify"),
        (ClassifyTask(), Features("weighted_sum_all", "mean"), "Received: weighted_sum_all"),
        (ClassifyTask(), Features("last", "sum"), "`pooling` must be one of first, mean, max. Received: 'sum'"),
        (ClassifyTask(), Features("layer_7", "mean"), "Received: 'layer_7'"),
    ],
)
def test_incompatible_features_and_tasks_are_refused(texts, task, features, message):
    with pytest.raises(ConfigError, match=message):
        probed(texts, "run", features, task)


def test_a_probe_of_tokens_is_refused(tmp_path):
    token_files(tmp_path)
    with pytest.raises(ConfigError, match="a linear classifier needs a task of one label"):
        tagged(tmp_path, "run", Features("last", "mean"))


@pytest.mark.parametrize("fields", [{"from_scratch": True}, {"frozen_layers": 1}, {"bilstm_dim": 4}])
def test_features_require_an_unchanged_encoder(tmp_path, fields):
    with pytest.raises(ConfigError, match="`features` .* cannot be combined with"):
        FinetuneInit(tmp_path, features=Features("last"), **fields)


def test_flags_select_features_and_probe():
    from bert_tf.cli import build_parser

    paths = ["finetune", "classify", "--preset", "p", "--data", "d", "--output", "o"]
    cases = {
        (): None,
        ("--features", "concat_last_4"): Features("concat_last_4"),
        ("--probe",): Features("last", "first"),
        ("--probe", "mean", "--features", "layer_3", "--feature_cache", "c"): Features(
            "layer_3", "mean", folder=Path("c")
        ),
    }
    for flags, expected in cases.items():
        assert features_of(build_parser().parse_args([*paths, *flags])) == expected
    for flags, message in {
        ("--feature_cache", "c"): "`--feature_cache` needs --features or --probe",
        ("--bilstm_dim", "8"): "`--bilstm_dim` needs --bilstm",
        ("--probe", "--set", "training.seed=3"): "`--set` has no effect with --probe",
    }.items():
        with pytest.raises(ValueError, match=message):
            features_of(build_parser().parse_args([*paths, *flags]))


@pytest.mark.slow
def test_a_tagger_learns_on_both_backends(tmp_path):
    token_files(tmp_path)
    before = load_backbone(tmp_path / "preset").model.get_weights()
    result = tagged(tmp_path, "tensorflow")
    assert result.metrics["accuracy"] > 0.9
    preset = load_preset(tmp_path / "tensorflow")
    assert (preset.kind, preset.model.combination) == ("BertFeatureTagger", "weighted_sum_last_4")
    for old, new in zip(before[:-2], load_backbone(tmp_path / "tensorflow").model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    predictor = TaskPredictor(tmp_path / "tensorflow")
    predictor.predict_file(tmp_path / "dev.txt", tmp_path / "again.txt", InputErrors())
    assert (tmp_path / "again.txt").read_text() == (tmp_path / "tensorflow/dev/predictions.txt").read_text()
    # A finished run is not trained again; another combination is another run.
    assert tagged(tmp_path, "tensorflow").metrics == result.metrics
    with pytest.raises(ConfigError):
        tagged(tmp_path, "tensorflow", Features("last", bilstm_dim=8, folder=tmp_path / "features"))
    lengths = np.array([[9], [5], [2]])
    mask = (np.arange(9)[None] < lengths).astype("int32")
    ids = np.random.default_rng(0).integers(5, len(VOCABULARY), (3, 9)).astype("int32") * mask
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": mask}
    np.savez(tmp_path / "inputs.npz", **inputs)
    np.save(tmp_path / "outputs.npy", np.asarray(preset.model(inputs)))
    done = subprocess.run(
        [sys.executable, "-c", JAX, str(tmp_path)],
        cwd=REPOSITORY,
        env=os.environ | {"KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_a_bilstm_is_trained_with_the_encoder(texts):
    config = replace(TRAINING, epochs=1, learning_rate=1e-2)
    sources = TaskFiles(texts / "train.tsv", texts / "dev.tsv")
    start = FinetuneInit(texts / "preset", bilstm_dim=8)
    result = finetune_task(ClassifyTask(), sources, start, config, texts / "run")
    preset = load_preset(result.preset)
    assert preset.model.backbone.bilstm_dim == 8 and not preset.config.pooler
    old, new = (load_backbone(path).model for path in (texts / "preset", result.preset))
    former = {weight.path: np.asarray(weight) for weight in old.weights}
    assert all(
        np.abs(former[weight.path] - weight).max() > 0 for weight in new.weights if "key/bias" not in weight.path
    )
    # A run uses the encoder of a preset with a BiLSTM, or continues from all of its weights.
    plain = finetune_task(ClassifyTask(), sources, FinetuneInit(result.preset), config, texts / "plain")
    assert not hasattr(load_preset(plain.preset).model.backbone, "bilstm_dim")
    still = replace(config, learning_rate=1e-9)
    again = FinetuneInit(result.preset, keep_head=True, bilstm_dim=8)
    further = finetune_task(ClassifyTask(), sources, again, still, texts / "further")
    former = {weight.path: np.asarray(weight) for weight in preset.model.weights}
    for weight in load_preset(further.preset).model.weights:
        np.testing.assert_allclose(weight, former[weight.path], atol=1e-5, err_msg=weight.path)

"""Checkpoints of runs as presets."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_tf.config import BertConfig, ConfigError, TrainingConfig
from bert_tf.conversion.formats.registry import read_checkpoint
from bert_tf.models import BertBackbone, BertPretrainer, average_presets, load_backbone, load_preset
from bert_tf.models.preset_header import write_header
from bert_tf.models.preset_sources import open_preset
from bert_tf.optim.build import averages, make_optimizer
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.training.loop.checkpoints import CheckpointStore, Writing

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "a", "b", "c"))
CONFIG = BertConfig(
    vocabulary_size=len(VOCABULARY), hidden_dim=8, num_layers=1, num_heads=2, intermediate_dim=8, max_sequence_length=8
)


def write(run: Path, steps: tuple[int, ...] = (1, 2), average: float = 0.0, config: BertConfig = CONFIG) -> list:
    """Writes checkpoints with other weights for each step, as `fit` does; returns the weights to evaluate."""
    model = BertPretrainer(BertBackbone(config))
    optimizer = make_optimizer(TrainingConfig(average=average, precision="float16"), 10, model.trainable_variables)
    kept = averages(optimizer, model.trainable_variables)
    weights = {weight.path: weight for weight in model.weights} | kept
    writing = Writing(
        keep=9,
        describe=lambda folder, step: write_header(model, folder, VOCABULARY, True, info={"step": step}),
        weights=lambda step: weights,
    )
    groups = {"model": model.variables, "optimizer": optimizer.variables}
    store = CheckpointStore(run / "checkpoints", groups, {}, writing)
    evaluated = []
    for step in steps:
        random = np.random.default_rng(step)
        for variable in (*model.weights, *kept.values()):
            variable.assign(random.normal(size=variable.shape))
        store.save(step, {})
        evaluated.append([keras.ops.convert_to_numpy(weight) for weight in weights.values()])
    return evaluated


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list]:
    folder = tmp_path_factory.mktemp("run")
    return folder, write(folder)


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_step_has_the_weights_that_a_run_evaluates(average: float, tmp_path: Path) -> None:
    expected = write(tmp_path, average=average)
    for step in (1, 2):
        preset = load_preset(f"{tmp_path}@{step}")
        assert (preset.kind, preset.vocabulary, preset.info) == ("BertPretrainer", VOCABULARY, {"step": step})
        for weight, value in zip(preset.model.weights, expected[step - 1], strict=True):
            np.testing.assert_array_equal(weight, value)
    assert isinstance(load_backbone(f"{tmp_path}@latest").model, BertBackbone)


def test_steps_have_different_identities(run: tuple[Path, list]) -> None:
    folder, _ = run
    assert len({open_preset(f"{folder}@{step}").weights.sha256() for step in (1, 2)}) == 2


def test_a_step_can_be_converted(run: tuple[Path, list]) -> None:
    folder, _ = run
    checkpoint = read_checkpoint(f"{folder}@2")
    assert (checkpoint.form, checkpoint.step) == ("preset", 2)
    expected = open_preset(f"{folder}@2").weights.read("embeddings/token_embedding/embeddings")
    np.testing.assert_array_equal(checkpoint.array("bert/embeddings/word_embeddings"), expected)


def test_averages_are_means_in_float64(run: tuple[Path, list]) -> None:
    folder, weights = run
    preset = average_presets([f"{folder}@1", f"{folder}@2", f"{folder}@2"])
    for weight, first, second in zip(preset.model.weights, *weights, strict=True):
        mean = (first.astype(np.float64) + second.astype(np.float64) + second.astype(np.float64)) / 3
        np.testing.assert_array_equal(weight, mean.astype(np.float32))
    assert preset.info["average_of"] == [f"{folder}@1", f"{folder}@2", f"{folder}@2"]


def test_averages_of_other_models_name_the_difference(run: tuple[Path, list], tmp_path: Path) -> None:
    folder, _ = run
    write(tmp_path, config=replace(CONFIG, num_layers=2))
    with pytest.raises(ConfigError, match=r"num_layers` must be that of .*@1, 1. Received: 2"):
        average_presets([f"{folder}@1", f"{tmp_path}@1"])
    with pytest.raises(ConfigError, match="at least two"):
        average_presets([f"{folder}@1"])
    for name, content in (
        ("vocab.txt", "\n".join([*SPECIAL_TOKENS, "x", "b", "c"])),
        ("task.json", '{"labels": ["a"]}'),
    ):
        other = Path(shutil.copytree(folder / "checkpoints/step-00000002", tmp_path / name))
        (other / name).write_text(content)
        with pytest.raises(ConfigError, match="vocabulary" if name == "vocab.txt" else "task.labels"):
            average_presets([f"{folder}@1", other])


def test_a_checkpoint_may_be_removed_while_it_is_read(run: tuple[Path, list], tmp_path: Path) -> None:
    folder, expected = run
    source, late = (
        open_preset(shutil.copytree(folder / "checkpoints/step-00000001", tmp_path / name)) for name in "ab"
    )
    first, *rest = source.weights.shapes()
    np.testing.assert_array_equal(source.weights.read(first), expected[0][0])
    for opened in (source, late):
        shutil.rmtree(opened.path)
    for path, value in zip(rest, expected[0][1:], strict=True):
        np.testing.assert_array_equal(source.weights.read(path), value)
    with pytest.raises(ConfigError, match="removed this checkpoint"):
        late.model()


def test_damage_names_the_checkpoint(run: tuple[Path, list], tmp_path: Path) -> None:
    folder, _ = run
    path = Path(shutil.copytree(folder / "checkpoints/step-00000001", tmp_path / "step"))
    content = bytearray((path / "model.npz").read_bytes())
    # In an array, not in the directory of the archive.
    content[200] ^= 1
    (path / "model.npz").write_bytes(content)
    with pytest.raises(ConfigError, match=r"step: the checkpoint is damaged .*Use another step"):
        load_preset(path)
    os.truncate(path / "model.npz", 100)
    with pytest.raises(ConfigError, match="damaged"):
        load_preset(path)
    (path / "config.json").unlink()
    with pytest.raises(ConfigError, match=r"config.json of a whole model"):
        load_preset(path)


def test_an_unfinished_run_names_its_checkpoints(run: tuple[Path, list]) -> None:
    folder, _ = run
    for path in (folder, folder / "checkpoints"):
        with pytest.raises(ConfigError, match=f"{folder}@1, {folder}@2"):
            load_preset(path)

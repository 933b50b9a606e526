"""Pre-training that continues from a preset."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_tf import BertBackbone, BertConfig, load_preset
from bert_tf.cli import main
from bert_tf.config import ConfigError, DataConfig, RunConfig, TrainingConfig
from bert_tf.models import BertPretrainer, BertTextClassifier, save_preset
from bert_tf.pretraining.run import run_pretraining
from bert_tf.text.vocabulary import Vocabulary
from tests.support.data.samples import make_vocabulary, write_directory

VOCABULARY = make_vocabulary()
MODEL = BertConfig(
    vocabulary_size=len(VOCABULARY), hidden_dim=8, num_layers=1, num_heads=2, intermediate_dim=16,
    max_sequence_length=32, dropout=0.2,
)  # fmt: skip
# A learning rate that changes only zero weights, so the final weights are the initial ones.
STILL = TrainingConfig(steps=1, batch_size=8, learning_rate=1e-30, log_every=1, seed=5)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    config = DataConfig(max_seq_length=32, max_predictions_per_seq=5)
    write_directory(directory, config, VOCABULARY, {"train": [40], "validation": [9]})
    return directory


def preset_of(model: keras.Model, directory: Path, lowercase: bool = True, vocabulary: Vocabulary = VOCABULARY) -> Path:
    save_preset(model, directory, vocabulary, lowercase)
    return directory


def backbone(**fields: object) -> BertBackbone:
    keras.utils.set_random_seed(77)
    return BertBackbone(replace(MODEL, **fields))


def weights(model: keras.Model) -> dict[str, np.ndarray]:
    return {weight.path: keras.ops.convert_to_numpy(weight) for weight in model.trainable_weights}


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory) -> Path:
    return preset_of(BertPretrainer(backbone()), tmp_path_factory.mktemp("pretrained") / "preset")


def same(preset_weights: dict[str, np.ndarray], found: dict[str, np.ndarray]) -> set[str]:
    common = preset_weights.keys() & found.keys()
    return {path for path in common if np.allclose(preset_weights[path], found[path], rtol=0, atol=1e-20)}


def test_run_starts_from_all_weights_of_a_preset(data, pretrained, tmp_path):
    preset_weights = weights(load_preset(pretrained).model)
    preset, _ = run_pretraining(data, RunConfig(MODEL, STILL), tmp_path / "run", pretrained)
    loaded = load_preset(preset)
    assert same(preset_weights, weights(loaded.model)) == set(preset_weights)
    assert len(loaded.info["init"]) == 64
    without, _ = run_pretraining(data, RunConfig(MODEL, STILL), tmp_path / "new")
    assert len(same(preset_weights, weights(load_preset(without).model))) < len(preset_weights)
    assert "init" not in load_preset(without).info


@pytest.mark.parametrize(
    "made, new",
    [
        (lambda: backbone(), {"masked_lm", "next_sentence"}),
        (lambda: backbone(pooler=False), {"pooler", "masked_lm", "next_sentence"}),
        (lambda: BertTextClassifier(backbone(), 3), {"masked_lm", "next_sentence"}),
        (lambda: BertPretrainer(backbone(), next_sentence=False), {"next_sentence"}),
    ],
    ids=["encoder", "without_pooler", "fine_tuned", "without_next_sentence"],
)
def test_missing_weights_are_initialised_and_reported(data, tmp_path, caplog, made, new):
    source = preset_of(made(), tmp_path / "source")
    preset_weights = weights(load_preset(source).model)
    preset, _ = run_pretraining(data, RunConfig(MODEL, STILL), tmp_path / "run", source)
    found = weights(load_preset(preset).model)
    encoder = {path for path in preset_weights if path in found}
    assert len(encoder) > 15 and same(preset_weights, found) == encoder
    assert {
        word for word in ("pooler", "masked_lm", "next_sentence") if any(word in r.message for r in caplog.records)
    } == new


@pytest.mark.parametrize("positions", [20, 32, 48, 80])
def test_position_embeddings_are_repeated_or_truncated(data, pretrained, tmp_path, positions):
    source = preset_of(BertPretrainer(backbone(max_sequence_length=positions)), tmp_path / "source")
    preset_weights = weights(load_preset(source).model)
    preset, _ = run_pretraining(data, RunConfig(MODEL, STILL), tmp_path / "run", source)
    found = weights(load_preset(preset).model)
    name = "embeddings/position_embedding"
    expected = [preset_weights[name][position % positions] for position in range(MODEL.max_sequence_length)]
    np.testing.assert_allclose(found.pop(name), expected, rtol=0, atol=1e-20)
    assert same(preset_weights, found) == set(found)


def test_a_run_does_not_resume_from_other_weights(data, pretrained, tmp_path):
    run_pretraining(data, RunConfig(MODEL, STILL), tmp_path / "run", pretrained)
    with pytest.raises(ConfigError, match="init"):
        run_pretraining(data, RunConfig(MODEL, STILL), tmp_path / "run")
    run_pretraining(data, RunConfig(MODEL, STILL), tmp_path / "run", pretrained)


@pytest.mark.parametrize(
    "fields, message",
    [({"num_heads": 4}, "`model.num_heads` must be that of the preset .*, 2. Received: 4"),
     ({"activation": "relu"}, "`model.activation` must be that")],
)  # fmt: skip
def test_another_architecture_is_refused(data, pretrained, tmp_path, fields, message):
    with pytest.raises(ConfigError, match=message):
        run_pretraining(data, RunConfig(replace(MODEL, **fields), STILL), tmp_path / "run", pretrained)
    assert not (tmp_path / "run").exists()


def test_data_of_another_vocabulary_or_casing_are_refused(data, tmp_path):
    other = Vocabulary((*VOCABULARY.tokens[:-1], "another"))
    for index, kwargs in enumerate(({"lowercase": False}, {"vocabulary": other})):
        source = preset_of(BertPretrainer(backbone()), tmp_path / f"source{index}", **kwargs)
        with pytest.raises(ValueError, match="vocabulary and `lowercase` must be those of the preset"):
            run_pretraining(data, RunConfig(MODEL, STILL), tmp_path / "run", source)


def test_command_uses_the_model_of_the_preset(data, pretrained, tmp_path, capsys):
    argv = [
        "pretrain",
        "--data",
        str(data),
        "--init",
        str(pretrained),
        "--output",
        str(tmp_path / "run"),
        "--steps",
        "1",
    ]
    assert main([*argv, "--set", "model.dropout=0.0", "training.batch_size=8"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["step"] == 1
    config = load_preset(tmp_path / "run").config
    assert config == replace(MODEL, dropout=0.0)


@pytest.mark.parametrize(
    "more, message",
    [
        (["--model", "tiny"], "--model has no effect with --init"),
        (["--init", "nowhere"], "--init 'nowhere' does not exist"),
        (["--set", "model.num_layers=2"], "`model.num_layers` must be that of the preset"),
    ],
)
def test_command_refuses_invalid_warm_starts(data, pretrained, tmp_path, capsys, more, message):
    argv = ["pretrain", "--data", str(data), "--init", str(pretrained), "--output", str(tmp_path / "run")]
    assert main([*argv, *more]) != 0
    assert message in capsys.readouterr().err

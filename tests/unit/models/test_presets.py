from __future__ import annotations

import json
import shutil
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest

from bert_tf.config import ConfigError, to_dict
from bert_tf.config.files import set_aside, sha256_of
from bert_tf.models import (
    MODEL_KINDS,
    BertBackbone,
    BertBiLSTMEncoder,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanPredictor,
    BertTextClassifier,
    BertTokenClassifier,
    load_backbone,
    load_preset,
    save_preset,
)
from bert_tf.models.base import TaskModel, logits
from bert_tf.models.kinds import register_model
from bert_tf.text.vocabulary import Vocabulary
from tests.support.models.reference_bert import TINY, random_inputs, randomize

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCABULARY = Vocabulary(SPECIAL + tuple(f"piece{i}" for i in range(TINY.vocabulary_size - 5)))
BUILD = {
    "BertBackbone": lambda: BertBackbone(TINY),
    "BertPretrainer": lambda: BertPretrainer(BertBackbone(TINY)),
    "BertTextClassifier": lambda: BertTextClassifier(BertBackbone(TINY), num_classes=3, dropout=0.25),
    "BertTokenClassifier": lambda: BertTokenClassifier(BertBackbone(TINY), num_classes=4, dropout=0.5),
    "BertSpanPredictor": lambda: BertSpanPredictor(BertBackbone(TINY)),
    "BertMultipleChoice": lambda: BertMultipleChoice(BertBackbone(TINY), dropout=0.0),
}
ENCODER = ("token_ids", "segment_ids", "padding_mask")
WITHOUT_POOLER = {
    "BertBackbone": lambda backbone: backbone,
    "BertPretrainer": lambda backbone: BertPretrainer(backbone, next_sentence=False),
    "BertTextClassifier": lambda backbone: BertTextClassifier(backbone, num_classes=2, pooling="max"),
    "BertTokenClassifier": lambda backbone: BertTokenClassifier(backbone, num_classes=2),
    "BertSpanPredictor": BertSpanPredictor,
}


def outputs(model):
    inputs = random_inputs()
    if len(next(iter(model.input.values())).shape) == 3:
        inputs = {name: np.stack([values, values[::-1]], axis=1) for name, values in inputs.items()}
    outputs = model({name: inputs[name] for name in model.input})
    return [np.asarray(output) for output in keras.tree.flatten(outputs)]


def assert_same(first, second):
    for a, b in zip(outputs(first), outputs(second), strict=True):
        np.testing.assert_array_equal(a, b)


def saved(tmp_path, kind="BertPretrainer", **arguments):
    model = BUILD[kind]()
    randomize(model)
    save_preset(model, tmp_path / "preset", VOCABULARY, True, **arguments)
    return model, tmp_path / "preset"


@pytest.mark.parametrize("kind", BUILD)
def test_round_trip(kind, tmp_path):
    task = {"task": "classify", "labels": ["ä", "b"], "text_columns": 2}
    model, directory = saved(tmp_path, kind, task=task, info={"step": 3})
    preset = load_preset(directory)
    assert (preset.kind, preset.config, preset.vocabulary) == (kind, TINY, VOCABULARY)
    assert (preset.lowercase, preset.task, preset.info) == (True, task, {"step": 3})
    assert_same(preset.model, model)
    assert preset.model.get_config()["name"] == model.get_config()["name"]
    assert getattr(preset.model, "dropout", None) == getattr(model, "dropout", None)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["preset"]


@pytest.mark.parametrize("kind", BUILD)
def test_backbone_of_any_kind(kind, tmp_path):
    model, directory = saved(tmp_path, kind)
    preset = load_backbone(directory)
    assert preset.kind == "BertBackbone" and type(preset.model) is BertBackbone and preset.task is None
    assert_same(preset.model, getattr(model, "backbone", model))
    assert_same(BertBackbone.from_preset(directory), preset.model)
    assert BertTextClassifier(preset.model, num_classes=2).backbone is preset.model


@pytest.mark.parametrize("kind", WITHOUT_POOLER)
def test_round_trip_without_pooler(kind, tmp_path):
    model = WITHOUT_POOLER[kind](BertBackbone(replace(TINY, pooler=False)))
    randomize(model)
    save_preset(model, tmp_path / "preset", VOCABULARY, True)
    preset = load_preset(tmp_path / "preset")
    assert preset.kind == kind and not preset.config.pooler
    assert not any("pooler" in weight.path for weight in preset.model.weights)
    assert_same(preset.model, model)
    assert list(load_backbone(tmp_path / "preset").model.output) == ["sequence_output"]


@pytest.mark.parametrize("pooling", ["first", "mean", "max"])
def test_pooling_is_kept(pooling, tmp_path):
    model = BertTextClassifier(BertBackbone(replace(TINY, pooler=pooling == "first")), 3, pooling=pooling)
    randomize(model)
    save_preset(model, tmp_path / "preset", VOCABULARY, True)
    kept = load_preset(tmp_path / "preset").model
    assert kept.pooling == pooling
    assert_same(kept, model)


@pytest.mark.parametrize("heads", [{"masked_lm": True}, {"next_sentence": True}])
def test_round_trip_with_one_head(heads, tmp_path):
    heads = {"masked_lm": False, "next_sentence": False} | heads
    model = BertPretrainer(BertBackbone(TINY), **heads)
    randomize(model)
    save_preset(model, tmp_path / "preset", VOCABULARY, True)
    preset = load_preset(tmp_path / "preset")
    assert {name: getattr(preset.model, name) for name in heads} == heads
    assert list(preset.model.output) == ["mlm_logits" if heads["masked_lm"] else "nsp_logits"]
    assert ("mask_positions" in preset.model.input) == heads["masked_lm"]
    assert_same(preset.model, model)


def test_custom_settings_of_a_head_are_kept(tmp_path):
    config = replace(TINY, mlm_activation="relu", mlm_layer_norm_epsilon=0.5)
    model = BertPretrainer(BertBackbone(config))
    randomize(model)
    save_preset(model, tmp_path / "preset", VOCABULARY, True)
    assert_same(load_preset(tmp_path / "preset").model, model)
    other = BertPretrainer(BertBackbone(TINY))
    other.set_weights(model.get_weights())
    assert np.abs(outputs(other)[0] - outputs(model)[0]).max() > 1e-2


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda backbone: BertPretrainer(backbone, masked_lm=False, next_sentence=False), "or both. Received: neither"),
        (BertPretrainer, "`next_sentence` needs an encoder with `pooler`"),
        (lambda backbone: BertTextClassifier(backbone, 2), "needs an encoder with `pooler`"),
        (BertMultipleChoice, "needs an encoder with `pooler`"),
        (
            lambda backbone: BertTextClassifier(backbone, 2, pooling="sum"),
            "`pooling` must be one of first, mean, max, last",
        ),
        (lambda backbone: BertTokenClassifier(backbone, 0), "`num_classes` must be at least 1. Received: 0"),
        (lambda backbone: BertTokenClassifier(backbone, 2, dropout=1.0), r"`dropout` must be in \[0, 1\). Received"),
    ],
)
def test_heads_that_need_a_pooler_are_refused_without_one(build, message):
    with pytest.raises(ConfigError, match=message):
        build(BertBackbone(replace(TINY, pooler=False)))


def test_task_head_is_a_dense_layer_on_the_encoder_output():
    inputs = {name: values for name, values in random_inputs().items() if name in ENCODER}
    tokens, spans = BUILD["BertTokenClassifier"](), BUILD["BertSpanPredictor"]()
    for model in (tokens, spans):
        randomize(model)
        kernel, bias = (np.asarray(weight) for weight in model.get_layer("logits").weights)
        expected = np.asarray(model.backbone(inputs)["sequence_output"]) @ kernel + bias
        found = model(inputs)
        if model is spans:
            found = np.stack([found["start_logits"], found["end_logits"]], axis=-1)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_every_choice_is_scored_alone():
    model, inputs = BUILD["BertMultipleChoice"](), random_inputs()
    randomize(model)
    kernel, bias = (np.asarray(weight) for weight in model.get_layer("logits").weights)
    rows = {name: inputs[name] for name in ENCODER}
    scores = np.asarray(model.backbone(rows)["pooled_output"]) @ kernel + bias
    choices = model({name: values[np.newaxis] for name, values in rows.items()})
    assert choices.shape == (1, 3)
    np.testing.assert_allclose(choices[0], scores[:, 0], atol=1e-5)


def test_from_preset_and_save_to_preset(tmp_path):
    model = BUILD["BertPretrainer"]()
    model.save_to_preset(tmp_path / "new" / "preset", VOCABULARY, lowercase=False)
    assert_same(BertPretrainer.from_preset(tmp_path / "new" / "preset"), model)
    assert load_preset(tmp_path / "new" / "preset").lowercase is False
    with pytest.raises(ConfigError, match="num_classes.*Pass the argument to `from_preset`"):
        BertTextClassifier.from_preset(tmp_path / "new" / "preset")


def test_config_file(tmp_path):
    encoder = BertBiLSTMEncoder(BertBackbone(TINY, dtype="mixed_bfloat16", name="mine"), 3)
    model = BertTextClassifier(encoder, 2, pooling="max", name="my_classifier", trainable=False)
    model.compile("adam", loss=lambda expected, received: received)
    save_preset(model, tmp_path / "preset", VOCABULARY, True, info={"step": 3})
    backbone = {
        "class_name": "BertBackbone",
        "registered_name": "bert_tf>BertBackbone",
        "config": {"config": to_dict(TINY)},
    }
    bilstm = {
        "class_name": "BertBiLSTMEncoder",
        "registered_name": "bert_tf>BertBiLSTMEncoder",
        "config": {"backbone": backbone, "bilstm_dim": 3},
    }
    assert json.loads((tmp_path / "preset" / "config.json").read_text()) == {
        "format_version": 2,
        "model": {
            "class_name": "BertTextClassifier",
            "registered_name": "bert_tf>BertTextClassifier",
            "config": {"backbone": bilstm, "num_classes": 2, "dropout": 0.1, "pooling": "max"},
        },
        "lowercase": True,
        "vocabulary_sha256": VOCABULARY.fingerprint,
        "info": {"step": 3},
        "weights_sha256": sha256_of(tmp_path / "preset" / "model.weights.h5"),
    }
    model = load_preset(tmp_path / "preset", "float32").model
    assert model.trainable and model.backbone.backbone.dtype_policy.name == "float32"


def test_a_new_kind_of_model_registers_itself(tmp_path):
    @register_model()
    class BertLength(TaskModel):
        def __init__(self, backbone: BertBackbone, scale: float = 1.0, name: str = "bert_length", **kwargs: Any):
            outputs = scale * logits(backbone, backbone(backbone.input)["pooled_output"], 1, 0.0)
            super().__init__(backbone, backbone.input, outputs, {"scale": scale}, name, **kwargs)

    try:
        model = BertLength(BertBackbone(TINY), 0.5)
        randomize(model)
        model.save_to_preset(tmp_path / "preset", VOCABULARY)
        kept = BertLength.from_preset(tmp_path / "preset")
        assert kept.scale == 0.5
        assert_same(kept, model)
        edit(tmp_path / "preset" / "config.json", lambda c: arguments(c).update(scale="1"))
        with pytest.raises(ConfigError, match="`scale` must be float. Received: '1'"):
            load_preset(tmp_path / "preset")
    finally:
        del MODEL_KINDS["BertLength"]


def test_dtype_of_the_loaded_model(tmp_path):
    _, directory = saved(tmp_path)
    model = load_preset(directory, dtype="mixed_bfloat16").model
    assert model.backbone.dtype_policy.name == "mixed_bfloat16"
    assert model.get_layer("mlm_logits").compute_dtype == "bfloat16"


def test_optimizer_and_dropout_state_are_not_kept(tmp_path):
    model = BUILD["BertPretrainer"]()
    model.compile("adam", loss="mse")
    model.optimizer.build(model.trainable_variables)
    save_preset(model, tmp_path / "preset", VOCABULARY, True)
    names = []
    with h5py.File(tmp_path / "preset" / "model.weights.h5") as file:
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    assert sorted(names) == sorted(weight.path for weight in model.weights)


def test_save_replaces_an_existing_preset(tmp_path):
    _, directory = saved(tmp_path, "BertTextClassifier", task={"task": "classify"})
    model = BUILD["BertBackbone"]()
    save_preset(model, directory, VOCABULARY, True)
    preset = load_preset(directory)
    assert preset.kind == "BertBackbone" and preset.task is None
    assert_same(preset.model, model)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["preset"]


def test_save_fills_an_empty_directory(tmp_path):
    (tmp_path / "preset").mkdir()
    saved(tmp_path)


@pytest.mark.parametrize("has_preset", [False, True])
def test_save_refuses_a_directory_with_other_files(has_preset, tmp_path):
    directory = tmp_path / "preset"
    if has_preset:
        saved(tmp_path)
    else:
        directory.mkdir()
    (directory / "thesis.txt").write_text("ten years")
    with pytest.raises(ConfigError, match=r"preset: must be missing, empty or a preset.*thesis\.txt"):
        saved(tmp_path)
    assert (directory / "thesis.txt").read_text() == "ten years"


def test_save_refuses_a_file(tmp_path):
    (tmp_path / "preset").write_text("")
    with pytest.raises(ConfigError, match="Received: a file"):
        saved(tmp_path)


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_failed_save_keeps_the_old_preset(error, tmp_path, monkeypatch):
    model, directory = saved(tmp_path)

    def fail(*arguments):
        raise error

    monkeypatch.setattr("bert_tf.models.presets.write_weights", fail)
    with pytest.raises(type(error)):
        save_preset(BUILD["BertBackbone"](), directory, VOCABULARY, True)
    assert_same(load_preset(directory).model, model)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["preset"]


def test_failed_rename_restores_the_old_preset(tmp_path, monkeypatch):
    model, directory = saved(tmp_path)
    rename = Path.rename

    def fail_on_staging(path, target):
        if path.name.endswith(".staging"):
            raise OSError("read-only")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_on_staging)
    with pytest.raises(OSError, match="read-only"):
        save_preset(BUILD["BertBackbone"](), directory, VOCABULARY, True)
    assert_same(load_preset(directory).model, model)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["preset"]


def test_save_killed_between_the_renames(tmp_path, monkeypatch):
    model, directory = saved(tmp_path)
    aside = set_aside(directory)
    directory.rename(aside)
    (tmp_path / ".preset.staging").mkdir()
    with pytest.raises(ConfigError, match=r"interrupted.*\.preset\.previous"):
        load_preset(directory)
    monkeypatch.setattr("bert_tf.models.presets.write_weights", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_preset(model, directory, VOCABULARY, True)
    assert_same(load_preset(directory).model, model)
    monkeypatch.undo()
    shutil.copytree(directory, aside)
    save_preset(model, directory, VOCABULARY, True)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["preset"]


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("config.json", "`config.json`"),
        ("vocab.txt", "`vocab.txt` or `tokenizer.json`"),
        ("model.weights.h5", "`model.weights.h5`"),
    ],
)
def test_missing_file_is_named(name, named, tmp_path):
    _, directory = saved(tmp_path)
    (directory / name).unlink()
    with pytest.raises(ConfigError, match=f"preset: not a preset: {named} is missing"):
        load_preset(directory)


def edit(path, change):
    mapping = json.loads(path.read_text())
    change(mapping)
    path.write_text(json.dumps(mapping))


def arguments(config):
    """Returns the arguments of the pretrainer in a config.json."""
    return config["model"]["config"]


def fields(config):
    """Returns the fields of the encoder's `BertConfig` in a config.json."""
    return arguments(config)["backbone"]["config"]["config"]


def with_bilstm(config):
    below = {"backbone": arguments(config)["backbone"], "bilstm_dim": 4}
    name = "BertBiLSTMEncoder"
    arguments(config)["backbone"] = {"class_name": name, "registered_name": f"bert_tf>{name}", "config": below}


LAMBDA = {"class_name": "__lambda__", "config": {"value": "x"}}


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda c: c.update(heads=3), "unknown key `heads`"),
        (lambda c: c.update(kind="BertPretrainer"), "unknown key `kind`"),
        (lambda c: c.update(model="BertPretrainer"), "`model` must be dict"),
        (lambda c: c.pop("model"), "missing .* 'model'"),
        (lambda c: c["model"].pop("config"), "`model` must be a serialized model with a `config`"),
        (lambda c: c["model"].update(config=[]), "`model` must be a serialized model with a `config`"),
        (lambda c: c["model"].update(module="os"), "unknown key `module`"),
        (lambda c: c["model"].update(build_config={}), "unknown key `build_config`"),
        (lambda c: c["model"].update(class_name="BertSomething"), "`class_name` must be one of"),
        (lambda c: c["model"].update(class_name="Functional"), "`class_name` must be one of"),
        (lambda c: c["model"].update(class_name="MaskedLMHead"), "`class_name` must be one of"),
        (lambda c: c["model"].update(class_name="BertBiLSTMEncoder"), "`class_name` must be one of"),
        (lambda c: c["model"].update(class_name=["BertPretrainer"]), "`class_name` must be one of"),
        (lambda c: c["model"].update(LAMBDA), "`class_name` must be one of .* Received: '__lambda__'"),
        (lambda c: c["model"].update(registered_name="keras>Lambda"), "`registered_name` must be bert_tf>BertPretrain"),
        (lambda c: c["model"].update(class_name="BertTextClassifier", registered_name="bert_tf>BertTextClassifier"),
         "BertTextClassifier: unknown key `masked_lm`"),
        (lambda c: c["model"].update(class_name="BertTokenClassifier", registered_name="bert_tf>BertTokenClassifier",
                                     config={"backbone": arguments(c)["backbone"]}),
         "`num_classes` is required for BertTokenClassifier"),
        (lambda c: arguments(c).update(num_classes=2), "unknown key `num_classes`"),
        (lambda c: arguments(c).update(pooling="mean"), "unknown key `pooling`"),
        (lambda c: arguments(c).update(name="x"), "unknown key `name`"),
        (lambda c: arguments(c).update(kwargs={}), "unknown key `kwargs`"),
        (lambda c: arguments(c).update(self=1), "unknown key `self`"),
        (lambda c: arguments(c).update(masked_lm="yes"), "`masked_lm` must be bool. Received: 'yes'"),
        (lambda c: arguments(c).update(masked_lm=LAMBDA), "`masked_lm` must be bool"),
        (lambda c: arguments(c).pop("backbone"), "`backbone` is required for BertPretrainer"),
        (lambda c: arguments(c).update(backbone=LAMBDA), "`backbone`: `class_name` must be one of BertBackbone"),
        (lambda c: arguments(c).update(backbone=deepcopy(c["model"])), "must be one of BertBackbone. Received"),
        (with_bilstm, "`class_name` must be one of BertBackbone. Received: 'BertBiLSTMEncoder'"),
        (lambda c: arguments(c)["backbone"]["config"].update(dtype="float64"), "BertBackbone: unknown key `dtype`"),
        (lambda c: arguments(c)["backbone"].update(config={}), "`config` is required for BertBackbone"),
        (lambda c: arguments(c)["backbone"]["config"].update(config=3), "`config`: expected a JSON object"),
        (lambda c: fields(c).update(num_head=3), r"unknown key `num_head`.*num_heads"),
        (lambda c: fields(c).update(num_heads=3), "`hidden_dim` must be a multiple of `num_heads`"),
        (lambda c: fields(c).update(num_layers="2"), "`num_layers` must be int"),
        (lambda c: fields(c).update(num_layers=10**9), "`num_layers` must be at most 1000. Received: 1000000000"),
        (lambda c: fields(c).update(vocabulary_size=10**12), "`vocabulary_size` must be at most"),
        (lambda c: fields(c).update(dropout=float("nan")), "`dropout` must be a finite number. Received: nan"),
        (lambda c: fields(c).update(layer_norm_epsilon=10**400), "`layer_norm_epsilon` must be a finite number"),
        (lambda c: fields(c).update(pooler=False), "`next_sentence` needs an encoder with `pooler`"),
        (lambda c: fields(c).update(mlm_activation="swish"), "`mlm_activation` must be one of"),
        (lambda c: arguments(c).update(next_sentence=False), "has no weight `nsp_logits/"),
        (lambda c: arguments(c).update(masked_lm=False), "has no weight `mlm_logits/"),
        (lambda c: c.update(format_version=3), "`format_version` must be 1 or 2. Received: 3"),
        (lambda c: c.update(format_version=True), "`format_version` must be int. Received: True"),
        (lambda c: c.update(info=[]), "`info` must be dict"),
        (lambda c: c.pop("lowercase"), "lowercase"),
        (lambda c: c.update(lowercase=1), "`lowercase` must be bool"),
        (lambda c: c.update(vocabulary_sha256="0"), "vocab.txt: not the vocabulary of config.json"),
        (lambda c: fields(c).update(vocabulary_size=51), "as many tokens as .* 51. Received: 50"),
        (lambda c: fields(c).update(num_layers=3), r"weight `layer_3/.*is missing"),
        (lambda c: fields(c).update(num_layers=1), "has no weight `layer_2/"),
        (
            lambda c: fields(c).update(intermediate_dim=41),
            r"`layer_1/feedforward_intermediate_dense/kernel` must have shape \(16, 41\). Received: \(16, 40\)",
        ),
        (lambda c: c.update(model=arguments(c)["backbone"]), "has no weight `mlm_logits/"),
    ],
)  # fmt: skip
def test_invalid_config_is_refused(change, message, tmp_path):
    _, directory = saved(tmp_path)
    edit(directory / "config.json", change)
    with pytest.raises(ConfigError, match=message) as error:
        load_preset(directory)
    assert str(directory) in str(error.value)


@pytest.mark.parametrize("name", ["config.json", "task.json"])
def test_invalid_json_is_refused(name, tmp_path):
    _, directory = saved(tmp_path, task={})
    (directory / name).write_text("{")
    with pytest.raises(ConfigError, match=name):
        load_preset(directory)


def test_truncated_and_damaged_weights(tmp_path):
    _, directory = saved(tmp_path)
    path = directory / "model.weights.h5"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConfigError, match=r"model\.weights\.h5: not a readable HDF5 file"):
        load_preset(directory)
    table = np.asarray(load_table(whole, path))
    damaged = whole.replace(table.tobytes(), (table + 1.0).tobytes())
    assert damaged != whole
    path.write_bytes(damaged)
    with pytest.raises(ConfigError, match="model.weights.h5: weight `embeddings/token_embedding/.*` is damaged"):
        load_preset(directory)


def load_table(whole, path):
    path.write_bytes(whole)
    with h5py.File(path) as file:
        return file["embeddings/token_embedding/embeddings"][()]


def test_save_refuses_a_vocabulary_of_another_size(tmp_path):
    with pytest.raises(ConfigError, match="`vocabulary_size`, 50. Received: 5"):
        save_preset(BUILD["BertBackbone"](), tmp_path / "preset", Vocabulary(SPECIAL), True)
    assert not list(tmp_path.iterdir())


def test_save_refuses_other_models(tmp_path):
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(ConfigError, match="`model` must be one of BertBackbone"):
        save_preset(model, tmp_path / "preset", VOCABULARY, True)

"""Settings of built layers survive the configuration and the `.keras` file of their model, and are not in presets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_tf.config import ConfigError
from bert_tf.layers import LayerNormalization
from bert_tf.layers.computation import set_computation
from bert_tf.layers.inference import arrange_for_inference, quantize_weights
from bert_tf.models import BertBackbone, BertBiLSTMEncoder, BertPretrainer, BertTextClassifier
from bert_tf.models.preset_header import serialize_model
from tests.support.models.reference_bert import TINY

NO_DROPOUT = replace(TINY, attention_dropout=0.0)


def settings_of(model: keras.Model) -> list[object]:
    """Returns all that `set_computation` sets on a pretrainer, and which weights are trained."""
    layers = [model.backbone.get_layer(f"layer_{number}") for number in (1, 2)]
    norms = [layer.stores_float32 for layer in model._flatten_layers() if isinstance(layer, LayerNormalization)]
    return [
        [(layer.attention.kernel, layer.rematerialize) for layer in layers],
        model.get_layer("mlm_logits").vocabulary_multiple,
        norms,
        [weight.path.partition("/")[2] for weight in model.trainable_weights],
    ]


def test_settings_survive_the_keras_file(tmp_path: Path) -> None:
    model = BertPretrainer(BertBackbone(NO_DROPOUT))
    before = settings_of(model)
    set_computation(model, "fused", rematerialize=True, pad_vocabulary="true", normalization="compute")
    model.backbone.get_layer("layer_2").rematerialize = False
    model.backbone.get_layer("embeddings").trainable = False
    assert all(old != new for old, new in zip(before, settings_of(model), strict=True))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert settings_of(loaded) == settings_of(model)
    assert settings_of(BertPretrainer.from_config(model.get_config())) == settings_of(model)


def test_settings_survive_in_an_encoder_inside_another(tmp_path: Path) -> None:
    model = BertTextClassifier(BertBiLSTMEncoder(BertBackbone(TINY), bilstm_dim=4), num_classes=2)
    set_computation(model, rematerialize=True)
    model.get_layer("bert_bilstm_encoder").get_layer("encoder_bilstm").trainable = False
    loaded = BertTextClassifier.from_config(model.get_config())
    assert loaded.backbone.backbone.get_layer("layer_1").rematerialize
    assert not loaded.backbone.get_layer("encoder_bilstm").trainable
    assert len(loaded.trainable_weights) == len(model.trainable_weights)


def test_heads_of_the_modern_body_keep_their_settings() -> None:
    model = BertTextClassifier(BertBackbone(replace(TINY, body="modern", pooler=False)), num_classes=2)
    set_computation(model, normalization="compute")
    assert not BertTextClassifier.from_config(model.get_config()).get_layer("head_layer_norm").stores_float32


def test_configurations_of_defaults_and_presets_have_no_settings() -> None:
    model = BertPretrainer(BertBackbone(NO_DROPOUT))
    plain, preset = model.get_config(), serialize_model(model)
    assert "settings" not in plain and "settings" not in plain["backbone"]["config"]
    set_computation(model, "fused", rematerialize=True, pad_vocabulary="true", normalization="compute")
    assert model.get_config() != plain
    assert serialize_model(model) == preset


def test_settings_do_not_change_the_initial_weights() -> None:
    plain = BertBackbone(NO_DROPOUT)
    adjusted = BertBackbone(NO_DROPOUT)
    set_computation(adjusted, "fused", rematerialize=True)
    weights = []
    for config in (plain.get_config(), adjusted.get_config()):
        keras.utils.set_random_seed(1)
        weights.append(BertBackbone.from_config(config).get_weights())
    for first, second in zip(*weights, strict=True):
        np.testing.assert_array_equal(first, second)


def test_settings_of_unknown_layers_are_an_error() -> None:
    config = BertBackbone(TINY).get_config() | {"settings": {"layer_3/rematerialize": True}}
    with pytest.raises(ConfigError, match="must name settings of its layers. Received: layer_3/rematerialize"):
        BertBackbone.from_config(config)


@pytest.mark.parametrize("change", [arrange_for_inference, quantize_weights])
def test_models_changed_for_inference_are_not_saved(change, tmp_path: Path) -> None:
    model = BertBackbone(TINY)
    change(model)
    with pytest.raises(ConfigError, match=r"cannot be saved. Received: .* export it with `bert_tf.export_preset`"):
        model.save(tmp_path / "model.keras")

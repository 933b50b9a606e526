"""Settings of built layers in configurations and `.keras` files; and arguments that layers do not support."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from bert_tf.config import ConfigError
from bert_tf.layers import LayerNormalization, MaskedLMHead, SelfAttention, TransformerLayer
from bert_tf.layers.computation import set_computation

HIDDEN = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
CHANGED = {
    "rematerialize": True,
    "self_attention_layer/kernel": "fused",
    "self_attention_layer_norm/stores_float32": False,
    "feedforward_layer_norm/stores_float32": False,
}


def changed_layer() -> TransformerLayer:
    """Returns a built layer, none of whose settings is the default."""
    layer = TransformerLayer(num_heads=2, intermediate_dim=16, dropout=0.0, dtype="mixed_bfloat16")
    layer(HIDDEN, np.ones((2, 3), "int32"))
    layer.rematerialize = True
    layer.attention.kernel = "fused"
    layer.attention_norm.stores_float32 = layer.feedforward_norm.stores_float32 = False
    return layer


def test_settings_are_in_the_configuration_if_they_were_changed() -> None:
    assert "settings" not in TransformerLayer(num_heads=2, intermediate_dim=16).get_config()
    layer = changed_layer()
    assert layer.get_config()["settings"] == CHANGED
    assert TransformerLayer.from_config(layer.get_config()).get_config() == layer.get_config()


@pytest.mark.parametrize(
    ("layer", "setting", "value"),
    [
        (LayerNormalization(), "stores_float32", False),
        (SelfAttention(2), "kernel", "fused"),
        (MaskedLMHead(keras.layers.Embedding(10, 8)), "vocabulary_multiple", 128),
    ],
)
def test_settings_of_one_layer(layer: Any, setting: str, value: Any) -> None:
    assert "settings" not in layer.get_config()
    setattr(layer, setting, value)
    assert getattr(type(layer).from_config(layer.get_config()), setting) == value


def test_settings_of_layers_in_a_model_of_the_user(tmp_path: Any) -> None:
    hidden, mask = keras.Input((None, 8)), keras.Input((None,), dtype="int32")
    layer = TransformerLayer(num_heads=2, intermediate_dim=16, dropout=0.0, name="layer")
    model = keras.Model([hidden, mask], layer(hidden, mask))
    set_computation(model, attention_kernel="fused", rematerialize=True, normalization="compute")
    model.save(tmp_path / "model.keras")
    assert keras.saving.load_model(tmp_path / "model.keras").get_layer("layer").get_config()["settings"] == CHANGED


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rematerialize": "yes"}, r"`rematerialize` must be in \(False, True\). Received: 'yes'. Take"),
        ({"self_attention_layer/kernel": "fast"}, "Received: 'fast'"),
        ({"call": None}, "must name settings of its layers. Received: call. Take"),
        ({"trainable": False}, "Received: trainable"),
    ],
)
def test_unknown_settings_are_an_error(settings: dict[str, Any], message: str) -> None:
    config = TransformerLayer(num_heads=2, intermediate_dim=16).get_config()
    with pytest.raises(ConfigError, match=message):
        TransformerLayer.from_config(config | {"settings": settings})


@pytest.mark.parametrize("axis", [1, 0, [1, 2], (-2,), None])
def test_normalization_refuses_other_axes(axis: Any) -> None:
    with pytest.raises(ConfigError, match=r"`axis` must be -1.*Received: .*keras.layers.LayerNormalization"):
        LayerNormalization(axis=axis)


def test_normalization_refuses_rms_scaling() -> None:
    with pytest.raises(ConfigError, match=r"`rms_scaling` must be False.*Received: True. Use `keras.layers.RMSNorm"):
        LayerNormalization(rms_scaling=True)


@pytest.mark.parametrize("options", [{}, {"scale": False}, {"center": False}, {"scale": False, "center": False}])
def test_normalization_with_and_without_weights_is_that_of_keras(options: dict[str, bool]) -> None:
    layer = LayerNormalization(epsilon=1e-6, **options)
    expected = keras.layers.LayerNormalization(epsilon=1e-6, **options)
    for either in (layer, expected):
        either.build(HIDDEN.shape)
        either.set_weights([np.full(weight.shape, 0.5 + number) for number, weight in enumerate(either.weights)])
    np.testing.assert_allclose(layer(HIDDEN), expected(HIDDEN), atol=1e-5)
    again = LayerNormalization.from_config(layer.get_config())
    assert again.get_config() == layer.get_config() and (again.axis, again.scale) == ([-1], layer.scale)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalization_order": "Pre"}, "`normalization_order` must be one of post, pre. Received: 'Pre'"),
        ({"feed_forward": "glu"}, "`feed_forward` must be one of dense, gated. Received: 'glu'"),
        ({"normalizes_attention": False}, "`normalizes_attention` must be True with .* Received: False. Set"),
    ],
)
def test_transformer_layer_refuses_what_it_would_ignore(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TransformerLayer(num_heads=2, intermediate_dim=16, **options)

"""Tests the attention weights of the model against numpy."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from bert_tf.models import BertBackbone, BertPretrainer
from tests.support.models.reference_bert import BODIES, TINY, random_inputs, randomize, reference_forward

ENCODER_INPUTS = ("token_ids", "segment_ids", "padding_mask")


def encoder_inputs(**arguments):
    return {name: value for name, value in random_inputs(**arguments).items() if name in ENCODER_INPUTS}


@pytest.mark.parametrize("attention", ["bidirectional", "left_to_right"])
@pytest.mark.parametrize("body", ["bert", "modern", "local_rotary", "pre"])
def test_weights_equal_numpy(attention, body):
    config = TINY.with_changes(**BODIES.get(body, {}), attention=attention)
    model = BertPretrainer(BertBackbone(config))
    randomize(model)
    inputs = random_inputs()
    found = model.backbone.attentions()({name: inputs[name] for name in ENCODER_INPUTS})
    expected = {}
    reference_forward(model, config, inputs, expected)
    assert list(found) == [f"layer_{number}" for number in range(1, config.num_layers + 1)]
    mask = inputs["padding_mask"] == 1
    for name, weights in found.items():
        weights = np.asarray(weights)
        assert weights.shape == (3, config.num_heads, 12, 12)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-6)
        # The window of a query at padding may hold no token.
        of_tokens = weights * mask[:, None, :, None]
        assert not of_tokens.transpose(0, 3, 1, 2)[~mask].any()
        if attention == "left_to_right":
            assert not of_tokens[:, :, *np.triu_indices(12, 1)].any()
        # Attention weights of padding positions are undefined.
        rows = weights.transpose(0, 2, 1, 3)[mask]
        np.testing.assert_allclose(rows, expected[name].transpose(0, 2, 1, 3)[mask], atol=1e-5)
        assert rows.std() > 0.05


def test_attention_model_shares_weights_and_outputs():
    model = BertBackbone(TINY)
    inputs = encoder_inputs()
    before = np.asarray(model(inputs)["sequence_output"])
    attentions = model.attentions()
    assert {id(weight) for weight in attentions.weights} <= {id(weight) for weight in model.weights}
    first = np.asarray(attentions(inputs)["layer_1"])
    np.testing.assert_array_equal(model(inputs)["sequence_output"], before)
    randomize(model)
    assert np.abs(np.asarray(attentions(inputs)["layer_1"]) - first).max() > 0.01


def test_weights_of_half_precision_are_float32():
    model = BertBackbone(TINY, dtype="mixed_bfloat16")
    randomize(model)
    inputs = encoder_inputs()
    attentions = model.attentions()
    assert {output.dtype for output in attentions.output.values()} == {"float32"}
    for weights in attentions(inputs).values():
        assert keras.backend.standardize_dtype(weights.dtype) == "float32"
        np.testing.assert_allclose(np.asarray(weights).sum(axis=-1), 1, atol=1e-5)

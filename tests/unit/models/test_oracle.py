from __future__ import annotations

import dataclasses

import keras
import numpy as np
import pytest

from bert_tf.models import BertBackbone, BertPretrainer, BertTextClassifier
from tests.support.models.reference_bert import BODIES, TINY, random_inputs, randomize, reference_forward

ENCODER_INPUTS = ("token_ids", "segment_ids", "padding_mask")


def build(seed=0, **fields):
    config = TINY.with_changes(**fields)
    model = BertPretrainer(BertBackbone(config))
    randomize(model, seed)
    return model, config


def encode(model, inputs):
    outputs = model.backbone({name: inputs[name] for name in ENCODER_INPUTS})
    return {name: np.asarray(output) for name, output in outputs.items()}


@pytest.mark.parametrize("attention", ["bidirectional", "left_to_right"])
@pytest.mark.parametrize("activation", ["gelu_approximate", "gelu", "relu", "tanh"])
def test_forward_equals_numpy(activation, attention):
    assert_equals_numpy(*build(activation=activation, attention=attention))


@pytest.mark.parametrize("attention", ["bidirectional", "left_to_right"])
@pytest.mark.parametrize("body", BODIES)
def test_forward_of_bodies_equals_numpy(body, attention):
    model, config = build(**BODIES[body], attention=attention)
    assert model.backbone.count_params() == config.num_parameters
    assert_equals_numpy(model, config)


def assert_equals_numpy(model, config):
    inputs = random_inputs()
    expected = reference_forward(model, config, inputs)
    tokens = inputs["padding_mask"] == 1
    got = {name: np.asarray(output) for name, output in model(inputs).items()} | encode(model, inputs)
    features = model.backbone.features(model.backbone.layer_outputs)({name: inputs[name] for name in ENCODER_INPUTS})
    got |= {name: np.asarray(output) for name, output in features.items()}
    assert got.keys() == expected.keys()
    for name, output in got.items():
        # Outputs at padding positions are undefined and depend on the attention implementation.
        rows = tokens if output.shape[:2] == tokens.shape else slice(None)
        np.testing.assert_allclose(output[rows], expected[name][rows], atol=1e-5, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_both_attention_paths_of_keras_agree_with_numpy(dropout):
    # Without dropout Keras takes its fused attention, with dropout the explicit one.
    model, config = build(dropout=dropout)
    inputs = random_inputs(seed=1)
    np.testing.assert_allclose(
        model(inputs)["mlm_logits"], reference_forward(model, config, inputs)["mlm_logits"], atol=1e-5, rtol=1e-5
    )


def test_padding_does_not_change_outputs():
    model, _ = build()
    short = random_inputs(length=10)
    long = {name: np.pad(value, ((0, 0), (0, 9))) if name in ENCODER_INPUTS else value for name, value in short.items()}
    # Ids at padding positions must not change the outputs.
    long["token_ids"][:, 10:] = 7
    long["segment_ids"][:, 10:] = 1
    tokens = short["padding_mask"] == 1
    a, b = encode(model, short), encode(model, long)
    np.testing.assert_allclose(a["sequence_output"][tokens], b["sequence_output"][:, :10][tokens], atol=2e-6)
    np.testing.assert_allclose(a["pooled_output"], b["pooled_output"], atol=2e-6)
    np.testing.assert_allclose(model(short)["mlm_logits"], model(long)["mlm_logits"], atol=1e-5)


@pytest.mark.parametrize("attention", ["bidirectional", "left_to_right"])
def test_only_left_to_right_attention_hides_later_tokens(attention):
    model, _ = build(attention=attention)
    inputs = random_inputs()
    inputs["padding_mask"] = np.ones_like(inputs["padding_mask"])
    changed = dict(inputs, token_ids=inputs["token_ids"].copy())
    changed["token_ids"][:, 6:] = (changed["token_ids"][:, 6:] + 1) % TINY.vocabulary_size
    before = encode(model, inputs)["sequence_output"]
    after = encode(model, changed)["sequence_output"]
    assert np.abs(before[:, 6:] - after[:, 6:]).max() > 1e-2
    past = np.abs(before[:, :6] - after[:, :6]).max()
    assert past == 0.0 if attention == "left_to_right" else past > 1e-2


def test_masked_lm_logits_equal_those_of_all_positions():
    model, _ = build()
    inputs = random_inputs(batch=3, length=12, predictions=5)
    every = dict(inputs, mask_positions=np.tile(np.arange(12, dtype="int32"), (3, 1)))
    expected = np.take_along_axis(np.asarray(model(every)["mlm_logits"]), inputs["mask_positions"][..., None], axis=1)
    # The order of summation differs between processors.
    np.testing.assert_allclose(model(inputs)["mlm_logits"], expected, atol=1e-5)


def test_masked_lm_is_tied_to_the_token_embedding():
    model, _ = build()
    inputs = random_inputs()
    before = np.asarray(model(inputs)["mlm_logits"])
    table = np.array(model.backbone.token_embedding.embeddings)
    unused = next(row for row in range(TINY.vocabulary_size) if row not in inputs["token_ids"])
    table[unused] += 1.0
    model.backbone.token_embedding.embeddings.assign(table)
    difference = np.abs(np.asarray(model(inputs)["mlm_logits"]) - before).max(axis=(0, 1))
    assert difference[unused] > 1e-3
    assert np.delete(difference, unused).max() == 0.0


def test_classifier_logits_are_a_dense_layer_on_the_pooled_output():
    model, _ = build()
    classifier = BertTextClassifier(model.backbone, num_classes=3)
    inputs = {name: value for name, value in random_inputs().items() if name in ENCODER_INPUTS}
    kernel, bias = classifier.get_layer("logits").get_weights()
    expected = encode(model, inputs)["pooled_output"] @ kernel + bias
    np.testing.assert_allclose(classifier(inputs), expected, atol=1e-6)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_half_precision_stays_near_float32(policy, dropout):
    model, config = build(dropout=dropout)
    half = BertPretrainer(BertBackbone(dataclasses.replace(config), dtype=policy))
    half.set_weights(model.get_weights())
    inputs = random_inputs()
    # One row with a single token: all other scores are the mask's large negative constant.
    inputs["padding_mask"][0, 1:] = 0
    inputs["mask_positions"][0] = 0
    expected, got = model(inputs), half(inputs)
    for name in expected:
        assert keras.backend.standardize_dtype(got[name].dtype) == "float32"
        assert np.isfinite(got[name]).all()
        scale = np.abs(expected[name]).max()
        np.testing.assert_allclose(got[name], expected[name], atol=0.05 * scale, err_msg=name)
    assert all(weight.dtype == "float32" for weight in half.weights)


def test_layer_normalization_and_softmax_accumulate_in_float32():
    # 4,096 values near 256: bfloat16 cannot represent their sum or the sum of their squares accurately.
    values = 256.0 + np.random.default_rng(0).normal(size=(2, 4096)) * 4.0
    values = keras.ops.cast(values, "bfloat16")
    rounded = np.asarray(keras.ops.cast(values, "float32"), dtype=np.float64)
    normalized = keras.layers.LayerNormalization(epsilon=1e-12, dtype="mixed_bfloat16")(values)
    expected = (rounded - rounded.mean(-1, keepdims=True)) / rounded.std(-1, keepdims=True)
    np.testing.assert_allclose(keras.ops.cast(normalized, "float32"), expected, atol=0.02)
    scores = keras.ops.cast(np.random.default_rng(1).normal(size=(2, 4096)), "bfloat16")
    probabilities = keras.layers.Softmax(dtype="mixed_bfloat16")(scores)
    total = np.asarray(keras.ops.cast(probabilities, "float32"), dtype=np.float64).sum(-1)
    # Processors without bfloat16 instructions round the normalizer (2**-8); a sum in bfloat16 would stop at 256 terms.
    np.testing.assert_allclose(total, 1.0, atol=1e-2)

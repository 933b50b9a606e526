from __future__ import annotations

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig, ConfigError, to_dict
from bert_tf.models import BertBackbone, BertPretrainer, BertTextClassifier
from tests.support.models.reference_bert import TINY, random_inputs

ENCODER_INPUTS = ("token_ids", "segment_ids", "padding_mask")


def encoder_inputs(**arguments):
    return {name: value for name, value in random_inputs(**arguments).items() if name in ENCODER_INPUTS}


def test_get_config_is_the_architecture():
    model = BertBackbone(TINY, dtype="mixed_bfloat16", name="mine")
    config = model.get_config()
    assert config["config"] == to_dict(TINY)
    again = BertBackbone.from_config(config)
    assert again.config == TINY and again.name == "mine" and again.dtype_policy.name == "mixed_bfloat16"


def test_unknown_field_is_named():
    with pytest.raises(ConfigError, match="unknown key `hiden_dim`"):
        BertBackbone({"hiden_dim": 16})


def test_fields_of_the_architecture_are_keyword_arguments():
    fields = {"vocabulary_size": 100, "num_layers": 2, "hidden_dim": 32, "num_heads": 2, "intermediate_dim": 64}
    model = BertBackbone(**fields, dtype="mixed_bfloat16", name="mine", trainable=False)
    assert model.config == BertConfig(**fields)
    assert (model.name, model.trainable, model.dtype_policy.name) == ("mine", False, "mixed_bfloat16")
    assert BertBackbone.from_config(model.get_config()).get_config() == model.get_config()
    assert set(model.get_config()) == {"config", "dtype", "name", "trainable"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"either `config` or the fields.*Received: neither. Pass `BertConfig.from_size"),
        ({"trainable": True}, "Received: neither"),
        ({"config": TINY, "num_layers": 2, "dropout": 0.0}, "Received: `config` and `num_layers`, `dropout`. Pass"),
        ({"hiden_dim": 16}, r"config of `bert_backbone`: unknown key `hiden_dim` \(did you mean `hidden_dim`\?\)"),
        ({"hidden_dim": 10, "num_heads": 3}, "`hidden_dim` must be a multiple of `num_heads`. Received: 10 and 3"),
        ({"num_layers": "two"}, "`num_layers`.*Received: 'two'"),
    ],
)
def test_invalid_arguments_name_the_rule(arguments, message):
    with pytest.raises(ConfigError, match=message):
        BertBackbone(**arguments)


@pytest.mark.filterwarnings("ignore:You are using a softmax over axis")
@pytest.mark.parametrize("length", [1, 5, 24])
def test_any_length_up_to_the_maximum(length):
    outputs = BertBackbone(TINY)(encoder_inputs(length=length, predictions=1))
    assert outputs["sequence_output"].shape == (3, length, TINY.hidden_dim)


@pytest.mark.parametrize("maximum", [1, 24])
def test_longer_than_the_position_table_is_an_error(maximum):
    model = BertBackbone(dataclasses.replace(TINY, max_sequence_length=maximum))
    inputs = encoder_inputs(length=maximum + 1, predictions=1)
    with pytest.raises(ValueError, match=f"`max_sequence_length` = {maximum}.*Received: {maximum + 1}"):
        model(inputs)
    with pytest.raises(ValueError, match=f"Received: {maximum + 1}"):
        model({name: keras.Input((maximum + 1,), dtype="int32", name=name) for name in ENCODER_INPUTS})
    free = tf.TensorSpec([None, None], tf.int32)
    graph = tf.function(lambda x: model(x), input_signature=[dict.fromkeys(ENCODER_INPUTS, free)])
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Expected size.*got {maximum + 1}"):
        graph({name: tf.constant(value) for name, value in inputs.items()})


def test_layer_outputs_by_name():
    model = BertBackbone(TINY)
    assert list(model.layer_outputs) == ["embeddings", "layer_1", "layer_2"]
    inputs = encoder_inputs()
    features = model.features(["layer_2", "embeddings"])
    outputs = features(inputs)
    assert set(outputs) == {"embeddings", "layer_2"}
    np.testing.assert_array_equal(outputs["layer_2"], model(inputs)["sequence_output"])
    assert all(any(weight is own for own in model.weights) for weight in features.weights)


@pytest.mark.parametrize("layers", [["layer_3"], ["layer_1", "pooler"], []])
def test_unknown_layer_output_is_an_error(layers):
    with pytest.raises(ConfigError, match="embeddings, layer_1, layer_2"):
        BertBackbone(TINY).features(layers)


def test_seed_determines_initial_weights_and_dropout():
    def outcome(seed):
        keras.utils.set_random_seed(seed)
        model = BertPretrainer(BertBackbone(TINY))
        logits = model(random_inputs(), training=True)["mlm_logits"]
        return [np.array(weight.value) for weight in model.weights] + [np.array(logits)]

    first, same, other = outcome(1), outcome(1), outcome(2)
    assert all(np.array_equal(a, b) for a, b in zip(first, same, strict=True))
    random = [i for i, value in enumerate(first) if len(np.unique(value)) > 1]
    assert len(random) == 3 + 2 * 6 + 1 + 2 + 1
    assert all(not np.array_equal(first[i], other[i]) for i in random)


def test_initial_weights_are_truncated_normal_as_in_the_original():
    config = BertConfig.from_size("tiny", vocabulary_size=500, initializer_range=0.05)
    model = BertPretrainer(BertBackbone(config))
    starts = []
    for weight in model.weights:
        values = np.asarray(weight.value)
        if weight.path.endswith(("bias", "beta")):
            assert not values.any(), weight.path
        elif weight.path.endswith("gamma"):
            assert (values == 1.0).all(), weight.path
        else:
            # Truncation at two deviations reduces the deviation of a normal distribution to 0.8796.
            assert np.abs(values).max() <= 0.1 + 1e-6, weight.path
            assert values.std() == pytest.approx(0.05 * 0.8796, rel=0.12), weight.path
            starts.append(float(values.flat[0]))
    assert len(set(starts)) == len(starts), "two weights were drawn from one seed"


def test_query_key_value_and_output_have_biases():
    paths = {weight.path for weight in BertBackbone(TINY).weights}
    for part in ("query", "key", "value", "attention_output"):
        assert f"layer_1/self_attention_layer/{part}/bias" in paths


def test_dropout_acts_in_training_only():
    model, inputs = BertBackbone(TINY), encoder_inputs()
    still = model(inputs)["sequence_output"]
    np.testing.assert_array_equal(still, model(inputs)["sequence_output"])
    assert np.abs(np.asarray(model(inputs, training=True)["sequence_output"]) - still).max() > 1e-3


def test_long_rows_are_computed_as_whole_ones():
    """Rows of 700 tokens: three blocks in the first layer, eleven windows in the second one."""
    config = BertConfig.from_size("modern_tiny", vocabulary_size=50, max_sequence_length=700, initializer_range=0.3)
    model = BertBackbone(config)
    ids = np.random.default_rng(0).integers(5, 50, (2, 700)).astype(np.int32)
    tokens = (np.arange(700) < [[700], [530]]).astype(np.int32)
    inputs = {"token_ids": ids * tokens, "segment_ids": 0 * ids, "padding_mask": tokens}
    found = model(inputs)["sequence_output"]
    for number in (1, 2):
        attention = model.get_layer(f"layer_{number}").attention
        attention.pattern = dataclasses.replace(attention.pattern, max_length=1)
    expected = model(inputs)["sequence_output"]
    np.testing.assert_allclose(found.numpy()[tokens == 1], expected.numpy()[tokens == 1], atol=2e-5)


@pytest.mark.parametrize("arguments", [{"num_classes": 0}, {"num_classes": 2, "dropout": 1.0}])
def test_classifier_refuses_invalid_arguments(arguments):
    with pytest.raises(ConfigError, match="Received"):
        BertTextClassifier(BertBackbone(TINY), **arguments)

"""Layers arranged for inference have the same outputs as before."""

from __future__ import annotations

from types import SimpleNamespace

import keras
import numpy as np
import pytest

from bert_tf.config import BertConfig
from bert_tf.layers import inference
from bert_tf.layers.activations import gelu_approximate
from bert_tf.layers.attention import SelfAttention
from bert_tf.layers.inference import (
    MergedAttention,
    arrange_for_inference,
    fused_gelu_approximate,
    quantize_weights,
)
from bert_tf.models import BertBackbone, BertPretrainer, BertTextClassifier
from tests.support.models.reference_bert import BODIES

RNG = np.random.default_rng(0)
INPUTS = {
    "token_ids": RNG.integers(0, 50, (3, 9)).astype(np.int32),
    "segment_ids": np.tile(np.arange(9) // 5, (3, 1)).astype(np.int32),
    "padding_mask": (np.arange(9) < [[9], [4], [1]]).astype(np.int32),
}
SMALL = {"vocabulary_size": 50, "num_layers": 2, "hidden_dim": 24, "num_heads": 3, "intermediate_dim": 40}
# Rows of 3 x 256 and of 512 floats are multiples of 1,024 bytes; one spare head of 64, one line of 16 floats.
ALIASED = SMALL | {"hidden_dim": 256, "num_heads": 4, "intermediate_dim": 512}


def random_weights(model: keras.Model) -> keras.Model:
    for weight in model.weights:
        weight.assign(RNG.normal(size=weight.shape, scale=0.1))
    return model


def kernels(model: keras.Model) -> set[tuple[int, ...]]:
    return {tuple(w.shape) for w in model.weights if w.path.endswith("kernel") and "pooled" not in w.path}


@pytest.mark.parametrize(
    ("architecture", "merged", "inner"),
    [(SMALL, (24, 9, 8), 40), (ALIASED, (256, 13, 64), 528)],
    ids=["small", "aliased"],
)
@pytest.mark.parametrize("activation", ["gelu_approximate", "gelu", "relu", "tanh"])
@pytest.mark.parametrize("attention", ["bidirectional", "left_to_right"])
def test_arrangement_keeps_outputs_and_merges_kernels(architecture, merged, inner, activation, attention):
    config = architecture | {"activation": activation, "attention": attention, "pooler": False}
    model = random_weights(BertBackbone(config))
    expected = model(INPUTS)["sequence_output"].numpy()
    arrange_for_inference(model)
    np.testing.assert_allclose(model(INPUTS)["sequence_output"], expected, rtol=1e-5, atol=1e-5)
    width, heads = architecture["hidden_dim"], architecture["num_heads"]
    assert kernels(model) == {merged, (heads, width // heads, width), (width, inner), (inner, width)}
    assert len(model.weights) == 5 + 2 * 12


@pytest.mark.parametrize("architecture", [SMALL, ALIASED], ids=["small", "aliased"])
@pytest.mark.parametrize("body", ["modern", "rotary", "pre", "gated", "no_biases", "local_rotary"])
def test_arrangement_keeps_outputs_of_bodies(architecture, body):
    config = BertConfig(**architecture).with_changes(**BODIES[body], intermediate_dim=architecture["intermediate_dim"])
    model = random_weights(BertPretrainer(BertBackbone(config)))
    inputs = INPUTS | {"mask_positions": np.array([[1], [2], [0]])}
    expected = model(inputs)
    arrange_for_inference(model)
    for name, value in model(inputs).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [2, 5])
def test_empty_batch_and_single_row(length):
    model = random_weights(BertBackbone(ALIASED))
    batches = [{name: value[:rows, :length] for name, value in INPUTS.items()} for rows in (0, 1)]
    expected = [model(batch) for batch in batches]
    arrange_for_inference(model)
    for batch, before in zip(batches, expected, strict=True):
        for name, value in model(batch).items():
            np.testing.assert_allclose(value, before[name], rtol=1e-5, atol=1e-5)


def test_layers_of_the_encoder_in_a_task_are_arranged():
    model = random_weights(BertTextClassifier(BertBackbone(SMALL), num_classes=3))
    expected = model(INPUTS)
    arrange_for_inference(model)
    np.testing.assert_allclose(model(INPUTS), expected, rtol=1e-5, atol=1e-5)
    found = [layer for layer in model._flatten_layers() if isinstance(layer, MergedAttention | SelfAttention)]
    assert [type(layer) for layer in found] == [MergedAttention] * 2


def test_arranged_layers_are_quantized_equally_and_replace_the_original_ones():
    model, as_trained = (random_weights(BertBackbone(ALIASED)) for _ in range(2))
    as_trained.set_weights(model.get_weights())
    arrange_for_inference(model)
    for one in (model, as_trained):
        quantize_weights(one)
    found, expected = (one(INPUTS)["sequence_output"] for one in (model, as_trained))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    shapes = [tuple(weight.shape) for weight in model.weights if weight.dtype == "int8"]
    kernels_of_layer = [(256, 13, 64), (4, 64, 256), (256, 528), (528, 256)]
    assert sorted(shapes) == sorted(kernels_of_layer * 2 + [(50, 256), (256, 256)])


@pytest.mark.parametrize(("count", "calls"), [(0, ["freeze", "unfreeze"]), (9, ["freeze"])], ids=["none", "some"])
def test_quantizing_unfreezes_objects_unless_some_were_frozen_before(
    count: int, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    recorder = SimpleNamespace(
        get_freeze_count=lambda: count, freeze=lambda: made.append("freeze"), unfreeze=lambda: made.append("unfreeze")
    )
    monkeypatch.setattr(inference, "gc", recorder)
    quantize_weights(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]))
    assert made == calls


def test_fused_activation_equals_the_trained_one():
    inputs = np.linspace(-6, 6, 101, dtype=np.float32)
    np.testing.assert_allclose(fused_gelu_approximate(inputs), gelu_approximate(inputs), rtol=1e-5, atol=1e-6)
    model = BertBackbone(SMALL)
    arrange_for_inference(model)
    activations = [layer.activation for layer in model._flatten_layers() if layer.name.endswith("intermediate_dense")]
    assert activations == [fused_gelu_approximate] * 2


def test_arranged_layer_cannot_be_trained():
    model = BertBackbone(SMALL)
    arrange_for_inference(model)
    with pytest.raises(ValueError, match="arranged for inference cannot be trained"):
        model(INPUTS, training=True)

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.data.input.packing import pack_batch
from bert_tf.models import BertBackbone, BertPretrainer
from tests.support.models.reference_bert import BODIES

B, S, P, V = 9, 20, 4, 50
LENGTHS = np.array([20, 3, 7, 11, 5, 19, 8, 2, 12])


def a_batch(seed: int = 0):
    rng = np.random.default_rng(seed)
    mask = np.arange(S) < LENGTHS[:, None]
    predicted = np.arange(P) < np.clip(LENGTHS // 5, 1, P)[:, None]
    inputs = {
        "token_ids": (rng.integers(1, V, (B, S)) * mask).astype(np.int32),
        "segment_ids": ((np.arange(S) > LENGTHS[:, None] // 2) & mask).astype(np.int32),
        "padding_mask": mask.astype(np.int32),
        "mask_positions": (np.sort(rng.integers(0, LENGTHS[:, None], (B, P))) * predicted).astype(np.int32),
    }
    targets = {
        "mlm_logits": (rng.integers(0, V, (B, P)) * predicted).astype(np.int32),
        "nsp_logits": rng.integers(0, 2, B).astype(np.int32),
    }
    return inputs, targets, {"mlm_logits": predicted.astype(np.float32), "nsp_logits": np.ones(B, np.float32)}


def a_model(attention: str, **fields) -> BertPretrainer:
    keras.utils.set_random_seed(1)
    config = BertConfig(
        vocabulary_size=V, hidden_dim=16, num_layers=2, num_heads=2, intermediate_dim=24, max_sequence_length=S,
        dropout=0.0, initializer_range=0.3, attention=attention,
    )  # fmt: skip
    return BertPretrainer(BertBackbone(config.with_changes(**fields)))


def loss_and_gradients(model, weights_of, batch):
    inputs, targets, weights = batch
    with tf.GradientTape() as tape:
        logits = model(inputs)
        loss = 0.0
        for name, target in targets.items():
            losses = keras.ops.sparse_categorical_crossentropy(target, logits[name], from_logits=True)
            loss += tf.reduce_sum(losses * weights[name]) / np.sum(weights[name])
    gradients = tape.gradient(loss, weights_of.trainable_weights)
    return float(loss), [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]


@pytest.mark.parametrize("attention", ["bidirectional", "left_to_right"])
@pytest.mark.parametrize("body", ["bert", "modern", "local_rotary"])
def test_packed_batch_has_the_same_loss_and_gradients(attention, body):
    model, batch = a_model(attention, **BODIES.get(body, {})), a_batch()
    packed = pack_batch(*batch)
    assert len(packed[0]["token_ids"]) == 5  # 87 tokens, of rows of 20
    loss, gradients = loss_and_gradients(model, model, batch)
    packed_loss, packed_gradients = loss_and_gradients(model.packed(), model, packed)
    assert packed_loss == pytest.approx(loss, rel=1e-6)
    norm = np.sqrt(sum(np.sum(np.square(gradient)) for gradient in gradients))
    assert norm > 0.1
    for variable, expected, received in zip(model.trainable_weights, gradients, packed_gradients, strict=True):
        np.testing.assert_allclose(received, expected, atol=1e-6 * norm, err_msg=variable.path)


@pytest.mark.parametrize("body", ["bert", "modern", "local_rotary"])
def test_examples_of_a_packed_row_are_independent(body):
    model, (inputs, targets, weights) = a_model("bidirectional", **BODIES.get(body, {})).packed(), a_batch()
    packed, _, packed_weights = pack_batch(inputs, targets, weights)
    others = packed_weights["nsp_logits"] * (np.arange(8) > 0) > 0
    before = model.predict(packed, verbose=0)
    first = packed["example_ids"] == 1
    changed = packed | {"token_ids": np.where(first, (packed["token_ids"] + 1) % V, packed["token_ids"])}
    after = model.predict(changed, verbose=0)
    assert others.sum() == 4
    np.testing.assert_array_equal(after["nsp_logits"][others], before["nsp_logits"][others])
    assert (after["nsp_logits"][:, 0] != before["nsp_logits"][:, 0]).all()


def test_a_packed_model_shares_every_weight_in_order():
    model = a_model("bidirectional")
    packed = model.packed()
    assert [v.path for v in packed.variables] == [v.path for v in model.variables]
    assert all(one is other for one, other in zip(packed.variables, model.variables, strict=True))

from __future__ import annotations

import keras
import numpy as np
import pytest
from layer_contract import CHECKS, Contract, run_layer_contract

import bert_tf.layers
import bert_tf.models
from bert_tf.config import BertConfig
from bert_tf.layers import AttentionMask, BertEmbeddings, MaskedLMHead, NextSentenceHead
from bert_tf.models import BertBackbone, BertPretrainer, BertTextClassifier

B, S, P, H, V = 3, 7, 2, 8, 20
CONFIG = BertConfig(
    vocabulary_size=V, hidden_dim=H, num_layers=2, num_heads=2, intermediate_dim=12, max_sequence_length=9
)
RNG = np.random.default_rng(0)
MASK = (np.arange(S)[None] < np.array([[S], [4], [1]])).astype("int32")
ENCODER = {
    "token_ids": RNG.integers(0, V, (B, S)).astype("int32") * MASK,
    "segment_ids": RNG.integers(0, 2, (B, S)).astype("int32") * MASK,
    "padding_mask": MASK,
}
POSITIONS = {"mask_positions": np.array([[1, 6], [2, 3], [0, 0]], dtype="int32")}
SEQUENCE = {"sequence_output": RNG.normal(size=(B, S, H)).astype("float32")}

# Weights: three tables and a layer normalization; a layer of 4 projections, 2 dense, 2 normalizations.
EMBEDDINGS = (5, (V + 9 + 2 + 2) * H)
LAYER = (16, 4 * (H * H + H) + 2 * H * 12 + 12 + H + 4 * H)
BACKBONE = (5 + 2 * 16 + 2, EMBEDDINGS[1] + 2 * LAYER[1] + H * H + H)
TRANSFORM = (5, H * H + H + 2 * H + V)


def embedding(dtype):
    # The encoder's stays in float32 under mixed policies.
    return keras.layers.Embedding(V, H, name="token_embedding")


def backbone(dtype):
    return BertBackbone(CONFIG, dtype=dtype)


CONTRACTS = {
    "AttentionMask": Contract(
        lambda dtype: AttentionMask(left_to_right=True, dtype=dtype),
        inputs={"padding_mask": MASK},
        output_shape=(B, S, S),
        weights=(0, 0),
        output_dtypes=("bool",),
    ),
    "BertEmbeddings": Contract(
        lambda dtype: BertEmbeddings(V, H, max_sequence_length=9, dtype=dtype),
        inputs={name: ENCODER[name] for name in ("token_ids", "segment_ids")},
        output_shape=(B, S, H),
        weights=EMBEDDINGS,
    ),
    "MaskedLMHead": Contract(
        lambda dtype: MaskedLMHead(embedding(dtype), activation="gelu", dtype=dtype),
        inputs=SEQUENCE | POSITIONS,
        output_shape=(B, P, V),
        weights=(TRANSFORM[0] + 1, TRANSFORM[1] + V * H),
        output_dtypes=("float32",),
    ),
    "NextSentenceHead": Contract(
        lambda dtype: NextSentenceHead(dtype=dtype),
        inputs={"pooled_output": RNG.normal(size=(B, H)).astype("float32")},
        output_shape=(B, 2),
        weights=(2, 2 * H + 2),
        output_dtypes=("float32",),
    ),
    "BertBackbone": Contract(
        backbone,
        inputs=ENCODER,
        output_shape={"sequence_output": (B, S, H), "pooled_output": (B, H)},
        weights=BACKBONE,
        # A constant added to all keys moves all scores alike, and the softmax does not see it.
        still=("key/bias",),
        output_dtypes=("bfloat16", "bfloat16"),
    ),
    "BertPretrainer": Contract(
        lambda dtype: BertPretrainer(backbone(dtype)),
        inputs=ENCODER | POSITIONS,
        output_shape={"mlm_logits": (B, P, V), "nsp_logits": (B, 2)},
        weights=(BACKBONE[0] + TRANSFORM[0] + 2, BACKBONE[1] + TRANSFORM[1] + 2 * H + 2),
        still=("key/bias",),
        output_dtypes=("float32", "float32"),
    ),
    "BertTextClassifier": Contract(
        lambda dtype: BertTextClassifier(backbone(dtype), num_classes=5, dropout=0.2),
        inputs=ENCODER,
        output_shape=(B, 5),
        weights=(BACKBONE[0] + 2, BACKBONE[1] + 5 * H + 5),
        still=("key/bias",),
        output_dtypes=("float32",),
    ),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", CONTRACTS)
def test_contract(name, check, tmp_path):
    keras.utils.set_random_seed(0)
    run_layer_contract(CONTRACTS[name], check, tmp_path)


@pytest.mark.parametrize("package", [bert_tf.layers, bert_tf.models])
def test_every_public_layer_and_model_has_a_contract(package):
    public = {name: getattr(package, name) for name in package.__all__}
    layers = {name for name, item in public.items() if isinstance(item, type) and issubclass(item, keras.layers.Layer)}
    assert layers <= set(CONTRACTS)
    assert layers, "the package has no public layer at all"


@pytest.mark.parametrize("name", CONTRACTS)
def test_registered_under_our_own_name(name):
    assert keras.saving.get_registered_object(f"bert_tf>{name}").__name__ == name

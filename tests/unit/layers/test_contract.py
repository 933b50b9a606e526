from __future__ import annotations

from dataclasses import replace

import keras
import numpy as np
import pytest

import bert_tf.layers
import bert_tf.models
from bert_tf.config import BertConfig
from bert_tf.layers import (
    BertEmbeddings,
    BiLSTM,
    LayerNormalization,
    MaskedLMHead,
    NextSentenceHead,
    RowsAt,
    SelfAttention,
    TokenPooling,
    TransformerLayer,
    WeightedSum,
)
from bert_tf.models import (
    MODEL_KINDS,
    BertBackbone,
    BertBiLSTMEncoder,
    BertFeatureTagger,
    BertMaskedLM,
    BertMultipleChoice,
    BertPretrainer,
    BertProbe,
    BertSpanPredictor,
    BertTextClassifier,
    BertTokenClassifier,
    BiLSTMTagger,
)
from tests.support.layers.contract import CHECKS, Contract, run_layer_contract

B, S, P, H, V, L, D = 3, 7, 2, 8, 20, 4, 5
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
LAYERS = RNG.normal(size=(B, S, L, H)).astype("float32")
PADDING = {"padding_mask": MASK}

# Weights: three tables and a layer normalization; a layer of 4 projections, 2 dense, 2 normalizations.
EMBEDDINGS = (5, (V + 9 + 2 + 2) * H)
LAYER = (16, 4 * (H * H + H) + 2 * H * 12 + 12 + H + 4 * H)
BACKBONE = (5 + 2 * 16 + 2, EMBEDDINGS[1] + 2 * LAYER[1] + H * H + H)
# Without the pooler, which token-level models do not use.
BARE = (BACKBONE[0] - 2, BACKBONE[1] - H * H - H)
# Forward and backward, each with kernel, recurrent kernel and bias of four gates.
BILSTM = (6, 2 * 4 * D * (H + D + 1))
TAGGER = (2 * 6, BILSTM[1] + 2 * 4 * D * (2 * D + D + 1))
TRANSFORM = (5, H * H + H + 2 * H + V)


def embedding(dtype):
    # The weights of the encoder are float32 under mixed policies.
    return keras.layers.Embedding(V, H, name="token_embedding")


def backbone(dtype):
    return BertBackbone(CONFIG, dtype=dtype)


def bare(dtype):
    return BertBackbone(replace(CONFIG, pooler=False), dtype=dtype)


CONTRACTS = {
    "LayerNormalization": Contract(
        lambda dtype: LayerNormalization(epsilon=1e-12, dtype=dtype),
        inputs=SEQUENCE,
        output_shape=(B, S, H),
        weights=(2, 2 * H),
    ),
    "SelfAttention": Contract(
        lambda dtype: SelfAttention(2, dropout=0.2, dtype=dtype),
        inputs=SEQUENCE | PADDING,
        output_shape=(B, S, H),
        weights=(8, 4 * (H * H + H)),
        still=("key/bias",),
    ),
    "TransformerLayer": Contract(
        lambda dtype: TransformerLayer(2, 12, dropout=0.2, dtype=dtype),
        inputs=SEQUENCE | PADDING,
        output_shape=(B, S, H),
        weights=LAYER,
        still=("key/bias",),
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
    "RowsAt": Contract(
        lambda dtype: RowsAt(dtype=dtype),
        inputs={"sequence": SEQUENCE["sequence_output"], "positions": POSITIONS["mask_positions"]},
        output_shape=(B, P, H),
        weights=(0, 0),
    ),
    "TokenPooling": Contract(
        lambda dtype: TokenPooling("max", dtype=dtype),
        inputs=SEQUENCE | {"padding_mask": MASK},
        output_shape=(B, H),
        weights=(0, 0),
    ),
    "WeightedSum": Contract(
        lambda dtype: WeightedSum(dtype=dtype),
        inputs={"layers": LAYERS},
        output_shape=(B, S, H),
        weights=(2, L + 1),
    ),
    "BiLSTM": Contract(
        lambda dtype: BiLSTM(D, num_layers=2, dropout=0.2, dtype=dtype),
        inputs=SEQUENCE | {"padding_mask": MASK},
        output_shape=((B, S, 2 * D), (B, 2 * D)),
        weights=TAGGER,
        output_dtypes=("bfloat16", "bfloat16"),
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
        # A constant added to all keys shifts all scores equally, which does not change the softmax.
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
    "BertMaskedLM": Contract(
        lambda dtype: BertMaskedLM(bare(dtype)),
        inputs=ENCODER | POSITIONS,
        output_shape=(B, P, V),
        weights=(BARE[0] + TRANSFORM[0], BARE[1] + TRANSFORM[1]),
        still=("key/bias",),
        output_dtypes=("float32",),
    ),
    "BertTextClassifier": Contract(
        lambda dtype: BertTextClassifier(backbone(dtype), num_classes=5, dropout=0.2),
        inputs=ENCODER,
        output_shape=(B, 5),
        weights=(BACKBONE[0] + 2, BACKBONE[1] + 5 * H + 5),
        still=("key/bias",),
        output_dtypes=("float32",),
    ),
    "BertTokenClassifier": Contract(
        lambda dtype: BertTokenClassifier(bare(dtype), num_classes=5, dropout=0.2),
        inputs=ENCODER,
        output_shape=(B, S, 5),
        weights=(BARE[0] + 2, BARE[1] + 5 * H + 5),
        still=("key/bias",),
        output_dtypes=("float32",),
    ),
    "BertSpanPredictor": Contract(
        lambda dtype: BertSpanPredictor(bare(dtype)),
        inputs=ENCODER,
        output_shape={"start_logits": (B, S), "end_logits": (B, S)},
        weights=(BARE[0] + 2, BARE[1] + 2 * H + 2),
        still=("key/bias",),
        output_dtypes=("float32", "float32"),
    ),
    "BertMultipleChoice": Contract(
        lambda dtype: BertMultipleChoice(backbone(dtype), dropout=0.2),
        inputs={name: np.stack([ids, ids[:, ::-1]], axis=1) for name, ids in ENCODER.items()},
        output_shape=(B, 2),
        weights=(BACKBONE[0] + 2, BACKBONE[1] + H + 1),
        still=("key/bias",),
        output_dtypes=("float32",),
    ),
    "BiLSTMTagger": Contract(
        lambda dtype: BiLSTMTagger(5, L, H, "weighted_sum", bilstm_dim=D, dropout=0.2, dtype=dtype),
        inputs={"features": LAYERS.astype("float16"), "padding_mask": MASK},
        output_shape=(B, S, 5),
        weights=(TAGGER[0] + 2 + 2, TAGGER[1] + L + 1 + 5 * 2 * D + 5),
        output_dtypes=("float32",),
    ),
    "BertFeatureTagger": Contract(
        lambda dtype: BertFeatureTagger(bare(dtype), 5, "second_to_last", bilstm_dim=D, dropout=0.2),
        inputs=ENCODER,
        output_shape=(B, S, 5),
        weights=(BARE[0] + TAGGER[0] + 2, BARE[1] + TAGGER[1] + 5 * 2 * D + 5),
        output_dtypes=("float32",),
    ),
    "BertProbe": Contract(
        lambda dtype: BertProbe(bare(dtype), 3, "layer_1", pooling="mean"),
        inputs=ENCODER,
        output_shape=(B, 3),
        weights=(BARE[0] + 2, BARE[1] + 3 * H + 3),
        output_dtypes=("float32",),
    ),
    "BertBiLSTMEncoder": Contract(
        lambda dtype: BertBiLSTMEncoder(bare(dtype), D),
        inputs=ENCODER,
        output_shape={"sequence_output": (B, S, 2 * D), "pooled_output": (B, 2 * D)},
        weights=(BARE[0] + BILSTM[0], BARE[1] + BILSTM[1]),
        still=("key/bias",),
        output_dtypes=("bfloat16", "bfloat16"),
    ),
}

# ModernBERT's encoder without segments and pooler, whose heads begin with a dense layer and a normalization without
# biases. Weights: a table; a layer of 4 projections, 2 dense, 2 normalizations, of which the first layer has one; the
# normalizations of the embeddings and of the output.
MODERN = CONFIG.with_changes(body="modern", num_segments=0, pooler=False, intermediate_dim=12, local_attention=4)
MODERN_LAYER = (8, 4 * H * H + 3 * H * 12 + 2 * H)
MODERN_BODY = (2 + 2 * MODERN_LAYER[0] - 1 + 1, V * H + H + 2 * MODERN_LAYER[1] - H + H)
MODERN_HEAD = (2, H * H + H)


def modern(dtype, **fields):
    return BertBackbone(replace(MODERN, **fields), dtype=dtype)


BODIES = {
    "TransformerLayer": Contract(
        lambda dtype: TransformerLayer(
            2, 12, dropout=0.2, dtype=dtype, normalization_order="pre", feed_forward="gated", use_bias=False,
            normalization_bias=False, rotary_theta=100.0,
        ),
        inputs=SEQUENCE | PADDING,
        output_shape=(B, S, H),
        weights=MODERN_LAYER,
    ),
    "BertBackbone": Contract(
        modern,
        inputs=ENCODER,
        output_shape={"sequence_output": (B, S, H)},
        weights=MODERN_BODY,
        output_dtypes=("bfloat16",),
    ),
    "BertPretrainer": Contract(
        lambda dtype: BertPretrainer(modern(dtype, num_segments=2, pooler=True)),
        inputs=ENCODER | POSITIONS,
        output_shape={"mlm_logits": (B, P, V), "nsp_logits": (B, 2)},
        weights=(
            MODERN_BODY[0] + 1 + 2 + MODERN_HEAD[0] + 1 + 2,
            MODERN_BODY[1] + 2 * H + H * H + H + MODERN_HEAD[1] + V + 2 * H + 2,
        ),
        output_dtypes=("float32", "float32"),
    ),
    "BertTextClassifier": Contract(
        lambda dtype: BertTextClassifier(modern(dtype), num_classes=5, dropout=0.2),
        inputs=ENCODER,
        output_shape=(B, 5),
        weights=(MODERN_BODY[0] + MODERN_HEAD[0] + 2, MODERN_BODY[1] + MODERN_HEAD[1] + 5 * H + 5),
        output_dtypes=("float32",),
    ),
    "BertTokenClassifier": Contract(
        lambda dtype: BertTokenClassifier(modern(dtype), num_classes=5, dropout=0.2),
        inputs=ENCODER,
        output_shape=(B, S, 5),
        weights=(MODERN_BODY[0] + MODERN_HEAD[0] + 2, MODERN_BODY[1] + MODERN_HEAD[1] + 5 * H + 5),
        output_dtypes=("float32",),
    ),
    "BertMultipleChoice": Contract(
        lambda dtype: BertMultipleChoice(modern(dtype), dropout=0.2),
        inputs={name: np.stack([ids, ids[:, ::-1]], axis=1) for name, ids in ENCODER.items()},
        output_shape=(B, 2),
        weights=(MODERN_BODY[0] + MODERN_HEAD[0] + 2, MODERN_BODY[1] + MODERN_HEAD[1] + H + 1),
        output_dtypes=("float32",),
    ),
}  # fmt: skip

# Writing a model takes seconds.
WRITING = ("keras_file", "saved_model")
CASES = [pytest.param(check, marks=pytest.mark.integration) if check in WRITING else check for check in CHECKS]


@pytest.mark.parametrize("check", CASES)
@pytest.mark.parametrize("name", CONTRACTS)
def test_contract(name, check, tmp_path):
    keras.utils.set_random_seed(0)
    run_layer_contract(CONTRACTS[name], check, tmp_path)


@pytest.mark.integration
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", BODIES)
def test_contract_of_other_bodies(name, check, tmp_path):
    keras.utils.set_random_seed(0)
    run_layer_contract(BODIES[name], check, tmp_path)


@pytest.mark.parametrize("package", [bert_tf.layers, bert_tf.models])
def test_every_public_layer_and_model_has_a_contract(package):
    public = {name: getattr(package, name) for name in package.__all__}
    layers = {name for name, item in public.items() if isinstance(item, type) and issubclass(item, keras.layers.Layer)}
    assert layers <= set(CONTRACTS)
    assert layers, "the package has no public layer at all"


def test_every_kind_of_model_is_public_and_has_a_contract():
    assert set(MODEL_KINDS) <= set(CONTRACTS) & set(bert_tf.models.__all__)


@pytest.mark.parametrize("name", CONTRACTS)
def test_layers_are_registered_in_the_package_bert_tf(name):
    assert keras.saving.get_registered_object(f"bert_tf>{name}").__name__ == name

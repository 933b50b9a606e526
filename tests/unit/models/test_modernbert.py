"""The body `modern` computes what transformers' ModernBERT computes (`tests/testdata/make_modernbert.py`)."""

from __future__ import annotations

import re

import keras
import numpy as np
import pytest

from bert_tf.config import BertConfig
from bert_tf.models import (
    BertBackbone,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanPredictor,
    BertTextClassifier,
    BertTokenClassifier,
)
from tests.support.paths import TESTDATA

CONFIG = BertConfig(
    vocabulary_size=60, hidden_dim=32, num_layers=5, num_heads=4, intermediate_dim=48, max_sequence_length=64,
    num_segments=0, pooler=False, body="modern", local_attention=6,
)  # fmt: skip
HEADS = {
    "ModernBertForSequenceClassification": lambda encoder: BertTextClassifier(encoder, num_classes=3),
    "ModernBertForTokenClassification": lambda encoder: BertTokenClassifier(encoder, num_classes=3),
    "ModernBertForQuestionAnswering": BertSpanPredictor,
    "ModernBertForMultipleChoice": BertMultipleChoice,
}
NAMES = {
    "model.embeddings.tok_embeddings.weight": "embeddings/token_embedding/embeddings",
    "model.embeddings.norm.weight": "embeddings/layer_norm/gamma",
    "attn_norm.weight": "self_attention_layer_norm/gamma",
    "attn.Wo.weight": "self_attention_layer/attention_output/kernel",
    "mlp_norm.weight": "feedforward_layer_norm/gamma",
    "mlp.Wi.weight": "feedforward_intermediate_dense/kernel",
    "mlp.Wo.weight": "feedforward_output_dense/kernel",
    "model.final_norm.weight": "final_layer_norm/gamma",
    "decoder.bias": "mlm_logits/output_bias",
    "classifier.weight": "logits/kernel",
    "classifier.bias": "logits/bias",
}
ATTENTION = "self_attention_layer"


@pytest.fixture(scope="module")
def recorded():
    with np.load(TESTDATA / "modernbert.npz") as file:
        return {name: file[name] for name in file.files}


def weights_of(recorded, name, masked_lm):
    """Returns the weights of a class by the paths of our model. torch's kernels are (outputs, inputs)."""
    arrays = {key: value for key, value in recorded.items() if re.match(r"ModernBertForMaskedLM/weights/model\.", key)}
    arrays |= {key: value for key, value in recorded.items() if key.startswith(f"{name}/weights/")}
    found = {}
    for key, value in arrays.items():
        own = key.partition("/weights/")[2]
        layer = re.match(r"model\.layers\.(\d+)\.(.*)", own)
        prefix, own = (f"layer_{int(layer[1]) + 1}/", layer[2]) if layer else ("", own)
        value = value if value.ndim == 1 or own.endswith("tok_embeddings.weight") else value.T
        if own == "attn.Wqkv.weight":
            for part, kernel in zip(("query", "key", "value"), np.split(value, 3, axis=1), strict=True):
                found[f"{prefix}{ATTENTION}/{part}/kernel"] = kernel
        elif own.startswith("head."):
            dense, norm = (
                ("mlm_logits/dense", "mlm_logits/layer_norm") if masked_lm else ("head_dense", "head_layer_norm")
            )
            found[f"{dense}/kernel" if own == "head.dense.weight" else f"{norm}/gamma"] = value
        else:
            found[prefix + NAMES[own]] = value
    return found


def with_weights(model: keras.Model, weights) -> keras.Model:
    assert {variable.path for variable in model.weights} == set(weights)
    for variable in model.weights:
        variable.assign(weights[variable.path].reshape(variable.shape))
    return model


def inputs_of(recorded):
    ids, mask = (recorded[name].astype(np.int32) for name in ("token_ids", "padding_mask"))
    return {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": mask}, mask == 1


def assert_near(found, expected, tokens):
    rows = tokens if expected.shape[:2] == tokens.shape else slice(None)
    largest = np.abs(expected[rows]).max()
    np.testing.assert_allclose(np.asarray(found)[rows], expected[rows], atol=1e-5 * largest, rtol=0)


def test_encoder_and_masked_language_model_equal_transformers(recorded):
    name = "ModernBertForMaskedLM"
    model = BertPretrainer(BertBackbone(CONFIG), next_sentence=False)
    with_weights(model, weights_of(recorded, name, masked_lm=True))
    inputs, tokens = inputs_of(recorded)
    positions = np.tile(np.arange(tokens.shape[1], dtype=np.int32), (len(tokens), 1))
    logits = model(inputs | {"mask_positions": positions})["mlm_logits"]
    assert_near(logits, recorded[f"{name}/outputs/logits"], tokens)
    states = model.backbone.features(model.backbone.layer_outputs)(inputs)
    for number, state in enumerate(states.values()):
        assert_near(state, recorded[f"{name}/outputs/hidden_{number}"], tokens)


@pytest.mark.parametrize("name", HEADS)
def test_heads_of_tasks_equal_transformers(recorded, name):
    model = with_weights(HEADS[name](BertBackbone(CONFIG)), weights_of(recorded, name, masked_lm=False))
    inputs, tokens = inputs_of(recorded)
    if name.endswith("MultipleChoice"):
        inputs = {key: value[:, None] for key, value in inputs.items()}
    found = model(inputs)
    for output, value in found.items() if isinstance(found, dict) else [("logits", found)]:
        assert_near(value, recorded[f"{name}/outputs/{output}"], tokens)

"""BERT in float64 numpy, written from the paper and independent of Keras, and the tiny model under test."""

from __future__ import annotations

import math

import numpy as np

from bert_tf.config import BertConfig

TINY = BertConfig(
    vocabulary_size=50, hidden_dim=16, num_layers=2, num_heads=4, intermediate_dim=40, max_sequence_length=24
)


def random_inputs(seed=0, batch=3, length=12, predictions=4, vocabulary_size=50):
    """Returns the pretrainer's inputs; rows have different lengths, position 0 is always a token."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(predictions, length + 1, size=(batch, 1))
    places = np.arange(length)[None]
    mask = (places < lengths).astype("int32")
    return {
        "token_ids": rng.integers(0, vocabulary_size, size=(batch, length)).astype("int32") * mask,
        "segment_ids": (places >= lengths // 2).astype("int32") * mask,
        "padding_mask": mask,
        "mask_positions": (rng.random((batch, predictions)) * lengths).astype("int32"),
    }


def randomize(model, seed=0):
    """Fills all weights with values large enough that every part of the model shows in its output."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        center = 1.0 if weight.path.endswith("gamma") else 0.0
        weight.assign(center + 0.3 * rng.normal(size=weight.shape))


def reference_forward(model, config, inputs):
    """Returns every output of the pretrainer `model`, computed from its weights in float64.

    Keys: `embeddings`, `layer_1`..., `sequence_output`, `pooled_output`, `mlm_logits`, `nsp_logits`.
    """
    weights = {weight.path: np.asarray(weight.value, dtype=np.float64) for weight in model.weights}
    tokens, segments = inputs["token_ids"], inputs["segment_ids"]
    length = tokens.shape[1]
    table = weights["embeddings/token_embedding/embeddings"]
    hidden = (
        table[tokens]
        + weights["embeddings/segment_embedding"][segments]
        + weights["embeddings/position_embedding"][:length]
    )
    hidden = _normalize(hidden, weights, "embeddings/layer_norm", config)
    allowed = np.repeat(inputs["padding_mask"][:, None, :] == 1, length, axis=1)
    if config.attention == "left_to_right":
        allowed &= np.tril(np.ones((length, length), dtype=bool))
    outputs = {"embeddings": hidden}
    for number in range(1, config.num_layers + 1):
        hidden = _layer(hidden, allowed, weights, f"layer_{number}", config)
        outputs[f"layer_{number}"] = hidden
    pooled = np.tanh(_dense(hidden[:, 0], weights, "pooler"))
    masked = np.stack([row[positions] for row, positions in zip(hidden, inputs["mask_positions"], strict=True)])
    masked = _activation(config.activation)(_dense(masked, weights, "mlm_logits/dense"))
    masked = _normalize(masked, weights, "mlm_logits/layer_norm", config)
    return outputs | {
        "sequence_output": hidden,
        "pooled_output": pooled,
        "mlm_logits": masked @ table.T + weights["mlm_logits/output_bias"],
        "nsp_logits": _dense(pooled, weights, "nsp_logits/dense"),
    }


def _layer(hidden, allowed, weights, name, config):
    def project(part):
        prefix = f"{name}/self_attention_layer/{part}"
        return np.einsum("bsh,hnd->bnsd", hidden, weights[f"{prefix}/kernel"]) + weights[f"{prefix}/bias"][:, None]

    query, key, value = project("query"), project("key"), project("value")
    scores = np.einsum("bnqd,bnkd->bnqk", query, key) / math.sqrt(config.hidden_dim // config.num_heads)
    scores = np.where(allowed[:, None], scores, -np.inf)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    context = np.einsum("bnqk,bnkd->bnqd", scores / scores.sum(axis=-1, keepdims=True), value)
    output = f"{name}/self_attention_layer/attention_output"
    attended = np.einsum("bnqd,ndh->bqh", context, weights[f"{output}/kernel"]) + weights[f"{output}/bias"]
    hidden = _normalize(hidden + attended, weights, f"{name}/self_attention_layer_norm", config)
    wide = _activation(config.activation)(_dense(hidden, weights, f"{name}/feedforward_intermediate_dense"))
    narrow = _dense(wide, weights, f"{name}/feedforward_output_dense")
    return _normalize(hidden + narrow, weights, f"{name}/feedforward_layer_norm", config)


def _dense(inputs, weights, name):
    return inputs @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]


def _normalize(inputs, weights, name, config):
    centered = inputs - inputs.mean(axis=-1, keepdims=True)
    variance = (centered**2).mean(axis=-1, keepdims=True)
    scaled = centered / np.sqrt(variance + config.layer_norm_epsilon)
    return scaled * weights[f"{name}/gamma"] + weights[f"{name}/beta"]


def _activation(name):
    return {
        "gelu_approximate": lambda x: 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
        "gelu": lambda x: 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0))),
        "relu": lambda x: np.maximum(x, 0.0),
        "tanh": np.tanh,
    }[name]

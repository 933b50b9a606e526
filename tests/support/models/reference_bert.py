"""BERT and ModernBERT in float64 numpy, written from the papers and independent of Keras, and tiny models to test."""

from __future__ import annotations

import math

import numpy as np

from bert_tf.config import BertConfig

TINY = BertConfig(
    vocabulary_size=50, hidden_dim=16, num_layers=2, num_heads=4, intermediate_dim=40, max_sequence_length=24
)
# Bodies by name: whole ones, and each option alone.
BODIES = {
    "modern": {"body": "modern", "num_layers": 4, "local_attention": 4},
    "modern_without_segments": {"body": "modern", "num_segments": 0, "mlm_activation": "relu"},
    "rotary": {"positions": "rotary"},
    "pre": {"normalization_order": "pre", "final_norm": True},
    "pre_without_embedding_norm": {"normalization_order": "pre", "embedding_norm": False},
    "gated": {"feed_forward": "gated"},
    "no_biases": {"biases": False},
    "no_beta": {"normalization_bias": False},
    "no_embedding_norm": {"embedding_norm": False},
    "final_norm": {"final_norm": True},
    "local": {"global_attention_every": 2, "local_attention": 5},
    "local_rotary": {"positions": "rotary", "global_attention_every": 2, "local_rotary_theta": 100.0},
}


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


def reference_forward(model, config, inputs, attentions=None):
    """Returns every output of the pretrainer `model`, computed from its weights in float64.

    Keys: `embeddings`, `layer_1`..., `sequence_output`, `pooled_output`, `mlm_logits`, `nsp_logits`. The attention
    weights of each layer are added to the dictionary `attentions`.
    """
    attentions = {} if attentions is None else attentions
    weights = {weight.path: np.asarray(weight.value, dtype=np.float64) for weight in model.weights}
    tokens, segments = inputs["token_ids"], inputs["segment_ids"]
    length = tokens.shape[1]
    table = weights["embeddings/token_embedding/embeddings"]
    hidden = table[tokens]
    if config.num_segments:
        hidden = hidden + weights["embeddings/segment_embedding"][segments]
    if config.positions == "learned":
        hidden = hidden + weights["embeddings/position_embedding"][:length]
    if config.embedding_norm:
        hidden = _normalize(hidden, weights, "embeddings/layer_norm", config)
    allowed = np.repeat(inputs["padding_mask"][:, None, :] == 1, length, axis=1)
    if config.attention == "left_to_right":
        allowed &= np.tril(np.ones((length, length), dtype=bool))
    outputs = {"embeddings": hidden}
    for number in range(1, config.num_layers + 1):
        hidden, attentions[f"layer_{number}"] = _layer(hidden, allowed, weights, number, config)
        if number == config.num_layers and config.final_norm:
            hidden = _normalize(hidden, weights, "final_layer_norm", config)
        outputs[f"layer_{number}"] = hidden
    pooled = np.tanh(_dense(hidden[:, 0], weights, "pooler"))
    masked = np.stack([row[positions] for row, positions in zip(hidden, inputs["mask_positions"], strict=True)])
    activation = config.mlm_activation or config.activation
    masked = _activation(activation)(_dense(masked, weights, "mlm_logits/dense"))
    masked = _normalize(masked, weights, "mlm_logits/layer_norm", config)
    return outputs | {
        "sequence_output": hidden,
        "pooled_output": pooled,
        "mlm_logits": masked @ table.T + weights["mlm_logits/output_bias"],
        "nsp_logits": _dense(pooled, weights, "nsp_logits/dense"),
    }


def _layer(hidden, allowed, weights, number, config):
    name, is_pre, length = f"layer_{number}", config.normalization_order == "pre", hidden.shape[1]
    theta, distance = config.rotary_theta, np.abs(np.arange(length)[:, None] - np.arange(length))
    if (number - 1) % config.global_attention_every:
        theta, allowed = config.local_rotary_theta, allowed & (distance <= config.local_attention // 2)
    skips = number == 1 and config.embedding_norm
    read = hidden
    if is_pre and not skips:
        read = _normalize(hidden, weights, f"{name}/self_attention_layer_norm", config)

    def project(part):
        prefix = f"{name}/self_attention_layer/{part}"
        bias = weights[f"{prefix}/bias"][:, None] if config.biases else 0.0
        return np.einsum("bsh,hnd->bnsd", read, weights[f"{prefix}/kernel"]) + bias

    query, key, value = project("query"), project("key"), project("value")
    if config.positions == "rotary":
        query, key = _rotated(query, theta), _rotated(key, theta)
    scores = np.einsum("bnqd,bnkd->bnqk", query, key) / math.sqrt(config.hidden_dim // config.num_heads)
    # Finite, because a window at padding may hold no token.
    scores = np.where(allowed[:, None], scores, -1e9)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    attention = scores / scores.sum(axis=-1, keepdims=True)
    context = np.einsum("bnqk,bnkd->bnqd", attention, value)
    output = f"{name}/self_attention_layer/attention_output"
    attended = np.einsum("bnqd,ndh->bqh", context, weights[f"{output}/kernel"])
    hidden = hidden + attended + weights.get(f"{output}/bias", 0.0)
    if not is_pre:
        hidden = _normalize(hidden, weights, f"{name}/self_attention_layer_norm", config)
    read = _normalize(hidden, weights, f"{name}/feedforward_layer_norm", config) if is_pre else hidden
    wide = _dense(read, weights, f"{name}/feedforward_intermediate_dense")
    activation = _activation(config.activation)
    if config.feed_forward == "gated":
        half = wide.shape[-1] // 2
        wide = activation(wide[..., :half]) * wide[..., half:]
    else:
        wide = activation(wide)
    hidden = hidden + _dense(wide, weights, f"{name}/feedforward_output_dense")
    return hidden if is_pre else _normalize(hidden, weights, f"{name}/feedforward_layer_norm", config), attention


def _rotated(heads, theta):
    """Multiplies the numbers x_i + x_{i + D/2} j of heads (B, N, S, D) by e ** (position * theta ** (-2 i / D) j)."""
    length, half = heads.shape[2], heads.shape[3] // 2
    numbers = heads[..., :half] + 1j * heads[..., half:]
    turned = numbers * np.exp(1j * np.arange(length)[:, None] * theta ** (-np.arange(half) / half))
    return np.concatenate([turned.real, turned.imag], axis=-1)


def _dense(inputs, weights, name):
    return inputs @ weights[f"{name}/kernel"] + weights.get(f"{name}/bias", 0.0)


def _normalize(inputs, weights, name, config):
    centered = inputs - inputs.mean(axis=-1, keepdims=True)
    variance = (centered**2).mean(axis=-1, keepdims=True)
    scaled = centered / np.sqrt(variance + config.layer_norm_epsilon)
    return scaled * weights[f"{name}/gamma"] + weights.get(f"{name}/beta", 0.0)


def _activation(name):
    return {
        "gelu_approximate": lambda x: 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
        "gelu": lambda x: 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0))),
        "relu": lambda x: np.maximum(x, 0.0),
        "tanh": np.tanh,
    }[name]

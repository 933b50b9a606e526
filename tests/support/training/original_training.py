"""Pre-training as published in google-research/bert, in float64 and without Keras layers or optimizers.

`modeling.py`, `run_pretraining.py` (`get_masked_lm_output`, `get_next_sentence_output`) and `optimization.py`
(`create_optimizer`, `AdamWeightDecayOptimizer`), with dropout off; gradients by TensorFlow's tape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from bert_tf.data.schema import MASK_POSITIONS, MLM_LOGITS, NSP_LOGITS, PADDING_MASK, SEGMENT_IDS, TOKEN_IDS

Weights = Mapping[str, tf.Variable]


@dataclass(frozen=True)
class Settings:
    layers: int
    heads: int
    peak: float
    warmup: int
    steps: int
    decay: float = 0.01
    clip: float = 1.0


def total_loss(w: Weights, settings: Settings, inputs, targets, weights) -> tf.Tensor:
    hidden = _embedded(w, inputs)
    bias = (1.0 - tf.cast(inputs[PADDING_MASK], tf.float64))[:, None, None, :] * -10000.0
    for number in range(1, settings.layers + 1):
        hidden = _layer(w, f"layer_{number}", hidden, bias, settings.heads)
    masked = tf.gather(hidden, inputs[MASK_POSITIONS], batch_dims=1)
    masked = _normalized(w, "mlm_logits/layer_norm", _gelu(_dense(w, "mlm_logits/dense", masked)))
    table = w["embeddings/token_embedding/embeddings"]
    logits = tf.matmul(masked, table, transpose_b=True) + w["mlm_logits/output_bias"]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets[MLM_LOGITS], logits)
    mask = tf.cast(weights[MLM_LOGITS], tf.float64)
    masked_lm = tf.reduce_sum(losses * mask) / (tf.reduce_sum(mask) + 1e-5)
    pooled = tf.tanh(_dense(w, "pooler", hidden[:, 0]))
    pairs = _dense(w, "nsp_logits/dense", pooled)
    return masked_lm + tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(targets[NSP_LOGITS], pairs))


class AdamWeightDecay:
    """No bias correction; the rate is 0 in the first step and falls over all steps, warm-up included."""

    def __init__(self, weights: Weights, settings: Settings) -> None:
        self._settings = settings
        self._moments = {name: (np.zeros(v.shape), np.zeros(v.shape)) for name, v in weights.items()}
        self.global_step = 0

    def apply(self, weights: Weights, gradients: Mapping[str, np.ndarray]) -> None:
        it, step = self._settings, self.global_step
        rate = it.peak * (step / it.warmup if step < it.warmup else 1 - step / it.steps)
        norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
        for name, gradient in gradients.items():
            g = gradient * it.clip / max(norm, it.clip)
            m, v = self._moments[name]
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            self._moments[name] = m, v
            update = m / (np.sqrt(v) + 1e-6)
            if not any(part in name for part in ("layer_norm", "bias")):
                update = update + it.decay * weights[name].numpy()
            weights[name].assign_sub(rate * update)
        self.global_step += 1


def _embedded(w: Weights, inputs) -> tf.Tensor:
    tokens = tf.gather(w["embeddings/token_embedding/embeddings"], inputs[TOKEN_IDS])
    segments = tf.gather(w["embeddings/segment_embedding"], inputs[SEGMENT_IDS])
    positions = w["embeddings/position_embedding"][: tokens.shape[1]]
    return _normalized(w, "embeddings/layer_norm", tokens + segments + positions)


def _layer(w: Weights, name: str, hidden: tf.Tensor, bias: tf.Tensor, heads: int) -> tf.Tensor:
    batch, length, width = hidden.shape
    size = width // heads

    def projected(which: str) -> tf.Tensor:
        kernel = tf.reshape(w[f"{name}/self_attention_layer/{which}/kernel"], (width, width))
        flat = tf.matmul(tf.reshape(hidden, (-1, width)), kernel)
        flat += tf.reshape(w[f"{name}/self_attention_layer/{which}/bias"], (width,))
        return tf.transpose(tf.reshape(flat, (batch, length, heads, size)), (0, 2, 1, 3))

    scores = tf.matmul(projected("query"), projected("key"), transpose_b=True) / np.sqrt(size) + bias
    context = tf.transpose(tf.matmul(tf.nn.softmax(scores), projected("value")), (0, 2, 1, 3))
    kernel = tf.reshape(w[f"{name}/self_attention_layer/attention_output/kernel"], (width, width))
    attended = tf.matmul(tf.reshape(context, (-1, width)), kernel)
    attended = tf.reshape(attended, hidden.shape) + w[f"{name}/self_attention_layer/attention_output/bias"]
    hidden = _normalized(w, f"{name}/self_attention_layer_norm", hidden + attended)
    inner = _gelu(_dense(w, f"{name}/feedforward_intermediate_dense", hidden))
    outer = _dense(w, f"{name}/feedforward_output_dense", inner)
    return _normalized(w, f"{name}/feedforward_layer_norm", hidden + outer)


def _dense(w: Weights, name: str, values: tf.Tensor) -> tf.Tensor:
    return tf.tensordot(values, w[f"{name}/kernel"], 1) + w[f"{name}/bias"]


def _normalized(w: Weights, name: str, values: tf.Tensor) -> tf.Tensor:
    mean, variance = tf.nn.moments(values, [-1], keepdims=True)
    return (values - mean) / tf.sqrt(variance + 1e-12) * w[f"{name}/gamma"] + w[f"{name}/beta"]


def _gelu(x: tf.Tensor) -> tf.Tensor:
    return x * 0.5 * (1.0 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

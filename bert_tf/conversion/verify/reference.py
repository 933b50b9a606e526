"""A numpy implementation of the encoder and its heads that reads a checkpoint's tensors directly.

It shares no code with the models. Shape legend: B batch, S sequence, P predictions, H hidden, N heads, D = H / N.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import erf, softmax

from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.tensors import MLM_BIAS, TASK_PREFIXES, WORD_EMBEDDINGS

_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "gelu": lambda x: x * 0.5 * (1.0 + erf(x / np.sqrt(2.0).astype(x.dtype))),
    "gelu_approximate": lambda x: (
        x * 0.5 * (1.0 + np.tanh(np.sqrt(2.0 / np.pi).astype(x.dtype) * (x + 0.044715 * x**3)))
    ),
    "relu": lambda x: np.maximum(x, 0.0),
    "tanh": np.tanh,
}
_NEVER = np.float32(-1e9)


def reference_outputs(checkpoint: Checkpoint, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Computes the outputs of a checkpoint in float32 for the inputs of `probe_inputs.fixed_inputs`.

    These are `sequence_output` (B, S, H), and the outputs of the heads that exist: `pooled_output` (B, H), `mlm_logits`
    (B, P, V), `nsp_logits` (B, 2) and `task_logits` (B, C), or (B, S, C) for a task about tokens.
    """
    return _Forward(checkpoint).outputs(inputs)


class _Forward:
    def __init__(self, checkpoint: Checkpoint) -> None:
        self._array, self._names = checkpoint.array, checkpoint.tensors.keys()
        self._config, self._heads, self._pooling = checkpoint.config, checkpoint.heads, checkpoint.pooling
        self._activation = _ACTIVATIONS[checkpoint.config.activation]

    def outputs(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        sequence = self._encoder(inputs)
        outputs = {"sequence_output": sequence}
        if self._config.pooler:
            outputs["pooled_output"] = np.tanh(self._dense("bert/pooler/dense", sequence[:, 0]))
        if self._heads.masked_lm:
            rows = np.take_along_axis(sequence, inputs["mask_positions"][..., np.newaxis], axis=1)
            hidden = self._transformed("cls/predictions/transform/", rows, *self._config.mlm_head)
            outputs["mlm_logits"] = hidden @ self._array(WORD_EMBEDDINGS).T + self._array(MLM_BIAS)
        if self._heads.next_sentence:
            outputs["nsp_logits"] = self._scores("cls/seq_relationship/", outputs["pooled_output"])
        if self._heads.task:
            tokens = self._heads.task in ("token_classification", "question_answering")
            if self._config.heads_need_pooler:
                features = sequence if tokens else outputs["pooled_output"]
            else:
                features = sequence if tokens else self._pooled(sequence, inputs["padding_mask"])
                activation, epsilon = self._config.activation, self._config.layer_norm_epsilon
                features = self._transformed("cls/head/", features, activation, epsilon)
            outputs["task_logits"] = self._scores(TASK_PREFIXES[self._heads.task], features)
        return outputs

    def _encoder(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        length = inputs["token_ids"].shape[1]
        config = self._config
        hidden = self._array(WORD_EMBEDDINGS)[inputs["token_ids"]]
        if config.num_segments:
            hidden = hidden + self._array("bert/embeddings/token_type_embeddings")[inputs["segment_ids"]]
        if config.positions == "learned":
            hidden = hidden + self._array("bert/embeddings/position_embeddings")[:length]
        if config.embedding_norm:
            hidden = self._normalized("bert/embeddings/LayerNorm", hidden)
        seen = inputs["padding_mask"][:, np.newaxis, np.newaxis, :] != 0
        if self._config.attention == "left_to_right":
            seen = seen & np.tril(np.ones((length, length), np.bool_))
        distance = np.abs(np.arange(length)[:, np.newaxis] - np.arange(length))
        for number in range(config.num_layers):
            near = seen if config.sees_all(number + 1) else seen & (distance <= config.local_attention // 2)
            hidden = self._layer(number, hidden, np.where(near, np.float32(0), _NEVER))
        return self._normalized("bert/encoder/LayerNorm", hidden) if config.final_norm else hidden

    def _layer(self, number: int, hidden: np.ndarray, mask: np.ndarray) -> np.ndarray:
        config, name = self._config, f"bert/encoder/layer_{number}"
        is_pre = config.normalization_order == "pre"
        read = hidden
        if is_pre and (number or not config.skips_first_norm):
            read = self._normalized(f"{name}/attention/output/LayerNorm", hidden)
        query, key, value = (
            self._by_head(self._dense(f"{name}/attention/self/{part}", read)) for part in ("query", "key", "value")
        )
        if config.positions == "rotary":
            theta = config.rotary_theta if config.sees_all(number + 1) else config.local_rotary_theta
            query, key = _rotated(query, theta), _rotated(key, theta)
        scale = np.float32(1.0 / np.sqrt(query.shape[-1]))
        weights = softmax(query @ key.swapaxes(2, 3) * scale + mask, axis=-1)
        attended = (weights @ value).swapaxes(1, 2).reshape(hidden.shape)
        attended = self._dense(f"{name}/attention/output/dense", attended)
        hidden = hidden + attended
        if not is_pre:
            hidden = self._normalized(f"{name}/attention/output/LayerNorm", hidden)
        read = self._normalized(f"{name}/output/LayerNorm", hidden) if is_pre else hidden
        inner = self._dense(f"{name}/intermediate/dense", read)
        if config.feed_forward == "gated":
            values, gates = np.split(inner, 2, axis=-1)
            inner = self._activation(values) * gates
        else:
            inner = self._activation(inner)
        hidden = hidden + self._dense(f"{name}/output/dense", inner)
        return hidden if is_pre else self._normalized(f"{name}/output/LayerNorm", hidden)

    def _pooled(self, sequence: np.ndarray, mask: np.ndarray) -> np.ndarray:
        if self._pooling == "first":
            return sequence[:, 0]
        return np.sum(sequence * mask[..., np.newaxis], axis=1, dtype=sequence.dtype) / mask.sum(axis=1, keepdims=True)

    def _transformed(self, prefix: str, rows: np.ndarray, activation: str, epsilon: float) -> np.ndarray:
        hidden = _ACTIVATIONS[activation](self._dense(f"{prefix}dense", rows))
        return self._normalized(f"{prefix}LayerNorm", hidden, epsilon)

    def _by_head(self, rows: np.ndarray) -> np.ndarray:
        batch, length, _ = rows.shape
        return rows.reshape(batch, length, self._config.num_heads, -1).swapaxes(1, 2)

    def _dense(self, name: str, rows: np.ndarray) -> np.ndarray:
        return rows @ self._array(f"{name}/kernel") + self._optional(f"{name}/bias")

    def _optional(self, name: str) -> np.ndarray | np.float32:
        return self._array(name) if name in self._names else np.float32(0)

    def _scores(self, prefix: str, rows: np.ndarray) -> np.ndarray:
        return rows @ self._array(f"{prefix}output_weights").T + self._array(f"{prefix}output_bias")

    def _normalized(self, name: str, rows: np.ndarray, epsilon: float | None = None) -> np.ndarray:
        epsilon = self._config.layer_norm_epsilon if epsilon is None else epsilon
        mean = rows.mean(axis=-1, keepdims=True)
        variance = np.square(rows - mean).mean(axis=-1, keepdims=True)
        scaled = (rows - mean) / np.sqrt(variance + np.float32(epsilon))
        return scaled * self._array(f"{name}/gamma") + self._optional(f"{name}/beta")


def _rotated(heads: np.ndarray, theta: float) -> np.ndarray:
    """Rotates heads (B, N, S, D) by their positions, as complex numbers (arXiv 2104.09864)."""
    half = heads.shape[-1] // 2
    angles = np.arange(heads.shape[2])[:, np.newaxis] * theta ** (-np.arange(half) / half)
    turned = (heads[..., :half] + 1j * heads[..., half:]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], axis=-1).astype(heads.dtype)

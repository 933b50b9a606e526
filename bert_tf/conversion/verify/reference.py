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
        self._array = checkpoint.array
        self._config, self._heads = checkpoint.config, checkpoint.heads
        self._activation = _ACTIVATIONS[checkpoint.config.activation]

    def outputs(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        sequence = self._encoder(inputs)
        outputs = {"sequence_output": sequence}
        if self._config.pooler:
            outputs["pooled_output"] = np.tanh(self._dense("bert/pooler/dense", sequence[:, 0]))
        if self._heads.masked_lm:
            rows = np.take_along_axis(sequence, inputs["mask_positions"][..., np.newaxis], axis=1)
            activation, epsilon = self._config.mlm_head
            hidden = _ACTIVATIONS[activation](self._dense("cls/predictions/transform/dense", rows))
            hidden = self._normalized("cls/predictions/transform/LayerNorm", hidden, epsilon)
            outputs["mlm_logits"] = hidden @ self._array(WORD_EMBEDDINGS).T + self._array(MLM_BIAS)
        if self._heads.next_sentence:
            outputs["nsp_logits"] = self._scores("cls/seq_relationship/", outputs["pooled_output"])
        if self._heads.task:
            tokens = self._heads.task in ("token_classification", "question_answering")
            features = sequence if tokens else outputs["pooled_output"]
            outputs["task_logits"] = self._scores(TASK_PREFIXES[self._heads.task], features)
        return outputs

    def _encoder(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        length = inputs["token_ids"].shape[1]
        hidden = self._array(WORD_EMBEDDINGS)[inputs["token_ids"]]
        hidden = hidden + self._array("bert/embeddings/token_type_embeddings")[inputs["segment_ids"]]
        hidden = hidden + self._array("bert/embeddings/position_embeddings")[:length]
        hidden = self._normalized("bert/embeddings/LayerNorm", hidden)
        seen = inputs["padding_mask"][:, np.newaxis, np.newaxis, :] != 0
        if self._config.attention == "left_to_right":
            seen = seen & np.tril(np.ones((length, length), np.bool_))
        for number in range(self._config.num_layers):
            hidden = self._layer(f"bert/encoder/layer_{number}", hidden, np.where(seen, np.float32(0), _NEVER))
        return hidden

    def _layer(self, name: str, hidden: np.ndarray, mask: np.ndarray) -> np.ndarray:
        query, key, value = (
            self._by_head(self._dense(f"{name}/attention/self/{part}", hidden)) for part in ("query", "key", "value")
        )
        scale = np.float32(1.0 / np.sqrt(query.shape[-1]))
        weights = softmax(query @ key.swapaxes(2, 3) * scale + mask, axis=-1)
        attended = (weights @ value).swapaxes(1, 2).reshape(hidden.shape)
        attended = self._dense(f"{name}/attention/output/dense", attended)
        hidden = self._normalized(f"{name}/attention/output/LayerNorm", hidden + attended)
        inner = self._activation(self._dense(f"{name}/intermediate/dense", hidden))
        return self._normalized(f"{name}/output/LayerNorm", hidden + self._dense(f"{name}/output/dense", inner))

    def _by_head(self, rows: np.ndarray) -> np.ndarray:
        batch, length, _ = rows.shape
        return rows.reshape(batch, length, self._config.num_heads, -1).swapaxes(1, 2)

    def _dense(self, name: str, rows: np.ndarray) -> np.ndarray:
        return rows @ self._array(f"{name}/kernel") + self._array(f"{name}/bias")

    def _scores(self, prefix: str, rows: np.ndarray) -> np.ndarray:
        return rows @ self._array(f"{prefix}output_weights").T + self._array(f"{prefix}output_bias")

    def _normalized(self, name: str, rows: np.ndarray, epsilon: float | None = None) -> np.ndarray:
        epsilon = self._config.layer_norm_epsilon if epsilon is None else epsilon
        mean = rows.mean(axis=-1, keepdims=True)
        variance = np.square(rows - mean).mean(axis=-1, keepdims=True)
        scaled = (rows - mean) / np.sqrt(variance + np.float32(epsilon))
        return scaled * self._array(f"{name}/gamma") + self._array(f"{name}/beta")

"""Embeddings of whole texts: one vector for each text.

Shape legend: N texts, B batch, S sequence, W width.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import keras
import numpy as np
from keras import ops

from bert_tf.config import ConfigError
from bert_tf.config.features import WEIGHTED, combination
from bert_tf.data.schema import PADDING_MASK, SINGLE_OUTPUT
from bert_tf.encoding.inference import outputs_of
from bert_tf.encoding.rows import Model
from bert_tf.encoding.texts import text_rows
from bert_tf.models import BertBackbone, Preset, load_backbone
from bert_tf.models.presets import encoder_of
from bert_tf.text.byte_pairs import tokenizer_of
from bert_tf.text.columns import rows_of
from bert_tf.text.tokenizer import TextTokenizer
from bert_tf.text.vocabulary import Vocabulary
from bert_tf.training.backends import current_backend

VECTORS = ("mean", "cls", "pooler")
# Avoids division by zero; the same as in PyTorch's `normalize`.
_LEAST_LENGTH = 1e-12
# Models and graphs of encoders by pooling and layers: a preset that is passed again is not compiled again.
_COMPILED: WeakKeyDictionary[BertBackbone, dict[tuple[str, str], tuple[keras.Model, Model]]] = WeakKeyDictionary()


def embed(
    texts: Any,
    preset: str | Path | Preset,
    *,
    pooling: str = "mean",
    layers: str = "last",
    normalize: bool = False,
    max_sequence_length: int | None = None,
    batch_size: int | None = None,
) -> np.ndarray:
    """Returns one vector for each text, or one vector for a single text.

    Longer texts are truncated.

    Args:
        texts: the N texts: a list, array, pandas column, tensor or other iterable; or a single string.
        preset: preset directory, run, `RUN@STEP`, or checkpoint of another program (see `load_preset`), or the result
            of `load_backbone` or `load_preset`, which saves loading the weights and compiling the model again.
        pooling: `mean` averages the vectors of all tokens, `cls` takes the vector of [CLS], and `pooler` takes the
            output of the pooler, which pre-training with next sentences trains.
        layers: `last`, `second_to_last`, `concat_last_4`, `embeddings`, or a single layer such as `layer_3`; not for
            `pooler`.
        normalize: whether to divide each vector by its length, so that inner products are cosine similarities.
        max_sequence_length: maximum tokens of a text, with [CLS] and [SEP]; defaults to the model's positions.
        batch_size: maximum number of texts in a batch; by default the free memory determines it.

    Returns:
        Float32 array (N, W), or (W,) for a single string. W is the hidden width, or four times as much for
        `concat_last_4`.

    Raises:
        ConfigError: if the directory is not a preset, an argument is invalid, or a text is missing, with its row.

    Example:
        >>> vectors = bert_tf.embed(["a good film", "dull"], "runs/laptop", normalize=True)
        >>> vectors.shape, bool(np.isclose(vectors[0] @ vectors[0], 1.0))
        ((2, 128), True)
        >>> bert_tf.embed("a good film", "runs/laptop").shape
        (128,)
    """
    rows = rows_of(list(texts) if isinstance(texts, tuple) else texts, ("texts",))
    source = preset if isinstance(preset, Preset) else load_backbone(preset)
    encoder = encoder_of(source.model)
    positions = encoder.config.max_sequence_length
    length = positions if max_sequence_length is None else max_sequence_length
    if not 3 <= length <= positions:
        raise ConfigError(
            f"`max_sequence_length` must be from 3 to {positions}, the model's positions. Received: {length}"
        )
    if batch_size is not None and batch_size < 1:
        raise ConfigError(f"`batch_size` must be at least 1. Received: {batch_size}")
    graphs = _COMPILED.setdefault(encoder, {})
    if (pooling, layers) not in graphs:
        pooled = _pooled(encoder, pooling, layers)
        graphs[pooling, layers] = pooled, current_backend().compile_predict(pooled)
    model, predict = graphs[pooling, layers]
    if not rows:
        return np.zeros((0, model.output.shape[-1]), np.float32)
    encoded = text_rows(rows, _tokenizer(source.vocabulary, source.lowercase), length)
    vectors = outputs_of(predict, encoded, encoder.config, by_token=False, batch_size=batch_size)[SINGLE_OUTPUT]
    if normalize:
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _LEAST_LENGTH)
    return vectors[0] if isinstance(texts, str | bytes) else vectors


@functools.lru_cache(maxsize=2)
def _tokenizer(vocabulary: Vocabulary, lowercase: bool) -> TextTokenizer:
    return tokenizer_of(vocabulary, lowercase)


def _pooled(encoder: BertBackbone, pooling: str, layers: str) -> keras.Model:
    """Returns a model from the encoder's inputs to vectors (B, W) float32."""
    if pooling not in VECTORS:
        raise ConfigError(f"`pooling` must be one of {', '.join(VECTORS)}. Received: {pooling!r}")
    chosen = combination(layers, encoder.config.num_layers)
    if chosen.way == WEIGHTED:
        raise ConfigError(f"`layers` must not be a weighted sum, whose weights a task trains. Received: {layers!r}")
    if pooling == "pooler":
        if not encoder.config.pooler or layers != "last":
            raise ConfigError(
                "`pooling='pooler'` needs an encoder with a pooler and `layers='last'`. "
                f"Received: pooler={encoder.config.pooler} and layers={layers!r}. Use `pooling='mean'`."
            )
        return keras.Model(encoder.input, ops.cast(encoder.output["pooled_output"], "float32"))
    hidden = ops.concatenate([ops.cast(encoder.layer_outputs[name], "float32") for name in chosen.layers], axis=-1)
    if pooling == "cls":
        return keras.Model(encoder.input, hidden[:, 0])
    mask = ops.cast(ops.expand_dims(encoder.input[PADDING_MASK], -1), "float32")
    return keras.Model(encoder.input, ops.sum(hidden * mask, axis=1) / ops.sum(mask, axis=1))

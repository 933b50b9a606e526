"""Attention weights of a model for one or two texts, and their HTML page: all heads, and each head token by token.

Square roots of the weights are quantized to one byte each, so that small weights remain distinguishable.

Shape legend: L layers, N heads, S tokens.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bert_tf.data.schema import SEGMENT_IDS, TOKEN_IDS
from bert_tf.entry.amounts import plural
from bert_tf.models import load_backbone
from bert_tf.reports.page import render, write_page
from bert_tf.reports.text import cut, shown
from bert_tf.text.byte_pairs import tokenizer_of
from bert_tf.text.packing import pack
from bert_tf.text.vocabulary import SPECIAL_TOKENS

# With more tokens the page has many megabytes.
DEFAULT_LENGTH = 128


@dataclass(frozen=True)
class AttentionView:
    """Attention weights of all heads, float32 (L, N, S, S): of each token (third axis) over all tokens (fourth axis).

    The S tokens include [CLS] and [SEP]; `segments` are their segment ids. `left_out` tokens were truncated.
    """

    tokens: tuple[str, ...]
    segments: tuple[int, ...]
    weights: np.ndarray
    left_out: int


def attention_view(preset: str | Path, texts: Sequence[str], length: int | None = None) -> AttentionView:
    """Computes the attention weights of the encoder of a preset for one text or a pair of texts.

    Longer texts are truncated to `length`, including special tokens; it defaults to `DEFAULT_LENGTH` or the model's
    number of positions, whichever is less. Raises ConfigError if the preset cannot be loaded, and ValueError if
    `length` exceeds the model's positions, or `texts` is a pair and the model has one segment.
    """
    loaded = load_backbone(preset)
    positions = loaded.config.max_sequence_length
    length = min(DEFAULT_LENGTH, positions) if length is None else length
    if length > positions:
        raise ValueError(f"`max_seq_length` must not exceed the model's {positions} positions. Received: {length}")
    if len(texts) > loaded.config.most_segments:
        raise ValueError(f"the model accepts at most {loaded.config.num_segments} text. Received: {len(texts)}")
    tokenizer = tokenizer_of(loaded.vocabulary, loaded.lowercase)
    segments = [tokenizer.tokenize([text]).tensor for text in texts]
    inputs = pack(segments, loaded.vocabulary, length)
    ids = inputs[TOKEN_IDS].numpy()[0]
    scores = loaded.model.attentions()({name: values.numpy() for name, values in inputs.items()})
    weights = np.stack([np.asarray(layer)[0] for layer in scores.values()])
    whole = 1 + len(texts) + sum(int(segment.values.shape[0]) for segment in segments)
    return AttentionView(
        tuple(tokenizer.tokens(ids)), tuple(inputs[SEGMENT_IDS].numpy()[0].tolist()), weights, whole - len(ids)
    )


def write_attention_page(path: str | Path, view: AttentionView, model: str) -> None:
    """Writes the page atomically; `model` is the name of the model."""
    write_page(path, attention_page(view, model))


def attention_page(view: AttentionView, model: str) -> str:
    """Renders the page of `write_attention_page`."""
    layers, heads, length, _ = view.weights.shape
    words = " ".join(token for token in view.tokens if token not in SPECIAL_TOKENS).replace(" ##", "")
    return render(
        "attention.html.jinja",
        heading=cut(words, 120),
        lead=cut(f"{model}: {plural(layers, 'layer')} of {plural(heads, 'head')}, {plural(length, 'token')}."),
        left_out=view.left_out,
        data={
            "tokens": [shown(token) for token in view.tokens],
            "special": [token in SPECIAL_TOKENS for token in view.tokens],
            "segments": view.segments,
            "layers": layers,
            "heads": heads,
            "weights": base64.b64encode(quantized(view.weights).tobytes()).decode(),
        },
    )


def quantized(weights: np.ndarray) -> np.ndarray:
    """Quantizes weights in [0, 1] to uint8; `(value / 255)²` restores them with an error of at most 0.004."""
    return np.rint(255 * np.sqrt(np.clip(weights, 0, 1))).astype(np.uint8)

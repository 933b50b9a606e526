"""The attention weights of a model for one or two texts.

Shape legend: L layers, N heads, S tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from bert_tf.data.schema import SEGMENT_IDS, TOKEN_IDS
from bert_tf.models import load_backbone
from bert_tf.text.packing import pack
from bert_tf.text.tokenizer import BertTokenizer

# More tokens make a page of many megabytes.
DEFAULT_LENGTH = 128


@dataclass(frozen=True)
class AttentionView:
    """What every head draws from where.

    Args:
        tokens: the row that the model read: S word pieces, [CLS] and [SEP] among them.
        segments: 0 or 1 of each.
        weights: float32 (L, N, S, S), the share that a token (third axis) draws from each (fourth axis).
        left_out: tokens of the texts for which there was no room.
    """

    tokens: tuple[str, ...]
    segments: tuple[int, ...]
    weights: np.ndarray
    left_out: int


def attention_view(preset: str | Path, texts: Sequence[str], length: int | None = None) -> AttentionView:
    """Returns the weights that the encoder of a preset uses.

    Args:
        preset: a preset of any kind, or the output of a run.
        texts: one, or two that make a pair.
        length: tokens at most, the special ones counted, a longer text is cut; None takes `DEFAULT_LENGTH`, or the
            model's positions where they are fewer.

    Raises:
        ConfigError: as `load_backbone`.
        ValueError: for a length that the model has no positions for, or a pair where it has one segment only.
    """
    loaded = load_backbone(preset)
    positions = loaded.config.max_sequence_length
    length = min(DEFAULT_LENGTH, positions) if length is None else length
    if length > positions:
        raise ValueError(f"`max_seq_length` must not exceed the model's {positions} positions. Received: {length}")
    if len(texts) > loaded.config.num_segments:
        raise ValueError(f"the model takes {loaded.config.num_segments} text. Received: {len(texts)}")
    tokenizer = BertTokenizer(loaded.vocabulary, loaded.lowercase)
    segments = [tf.RaggedTensor.from_row_splits(*tokenizer.tokenize([text])) for text in texts]
    inputs = pack(segments, loaded.vocabulary, length)
    ids = inputs[TOKEN_IDS].numpy()[0]
    scores = loaded.model.attentions()({name: values.numpy() for name, values in inputs.items()})
    weights = np.stack([np.asarray(layer)[0] for layer in scores.values()])
    whole = 1 + len(texts) + sum(int(segment.values.shape[0]) for segment in segments)
    return AttentionView(
        tuple(tokenizer.tokens(ids)), tuple(inputs[SEGMENT_IDS].numpy()[0].tolist()), weights, whole - len(ids)
    )

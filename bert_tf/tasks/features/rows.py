"""Rows whose inputs are features of a frozen encoder, for training and prediction.

Shape legend: N rows, T tokens of all rows, B batch, S sequence, L layers, H hidden.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from bert_tf.config import to_dict
from bert_tf.config.features import Combination
from bert_tf.data.schema import FEATURES, PADDING_MASK
from bert_tf.encoding.rows import Arrays, EncodedRows
from bert_tf.models import BertBackbone
from bert_tf.models.feature_models import pooled_features, token_features
from bert_tf.tasks.features.cache import Extraction, extract

# Fields that do not affect the outputs of layers.
_NO_MATTER = ("pooler", "dropout", "attention_dropout", "initializer_range", "mlm_activation", "mlm_layer_norm_epsilon")
_DIGITS = 16


@dataclass(frozen=True)
class TokenFeatures(EncodedRows):
    """Rows whose inputs are features of their tokens; `layers` has those of each layer, float16 (T, H)."""

    layers: tuple[np.ndarray, ...] = ()

    def inputs(self, rows: np.ndarray, width: int = 0) -> Arrays:
        """Returns `features`, float16 (B, S, L, H), zero for padding, and `padding_mask`, int32 (B, S)."""
        place, mask = self.places(rows, width or self.width(rows))
        features = np.stack([layer[place] for layer in self.layers], axis=2)
        features[~mask] = 0
        return {FEATURES: features, PADDING_MASK: mask.astype(np.int32)}


@dataclass(frozen=True)
class PooledFeatures(EncodedRows):
    """Rows whose inputs are features of whole rows; `layers` has those of each layer, float16 (N, H)."""

    layers: tuple[np.ndarray, ...] = ()

    @property
    def matrix(self) -> np.ndarray:
        """The features of all rows, float32 (N, L H)."""
        return np.concatenate(self.layers, axis=1).astype(np.float32)

    def inputs(self, rows: np.ndarray, width: int = 0) -> Arrays:
        """Returns `features`, float16 (B, L H)."""
        return {FEATURES: np.concatenate([layer[rows] for layer in self.layers], axis=1)}


def with_features(rows: EncodedRows, extraction: Extraction, root: Path) -> TokenFeatures | PooledFeatures:
    """Returns rows with features, computed unless they are cached on disk; rows have one choice each.

    `root` has one subdirectory for each encoder and set of rows. Raises the errors of `cache.extract`.
    """
    source = json.dumps(to_dict(extraction.source(rows)), sort_keys=True)
    folder = extract(extraction, rows, root / hashlib.sha256(source.encode()).hexdigest()[:_DIGITS])
    fields = {field.name: getattr(rows, field.name) for field in dataclasses.fields(EncodedRows)}
    kind = TokenFeatures if extraction.by_token else PooledFeatures
    return kind(**fields, layers=tuple(folder[name] for name in extraction.widths))


def token_extraction(backbone: BertBackbone, layers: Sequence[str]) -> Extraction:
    """Returns the extraction of token features."""

    def build(names: Sequence[str]) -> keras.Model:
        return keras.Model(backbone.input, token_features(backbone, tuple(names)))

    widths = dict.fromkeys(layers, backbone.config.hidden_dim)
    return Extraction(build, widths, True, encoder_fingerprint(backbone), backbone.config)


def pooled_extraction(backbone: BertBackbone, chosen: Combination, pooling: str) -> Extraction:
    """Returns the extraction of row features."""
    outputs = pooled_features(backbone, chosen, pooling)

    def build(names: Sequence[str]) -> keras.Model:
        return keras.Model(backbone.input, {name: outputs[name] for name in names})

    widths = dict.fromkeys(outputs, backbone.config.hidden_dim)
    return Extraction(build, widths, False, encoder_fingerprint(backbone), backbone.config)


def encoder_fingerprint(backbone: BertBackbone) -> str:
    """Returns the SHA-256 of architecture, weights and precision, which determine the outputs of the layers."""
    fields = {name: value for name, value in to_dict(backbone.config).items() if name not in _NO_MATTER}
    fields["dtype"] = backbone.dtype_policy.name
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode())
    for weight in sorted(backbone.weights, key=lambda weight: weight.path):
        if not weight.path.startswith("pooler/"):
            digest.update(weight.path.encode())
            digest.update(keras.ops.convert_to_numpy(weight).astype("<f4").tobytes())
    return digest.hexdigest()

"""Preprocessor of the masked language model.

Shape legend: B batch, S sequence, P predictions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config.data import DataConfig
from bert_tf.data.masking.tokens import mask_rows
from bert_tf.data.randomness import stream_keys
from bert_tf.data.schema import MASK_POSITIONS, PADDING_MASK, TOKEN_IDS
from bert_tf.encoding import batches
from bert_tf.encoding.heads import Head
from bert_tf.encoding.rows import EncodedRows
from bert_tf.models.preprocessors.base import Preprocessor
from bert_tf.models.preprocessors.text import BertTextPreprocessor
from bert_tf.text import columns
from bert_tf.text.tokenizer import TextTokenizer

# Shorter rows are padded: `DataConfig` allows none below.
_LEAST_WIDTH = 8


@keras.saving.register_keras_serializable(package="bert_tf")
class BertMaskedLMPreprocessor(BertTextPreprocessor):
    """Turns texts into inputs of the masked language model, with new masks in every epoch.

    It runs eagerly on any Keras backend, and converts a `tf.data.Dataset` in Python.

    Args:
        tokenizer: the tokenizer, or a mapping of its `vocabulary` (a list of pieces) and `lowercase`.
        sequence_length: maximum tokens of a row, special tokens included; longer texts are truncated.
        masked_lm_prob: share of tokens to predict.
        mask_unit: unit of masking: `piece`, `whole_word` or `span`, as in `DataConfig`.
        seed: seed of the masks, which are a function of the seed, the epoch and the row.
        **kwargs: `truncation`, `padding`, and arguments of `keras.layers.Layer`.

    Call arguments:
        x: texts, or pairs of texts, as in `BertTextPreprocessor`. `[MASK]` stands for a token to predict.
        y: anything but None draws masks and returns targets.

    Returns:
        Dictionary of `token_ids`, `segment_ids` and `padding_mask`, each (B, S) int32, and `mask_positions` (B, P)
        int32: the places of `[MASK]`. With `y`, a tuple of it, the ids of the masked tokens (B, P), and their weights
        (B, P): 1 for a prediction, 0 for an unused place.

    Raises:
        ConfigError: for anything but strings, and values that `DataConfig` rejects.

    Example:
        >>> preprocessor = bert_tf.BertMaskedLMPreprocessor.from_preset("runs/laptop")
        >>> preprocessor(["a [MASK] film"])["mask_positions"].tolist()
        [[2]]
        >>> inputs, targets, weights = preprocessor(["the film was very good and long"], [0])
        >>> weights.tolist()
        [[1.0]]
    """

    by_token: ClassVar[bool] = True
    sequence_default: ClassVar[int] = 512
    keep_mask_token: ClassVar[bool] = True

    def __init__(
        self,
        tokenizer: TextTokenizer | Mapping[str, Any],
        sequence_length: int = 128,
        masked_lm_prob: float = 0.15,
        mask_unit: str = "piece",
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        kwargs.pop("labels", None)
        super().__init__(tokenizer, sequence_length, **kwargs)
        self.masked_lm_prob = masked_lm_prob
        self.mask_unit = mask_unit
        self.seed = seed
        self._masking(max(sequence_length, _LEAST_WIDTH))

    def call(self, x, y=None, sample_weight=None):
        """Returns the model's inputs; with `y`, a tuple of masked inputs, targets and weights."""
        return Preprocessor.call(self, x, y, sample_weight)

    def make_batch(self, rows: EncodedRows, numbers: np.ndarray, width: int, epoch: int) -> batches.Batch:
        """Returns the inputs, targets and weights of some rows; see `Preprocessor.make_batch`."""
        vocabulary = self.tokenizer.vocabulary
        inputs = rows.inputs(numbers, max(width or rows.width(numbers), _LEAST_WIDTH))
        if not rows.targets:
            return (inputs | {MASK_POSITIONS: _mask_positions(inputs[TOKEN_IDS], rows, vocabulary.mask_id)},)
        keys = stream_keys(self.seed, epoch, numbers)
        lengths = inputs[PADDING_MASK].sum(axis=1)
        masked = mask_rows(inputs[TOKEN_IDS], lengths, keys, self._masking(inputs[TOKEN_IDS].shape[1]), vocabulary)
        inputs |= {TOKEN_IDS: masked.token_ids, MASK_POSITIONS: masked.mask_positions}
        return inputs, masked.mask_ids, masked.mask_weights

    def default_targets(self, x: Any) -> Any:
        """Returns placeholders: the targets are drawn for each batch."""
        return np.zeros(columns.rows_in(columns.columns_of(x)[0]), np.int32)

    def adapt_labels(self, y: Any, model: Any) -> None:
        """Does nothing: there are no labels."""

    def mapped(self, dataset: tf.data.Dataset, labelled: bool, training: bool) -> tf.data.Dataset:
        """Returns a dataset of batches of texts as a dataset of model inputs, converted in Python."""
        return Preprocessor.mapped(self, dataset, labelled, training)

    def head(self, model: keras.Model) -> Head | None:
        """Returns None: a preset of the model is one of a pre-trained model."""
        return None

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, with the fingerprint of the tokenizer."""
        return super().get_config() | {name: getattr(self, name) for name in ("masked_lm_prob", "mask_unit", "seed")}

    @classmethod
    def _arguments_of(cls, task: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, Any]:
        return {"task": None}

    def _masking(self, width: int) -> DataConfig:
        predictions = max(1, round(self.masked_lm_prob * width))
        return DataConfig(
            max_seq_length=width,
            max_predictions_per_seq=predictions,
            masked_lm_prob=self.masked_lm_prob,
            mask_unit=self.mask_unit,
            max_ngram=min(3, width),
        )


def _mask_positions(token_ids: np.ndarray, rows: EncodedRows, mask_id: int) -> np.ndarray:
    """Returns the places of the mask token, (B, P) with P its largest number in any row, then 0."""
    of_rows = np.add.reduceat(rows.token_ids == mask_id, rows.row_splits[:-1], dtype=np.int64)
    positions = np.zeros((len(token_ids), max(1, int(of_rows.max(initial=0)))), np.int32)
    for row, ids in enumerate(token_ids):
        places = np.flatnonzero(ids == mask_id)
        positions[row, : len(places)] = places
    return positions

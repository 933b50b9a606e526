"""`classify`: one label for a text, or for a pair of texts."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import TrainingConfig, to_dict
from bert_tf.data.schema import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_tf.models import BertBackbone, BertTextClassifier, Preset, load_backbone, save_preset
from bert_tf.tasks.labelled_text import LabelledText, label_ids, read_tsv
from bert_tf.text.packing import pack
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.training.fit import TrainResult, finetune, weights_sha256

# Lengths are padded up to a multiple, so that a run sees few distinct shapes.
_LENGTH_MULTIPLE = 16
_DEFAULT_LENGTH = 128


@dataclass(frozen=True)
class ClassificationData:
    """Encoded rows: `inputs` (N, S) int32 by input name, padded to the longest; `labels` (N,) int32."""

    inputs: dict[str, np.ndarray]
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all ids and labels."""
        return hashlib.sha256(self.inputs[TOKEN_IDS].tobytes() + self.labels.tobytes()).hexdigest()

    def batches(self, batch_size: int, seed: int, start_step: int = 0) -> tf.data.Dataset:
        """Returns endless shuffled batches of (inputs, labels); the order is a function of (seed, step)."""
        size = len(self)
        per_epoch = math.ceil(size / batch_size)

        def indices(epoch: Any) -> tf.data.Dataset:
            order = tf.random.experimental.stateless_shuffle(tf.range(size), seed=[seed, epoch])
            # The last batch is filled from the epoch's start, so that every batch has one shape.
            return tf.data.Dataset.from_tensor_slices(tf.gather(order, tf.range(per_epoch * batch_size) % size)).batch(
                batch_size, drop_remainder=True
            )

        epochs = tf.data.Dataset.range(start_step // per_epoch, np.iinfo(np.int32).max, output_type=tf.int32)
        return epochs.flat_map(indices).skip(start_step % per_epoch).map(self._rows).prefetch(2)

    def in_order(self, batch_size: int) -> tf.data.Dataset:
        """Returns one pass of (inputs, labels) in file order; the last batch may be smaller."""
        return tf.data.Dataset.range(len(self)).batch(batch_size).map(self._rows).prefetch(2)

    def _rows(self, index: Any) -> tuple[dict[str, Any], Any]:
        inputs = {name: tf.gather(values, index) for name, values in self.inputs.items()}
        return inputs, tf.gather(self.labels, index)


def encode(
    rows: LabelledText, labels: Sequence[int], tokenizer: BertTokenizer, max_sequence_length: int
) -> ClassificationData:
    """Tokenizes and packs `rows`.

    Args:
        rows: the texts.
        labels: one label index a row.
        tokenizer: the preset's.
        max_sequence_length: tokens kept of a row, [CLS] and [SEP] included.
    """
    segments = [tf.RaggedTensor.from_row_splits(*tokenizer.tokenize(column)) for column in rows.columns]
    packed = pack(segments, tokenizer.vocabulary, max_sequence_length)
    length = packed[TOKEN_IDS].shape[1]
    padded = min(max_sequence_length, math.ceil(length / _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE)
    fill = {TOKEN_IDS: tokenizer.vocabulary.pad_id, SEGMENT_IDS: 0, PADDING_MASK: 0}
    inputs = {
        name: np.pad(values.numpy(), ((0, 0), (0, padded - length)), constant_values=fill[name])
        for name, values in packed.items()
    }
    return ClassificationData(inputs, np.asarray(labels, np.int32))


@dataclass(frozen=True)
class ClassifyTask:
    """Where the rows are, and how they are read.

    Args:
        data: folder with `train.tsv` and `dev.tsv`, each with a header line.
        text_columns: one name, or two for pairs.
        label_column: name of the label's column.
        max_sequence_length: tokens kept of a row; None takes 128, or the model's positions where they are fewer.
    """

    data: Path
    text_columns: tuple[str, ...] = ("text",)
    label_column: str = "label"
    max_sequence_length: int | None = None

    def length(self, positions: int) -> int:
        """Returns the tokens kept of a row by a model of `positions`. Raises ValueError where it has too few."""
        if self.max_sequence_length is None:
            return min(_DEFAULT_LENGTH, positions)
        if self.max_sequence_length > positions:
            raise ValueError(
                f"`max_seq_length` must not exceed the model's {positions} positions. "
                f"Received: {self.max_sequence_length}"
            )
        return self.max_sequence_length

    def load(
        self, tokenizer: BertTokenizer, length: int
    ) -> tuple[ClassificationData, ClassificationData, tuple[str, ...]]:
        """Returns the encoded training and development rows, and the label names in order of their ids."""
        paths = [self.data / name for name in ("train.tsv", "dev.tsv")]
        rows = [read_tsv(path, self.text_columns, self.label_column) for path in paths]
        labels = tuple(sorted(set(rows[0].labels)))
        if len(labels) < 2:
            raise ValueError(f"{paths[0]}: at least two labels are needed. Received: {', '.join(labels)}")
        train, dev = (
            encode(part, label_ids(part, labels, path), tokenizer, length)
            for part, path in zip(rows, paths, strict=True)
        )
        return train, dev, labels


@dataclass(frozen=True)
class ClassifyResult:
    """A fine-tuned classifier: the preset's folder, the official metric and the sizes."""

    preset: Path
    accuracy: float
    majority: float
    dev_examples: int
    training: TrainResult


def finetune_classifier(
    preset: Path,
    task: ClassifyTask,
    config: TrainingConfig,
    output: Path,
    *,
    from_scratch: bool = False,
) -> ClassifyResult:
    """Fine-tunes the encoder of `preset` on `task`.

    Args:
        preset: a preset of any kind, or the output of a run.
        task: the rows.
        config: `epochs`, `batch_size`, rate and the rest.
        output: folder of the run; the classifier's preset goes to `output/preset`.
        from_scratch: keep the encoder's architecture but not its weights.

    Returns:
        The result on the development rows.
    """
    source = load_backbone(preset)
    length = task.length(source.config.max_sequence_length)
    train, dev, labels = task.load(BertTokenizer(source.vocabulary, source.lowercase), length)
    steps = config.epochs * math.ceil(len(train) / config.batch_size)
    result = finetune(
        _builder(source, len(labels), from_scratch),
        lambda start_step: train.batches(config.batch_size, config.seed, start_step),
        lambda: dev.in_order(config.batch_size),
        config,
        output,
        steps,
        identity={
            "model": to_dict(source.config),
            "encoder": "random" if from_scratch else weights_sha256(source.model),
            "labels": labels,
            "data": train.fingerprint,
        },
    )
    description = {
        "task": "classify",
        "labels": list(labels),
        "text_columns": len(task.text_columns),
        "max_sequence_length": length,
    }
    destination = output / "preset"
    save_preset(result.model, destination, source.vocabulary, source.lowercase, task=description)
    majority = float(np.max(np.bincount(dev.labels)) / len(dev))
    evaluation = result.evaluation or {}
    return ClassifyResult(destination, evaluation["accuracy"], majority, len(dev), result)


def _builder(source: Preset, num_classes: int, from_scratch: bool) -> Callable[[], keras.Model]:
    def build() -> keras.Model:
        backbone = BertBackbone(source.config)
        if not from_scratch:
            backbone.set_weights(source.model.get_weights())
        return BertTextClassifier(backbone, num_classes)

    return build

"""The tf.data pipeline from a data directory to batches of model inputs, targets and weights."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import tensorflow as tf

from bert_tf.config.data import DataConfig
from bert_tf.data.manifest import open_data
from bert_tf.data.schema import (
    DYNAMIC_FEATURES,
    MASK_POSITIONS,
    MLM_LOGITS,
    NSP_LOGITS,
    PADDING_MASK,
    RECORD_TO_INPUT,
    SEGMENT_IDS,
    SPLITS,
    STATIC_FEATURES,
    TOKEN_IDS,
    Feature,
)
from bert_tf.data.tf_masking import mask_rows
from bert_tf.data.tf_order import RecordOrder
from bert_tf.text.vocabulary import Vocabulary

Batch = tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], dict[str, tf.Tensor]]

# Evaluation draws the masks of dynamic records from this seed, so that figures of different runs compare.
EVALUATION_SEED = 0


def pretraining_dataset(
    directory: str | Path,
    split: str,
    *,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    epochs: int | None = None,
    training: bool = True,
) -> tf.data.Dataset:
    """Returns batches for pre-training or its evaluation.

    In training, order and masks are a pure function of (seed, step): `start_step=k` gives exactly what follows the
    first k batches, without parsing these. The stream of samples goes on from epoch to epoch without a
    gap, with new masks (dynamic records) and a new order in each. In evaluation there is one pass in file order, masks
    are fixed, and the last batch is filled with rows of weight 0.

    Args:
        directory: a data directory with its manifest.
        split: `train` or `validation`.
        batch_size: B, rows in a batch, over all replicas.
        seed: of order and masks; evaluation ignores it.
        start_step: batches to leave out at the beginning; training only.
        epochs: passes over the data, `None` for endlessly many; a rest smaller than a batch is dropped.
        training: or evaluation.

    Returns:
        A dataset of (inputs, targets, weights). Inputs: int32 (B, S) `token_ids`, `segment_ids`, `padding_mask`
        and int32 (B, P) `mask_positions`; targets: `mlm_logits` int32 (B, P) and `nsp_logits` int32 (B,); weights: the
        same keys and shapes, float32 (0 for `nsp_logits` where the data has single segments). All shapes are static.

    Raises:
        ValueError: for a directory whose files do not fit its manifest, an empty split, too few examples for a
            batch, or an argument out of range. A damaged record raises `tf.errors` while iterating.
    """
    _check_arguments(split, batch_size, seed, start_step, epochs, training)
    manifest, vocabulary = open_data(directory)
    _check_examples(f"{directory}: split `{split}`", manifest.examples(split), batch_size, epochs, training)
    order = RecordOrder(directory, manifest.shards[split], seed if training else EVALUATION_SEED)
    parse = _parse_static if manifest.config.masking == "static" else _parse_dynamic
    parse = partial(parse, config=manifest.config, vocabulary=vocabulary)
    if training:
        batches = order.shuffled(start_step * batch_size, epochs).rebatch(batch_size, drop_remainder=True)
    else:
        batches = order.in_file_order(batch_size)
        parse = partial(_parse_filled, parse=parse, batch_size=batch_size)
    batches = batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return batches.prefetch(tf.data.AUTOTUNE)


def _check_arguments(
    split: str, batch_size: int, seed: int, start_step: int, epochs: int | None, training: bool
) -> None:
    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {', '.join(SPLITS)}. Received: {split!r}")
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1. Received: {batch_size}")
    if not 0 <= seed < 2**63:
        raise ValueError(f"`seed` must be in [0, 2**63). Received: {seed}")
    if start_step < 0 or (start_step and not training):
        raise ValueError(f"`start_step` must be at least 0, and 0 in evaluation. Received: {start_step}")
    if epochs is not None and (epochs < 1 or (epochs > 1 and not training)):
        raise ValueError(f"`epochs` must be at least 1, and 1 or None in evaluation. Received: {epochs}")


def _check_examples(where: str, examples: int, batch_size: int, epochs: int | None, training: bool) -> None:
    if not examples:
        raise ValueError(f"{where} is empty.")
    if training and epochs is not None and examples * epochs < batch_size:
        raise ValueError(
            f"{where} has {examples} examples, {epochs} epochs of which do not fill a batch. "
            f"Received: batch_size={batch_size}"
        )


def _parse_filled(serialized: tf.Tensor, keys: tf.Tensor, parse: partial, batch_size: int) -> Batch:
    """Parses a batch that may be short: its last row is repeated, with weight 0."""
    count = tf.size(serialized)
    rows = tf.minimum(tf.range(batch_size), count - 1)
    inputs, targets, weights = parse(tf.gather(serialized, rows), tf.gather(keys, rows))
    real = tf.cast(tf.range(batch_size) < count, tf.float32)
    weights = {
        MLM_LOGITS: weights[MLM_LOGITS] * real[:, tf.newaxis],
        NSP_LOGITS: weights[NSP_LOGITS] * real,
    }
    return inputs, targets, weights


def _parse_dynamic(serialized: tf.Tensor, keys: tf.Tensor, config: DataConfig, vocabulary: Vocabulary) -> Batch:
    """Parses records without masks (string (B,)) and draws the masks of `keys` (uint64 (B,))."""
    features = tf.io.parse_example(serialized, _specification(DYNAMIC_FEATURES, config))
    ragged, segments = features["input_ids"], tf.cast(features["segment_lengths"], tf.int32)
    lengths = tf.cast(ragged.row_lengths(), tf.int32)
    width = config.max_seq_length
    with tf.control_dependencies(
        [
            tf.debugging.assert_less_equal(
                lengths, width, f"an example must have at most max_seq_length = {width} tokens"
            ),
            tf.debugging.assert_equal(
                lengths, tf.reduce_sum(segments, axis=1), "`segment_lengths` must sum to the number of tokens"
            ),
            *_id_assertions(ragged.flat_values, vocabulary),
        ]
    ):
        tokens = ragged.with_flat_values(tf.cast(ragged.flat_values, tf.int32))
    padded = tokens.to_tensor(vocabulary.pad_id, shape=[serialized.shape[0], width])
    position = tf.range(width)
    there = position < lengths[:, tf.newaxis]
    second = there & (position >= segments[:, :1])
    masked = mask_rows(padded, lengths, keys, config, vocabulary)
    inputs = {
        TOKEN_IDS: masked.token_ids,
        SEGMENT_IDS: tf.cast(second, tf.int32),
        PADDING_MASK: tf.cast(there, tf.int32),
        MASK_POSITIONS: masked.mask_positions,
    }
    return _batch(inputs, masked.mask_ids, masked.mask_weights, features["next_sentence_labels"], config)


def _parse_static(serialized: tf.Tensor, keys: tf.Tensor, config: DataConfig, vocabulary: Vocabulary) -> Batch:
    """Parses masked records (string (B,)); their masks need no `keys`."""
    del keys
    features = tf.io.parse_example(serialized, _specification(STATIC_FEATURES, config))
    with tf.control_dependencies(_id_assertions(features["input_ids"], vocabulary)):
        inputs = {name: tf.cast(features[feature], tf.int32) for feature, name in RECORD_TO_INPUT.items()}
    targets = tf.cast(features["masked_lm_ids"], tf.int32)
    return _batch(inputs, targets, features["masked_lm_weights"], features["next_sentence_labels"], config)


def _batch(
    inputs: dict[str, tf.Tensor], ids: tf.Tensor, weights: tf.Tensor, labels: tf.Tensor, config: DataConfig
) -> Batch:
    """Returns the batch of targets `ids` (B, P) and `labels` (B, 1), which weigh nothing where there are no pairs."""
    labels = tf.cast(labels[:, 0], tf.int32)
    label_weights = tf.fill(tf.shape(labels), 1.0 if config.next_sentence else 0.0)
    label_weights.set_shape(labels.shape)
    return (
        inputs,
        {MLM_LOGITS: ids, NSP_LOGITS: labels},
        {MLM_LOGITS: weights, NSP_LOGITS: label_weights},
    )


def _specification(features: tuple[Feature, ...], config: DataConfig) -> dict[str, tf.io.RaggedFeature]:
    """Returns what `tf.io.parse_example` has to be told of records of `config`."""
    specification = {}
    for feature in features:
        dtype = tf.as_dtype(feature.dtype)
        if feature.length is None:
            specification[feature.name] = tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int32)
        else:
            length = getattr(config, feature.length) if isinstance(feature.length, str) else feature.length
            specification[feature.name] = tf.io.FixedLenFeature([length], dtype)
    return specification


def _id_assertions(ids: tf.Tensor, vocabulary: Vocabulary) -> list[tf.Operation]:
    message = f"token ids must be in [0, {len(vocabulary)}), the size of the vocabulary"
    return [
        tf.debugging.assert_non_negative(ids, message),
        tf.debugging.assert_less(ids, tf.constant(len(vocabulary), ids.dtype), message),
    ]

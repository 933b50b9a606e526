"""Input pipeline in tf.data from a data directory to batches of model inputs, targets and weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.config.data import DataConfig
from bert_tf.data.input.bins import GROUP
from bert_tf.data.input.dataset import WINDOW, Batch, BatchOptions, Split
from bert_tf.data.input.next_tokens import next_tokens
from bert_tf.data.input.tf_padding import divide_by_length, in_parallel, trimmed
from bert_tf.data.masking.tf import mask_rows
from bert_tf.data.masking.tf_randomness import stream_keys
from bert_tf.data.schema import (
    DYNAMIC_FEATURES,
    MASK_POSITIONS,
    MLM_LOGITS,
    NSP_LOGITS,
    PADDING_MASK,
    RECORD_TO_INPUT,
    SEGMENT_IDS,
    STATIC_FEATURES,
    TOKEN_IDS,
    Feature,
    length_feature,
)
from bert_tf.storage.mirrors import AHEAD
from bert_tf.text.vocabulary import Vocabulary


def pretraining_dataset(directory: str | Path, split: str, **options: Any) -> tf.data.Dataset:
    """Returns batches for pre-training or its evaluation.

    In training, order and masks are a pure function of (seed, step): `start_step=k` continues exactly after the first
    k batches, without parsing them. Epochs follow each other without a gap, each with new masks (dynamic records) and
    a new order. Evaluation is one pass in file order with fixed masks, and the last batch is filled up with rows of
    weight 0.

    Args:
        directory: data directory with its manifest, or its URL.
        split: `train` or `validation`.
        **options: fields of `BatchOptions`: `batch_size`, `seed`, `start_step`, `first_row`, `epochs`, `training`,
            `by_length`, `objective`, `share`, `masked_lm_prob`, `most_masked`, `mask_share`, `random_share`.

    Returns:
        A dataset of (inputs, targets, weights) of the rows of `share`: int32 (B, S) `token_ids`, `segment_ids`,
        `padding_mask` and (B, P) `mask_positions`; int32 (B, P) `mlm_logits` and (B,) `nsp_logits`; float32 weights of
        the same keys and shapes (0 for `nsp_logits` with single segments). All shapes are static, except S and P with
        `by_length`. With `objective` = causal_lm no token is masked, P is S - 1, and the targets of `mlm_logits` are
        the next tokens.

    Raises:
        ValueError: if files do not match the manifest, a split is empty or too small for a batch, or an option is
            out of range. A damaged record raises `tf.errors` while iterating.

    Example:
        >>> dataset = bert_tf.pretraining_dataset("data", "train", batch_size=4, seed=1)
        >>> inputs, targets, weights = next(iter(dataset))
        >>> sorted(inputs)
        ['mask_positions', 'padding_mask', 'segment_ids', 'token_ids']
        >>> inputs["token_ids"].shape, sorted(targets)
        (TensorShape([4, 32]), ['mlm_logits', 'nsp_logits'])
    """
    chosen = BatchOptions(**options)
    source = Split.open(directory, split, chosen)
    order, size, own = RecordOrder(source), chosen.batch_size, chosen.own_rows
    parse = _parse_static if source.config.masking == "static" else _parse_dynamic
    parse = partial(parse, config=source.config, vocabulary=source.vocabulary, objective=chosen.objective)
    if chosen.by_length:
        # Batches of examples of adjacent lengths. Lengths are those of all rows; only own rows are parsed and masked.
        first, skipped = divmod(chosen.start_step, GROUP)
        groups = order.shuffled(chosen.first_row + first * GROUP * size, chosen.epochs).rebatch(
            GROUP * size, drop_remainder=True
        )
        lengths_of = partial(_lengths, config=source.config)
        rows = divide_by_length(groups, lengths_of, own, chosen.seed, first).skip(skipped)
        trim = partial(trimmed, config=source.binned, objective=chosen.objective)
        batches = in_parallel(rows, lambda serialized, keys, longest: trim(*parse(serialized, keys), longest=longest))
    elif chosen.training:
        start = chosen.first_row + chosen.start_step * size
        records = order.shuffled(start, chosen.epochs).rebatch(size, drop_remainder=True)
        batches = in_parallel(records, lambda serialized, keys: parse(serialized[own], keys[own]))
    else:
        batches = in_parallel(order.in_file_order(size), partial(_parse_filled, parse=parse, options=chosen))
    return batches.prefetch(tf.data.AUTOTUNE)


class RecordOrder:
    """Reads the records of a split in the order that `dataset.Split` describes, as datasets."""

    def __init__(self, split: Split) -> None:
        self._names, self._seed = list(map(str, split.paths)), split.seed
        self._fetch = split.fetch
        self._counts = np.array(split.counts, np.int64)
        self._examples = int(self._counts.sum())

    def shuffled(self, start: int, epochs: int | None) -> tf.data.Dataset:
        """Returns the shuffled stream from sample number `start` on, as vectors of varying size n.

        A vector is (serialized string [n], keys uint64 [n]). Whole shards and windows before `start` are not read.
        Records are not parsed. The number of epochs is unlimited if `epochs` is None.
        """
        first_epoch, within = divmod(start, self._examples)
        first_window, offset = divmod(within, WINDOW)

        def one_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
            order = tf.argsort(stream_keys(self._seed, epoch, tf.range(len(self._names))))
            ends = tf.cumsum(tf.gather(self._counts, order))
            window = tf.where(epoch == first_epoch, tf.constant(first_window, tf.int64), 0)
            skipped = window * WINDOW
            whole = tf.searchsorted(ends, skipped[tf.newaxis], side="right")[0]
            before = tf.concat([[0], ends], axis=0)[whole]
            records = self._read(tf.gather(self._names, order[whole:]))
            windows = records.skip(skipped - before).batch(WINDOW)
            numbers = tf.data.Dataset.range(window, tf.int64.max)

            def sorted_window(number: tf.Tensor, serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                positions = number * WINDOW + tf.range(tf.size(serialized, tf.int64))
                keys = self._keys(epoch, order, ends, positions)
                starts_here = (epoch == first_epoch) & (number == first_window)
                kept = tf.argsort(keys)[tf.where(starts_here, offset, 0) :]
                return tf.gather(serialized, kept), tf.gather(keys, kept)

            return tf.data.Dataset.zip((numbers, windows)).map(sorted_window)

        last_epoch = tf.int64.max if epochs is None else max(first_epoch, epochs)
        return tf.data.Dataset.range(first_epoch, last_epoch).flat_map(one_epoch).prefetch(1)

    def in_file_order(self, batch_size: int) -> tf.data.Dataset:
        """Returns one pass in file order: vectors (string [n], keys uint64 [n]), n = `batch_size` except at the end."""
        order = tf.range(len(self._names))
        ends = tf.cumsum(tf.constant(self._counts))

        def keyed(number: tf.Tensor, serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            positions = number * batch_size + tf.range(tf.size(serialized, tf.int64))
            return serialized, self._keys(0, order, ends, positions)

        return self._read(tf.constant(self._names)).batch(batch_size).enumerate().map(keyed)

    def _read(self, names: tf.Tensor) -> tf.data.Dataset:
        """Returns the records of shards, one after the other. Shards of a mirror are fetched ahead of the reader."""
        fetch = self._fetch
        if fetch is None:
            return tf.data.TFRecordDataset(names)

        def fetched(name: tf.Tensor) -> tf.Tensor:
            path = tf.numpy_function(lambda name: str(fetch(Path(name.decode()))), [name], tf.string)
            return tf.ensure_shape(path, ())

        return tf.data.TFRecordDataset(tf.data.Dataset.from_tensor_slices(names).map(fetched).prefetch(AHEAD))

    def _keys(self, epoch: tf.Tensor | int, order: tf.Tensor, ends: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        """Returns the keys of the records at `positions` of an epoch: uint64 [n]."""
        rank = tf.searchsorted(ends, positions, side="right")
        shard = tf.gather(order, rank)
        record = positions - tf.gather(ends, rank) + tf.gather(self._counts, shard)
        return stream_keys(self._seed, epoch, shard, record)


def _parse_filled(serialized: tf.Tensor, keys: tf.Tensor, parse: Callable[..., Batch], options: BatchOptions) -> Batch:
    """Parses the own rows of a batch; if it has too few records, the last one is repeated with weight 0."""
    count, numbers = tf.size(serialized), tf.range(options.batch_size)[options.own_rows]
    rows = tf.minimum(numbers, count - 1)
    inputs, targets, weights = parse(tf.gather(serialized, rows), tf.gather(keys, rows))
    real = tf.cast(numbers < count, tf.float32)
    weights = {
        MLM_LOGITS: weights[MLM_LOGITS] * real[:, tf.newaxis],
        NSP_LOGITS: weights[NSP_LOGITS] * real,
    }
    return inputs, targets, weights


def _lengths(serialized: tf.Tensor, config: DataConfig) -> tf.Tensor:
    """Returns the number of tokens of records (string (n,)), without parsing anything else: int32 (n,)."""
    feature = length_feature(config)
    values = tf.io.parse_example(serialized, _specification((feature,), config))[feature.name]
    return tf.cast(tf.reduce_sum(values, axis=1), tf.int32)


def _parse_dynamic(
    serialized: tf.Tensor, keys: tf.Tensor, config: DataConfig, vocabulary: Vocabulary, objective: str
) -> Batch:
    """Parses records without masks (string (B,)) and draws the masks of `keys` (uint64 (B,)); `causal_lm` has none."""
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
        # Mask drawing would also fail on invalid values, so it must not run before the assertions.
        lengths, segments = tf.identity(lengths), tf.identity(segments)
    padded = tokens.to_tensor(vocabulary.pad_id, shape=[serialized.shape[0], width])
    position = tf.range(width)
    is_token = position < lengths[:, tf.newaxis]
    second = is_token & (position >= segments[:, :1])
    inputs = {TOKEN_IDS: padded, SEGMENT_IDS: tf.cast(second, tf.int32), PADDING_MASK: tf.cast(is_token, tf.int32)}
    labels = features["next_sentence_labels"]
    if objective == "causal_lm":
        return _causal_batch(inputs, labels, config)
    masked = mask_rows(padded, lengths, keys, config, vocabulary)
    inputs |= {TOKEN_IDS: masked.token_ids, MASK_POSITIONS: masked.mask_positions}
    return _batch(inputs, masked.mask_ids, masked.mask_weights, labels, config)


def _parse_static(
    serialized: tf.Tensor, keys: tf.Tensor, config: DataConfig, vocabulary: Vocabulary, objective: str
) -> Batch:
    """Parses masked records (string (B,)); `keys` is not used."""
    del keys
    features = tf.io.parse_example(serialized, _specification(STATIC_FEATURES, config))
    with tf.control_dependencies(_id_assertions(features["input_ids"], vocabulary)):
        inputs = {name: tf.cast(features[feature], tf.int32) for feature, name in RECORD_TO_INPUT.items()}
    targets, weights = tf.cast(features["masked_lm_ids"], tf.int32), features["masked_lm_weights"]
    labels = features["next_sentence_labels"]
    if objective == "causal_lm":
        slot = tf.where(weights > 0)
        where = tf.stack([tf.cast(slot[:, 0], tf.int32), tf.gather_nd(inputs[MASK_POSITIONS], slot)], axis=1)
        originals = tf.tensor_scatter_nd_update(inputs[TOKEN_IDS], where, tf.gather_nd(targets, slot))
        return _causal_batch(inputs | {TOKEN_IDS: originals}, labels, config)
    return _batch(inputs, targets, weights, labels, config)


def _causal_batch(inputs: dict[str, tf.Tensor], labels: tf.Tensor, config: DataConfig) -> Batch:
    """Builds the batch of the left-to-right language model from inputs without masks."""
    positions, ids, weights = next_tokens(inputs[TOKEN_IDS], inputs[PADDING_MASK])
    return _batch(inputs | {MASK_POSITIONS: positions}, ids, tf.cast(weights, tf.float32), labels, config)


def _batch(
    inputs: dict[str, tf.Tensor], ids: tf.Tensor, weights: tf.Tensor, labels: tf.Tensor, config: DataConfig
) -> Batch:
    """Builds the batch with targets `ids` (B, P) and `labels` (B, 1); labels have weight 0 for single segments."""
    labels = tf.cast(labels[:, 0], tf.int32)
    label_weights = tf.fill(tf.shape(labels), 1.0 if config.next_sentence else 0.0)
    label_weights.set_shape(labels.shape)
    return (
        inputs,
        {MLM_LOGITS: ids, NSP_LOGITS: labels},
        {MLM_LOGITS: weights, NSP_LOGITS: label_weights},
    )


def _specification(features: tuple[Feature, ...], config: DataConfig) -> dict[str, tf.io.RaggedFeature]:
    """Returns the feature specification of `tf.io.parse_example` for records of `config`."""
    specification = {}
    for feature in features:
        dtype = tf.as_dtype(feature.dtype)
        if feature.length is None:
            specification[feature.name] = tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int32)
        else:
            specification[feature.name] = tf.io.FixedLenFeature([feature.length_in(config)], dtype)
    return specification


def _id_assertions(ids: tf.Tensor, vocabulary: Vocabulary) -> list[tf.Operation]:
    message = f"token ids must be in [0, {len(vocabulary)}), the size of the vocabulary"
    return [
        tf.debugging.assert_non_negative(ids, message),
        tf.debugging.assert_less(ids, tf.constant(len(vocabulary), ids.dtype), message),
    ]

"""Input pipeline from a data directory to batches in numpy, bit-identical to `input.tf`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data.input.bins import GROUP, batch_rows, trimmed
from bert_tf.data.input.dataset import WINDOW, Batch, Batches, BatchOptions, Split, prefetched
from bert_tf.data.input.next_tokens import next_tokens
from bert_tf.data.masking.tokens import mask_rows
from bert_tf.data.randomness import stream_keys
from bert_tf.data.schema import (
    MASK_POSITIONS,
    MLM_LOGITS,
    NSP_LOGITS,
    PADDING_MASK,
    RECORD_TO_INPUT,
    SEGMENT_IDS,
    TOKEN_IDS,
    Feature,
    length_feature,
    record_features,
)
from bert_tf.data.tfrecord.example_codec import RecordColumn
from bert_tf.data.tfrecord.example_reader import decode_examples
from bert_tf.data.tfrecord.shards import read_shard
from bert_tf.storage.mirrors import AHEAD
from bert_tf.text.vocabulary import Vocabulary

# Serialized records and their keys, uint64 [n].
Keyed = tuple[list[bytes], np.ndarray]

# Number of prefetched batches and windows of records.
_BATCHES_AHEAD, _WINDOWS_AHEAD = 4, 1


def pretraining_batches(directory: str | Path, split: str, **options: Any) -> Batches:
    """Returns batches for pre-training or its evaluation: arrays equal to those of `input.tf.pretraining_dataset`.

    Raises ValueError if files do not match the manifest, a split is empty or too small for a batch, or an option is out
    of range; while iterating, if a record is damaged.
    """
    chosen = BatchOptions(**options)
    source = Split.open(directory, split, chosen)

    def batches() -> Iterator[Batch]:
        if chosen.by_length:
            stream = _by_length(source, chosen)
        elif chosen.training:
            own = chosen.own_rows
            pieces = _shuffled(source, chosen, chosen.start_step, chosen.batch_size)
            stream = (_parse(source, records[own], keys[own], chosen.objective) for records, keys in pieces)
        else:
            pieces = RecordOrder(source).in_file_order(chosen.batch_size)
            stream = (_filled(source, piece, chosen) for piece in pieces)
        return prefetched(stream, _BATCHES_AHEAD)

    return Batches(batches)


def _shuffled(source: Split, options: BatchOptions, start: int, size: int) -> Iterator[Keyed]:
    """Yields the records of shuffled batches of `size` rows from number `start` on."""
    first = options.first_row + start * size
    windows = prefetched(RecordOrder(source).shuffled(first, options.epochs), _WINDOWS_AHEAD)
    return _rebatched(windows, size)


def _parse(source: Split, records: Sequence[bytes], keys: np.ndarray, objective: str) -> Batch:
    return parse_records(records, keys, source.config, source.vocabulary, objective)


def _by_length(source: Split, options: BatchOptions) -> Iterator[Batch]:
    """Yields the own rows of batches of examples of adjacent lengths, which are those of all rows."""
    first, skipped = divmod(options.start_step, GROUP)
    groups = _shuffled(source, options, first, GROUP * options.batch_size)
    for number, (records, keys) in enumerate(groups, start=first):
        lengths = _lengths(records, source.config)
        batches = batch_rows(lengths, options.seed, number)
        for batch in batches[skipped if number == first else 0 :]:
            rows = batch[options.own_rows]
            parsed = _parse(source, [records[row] for row in rows.tolist()], keys[rows], options.objective)
            yield trimmed(*parsed, int(lengths[batch].max()), source.binned, options.objective)


def _lengths(records: Sequence[bytes], config: DataConfig) -> np.ndarray:
    """Returns the number of tokens of records, without decoding anything else: int64 [n]."""
    feature = length_feature(config)
    column = decode_examples(records, [feature.name])[feature.name]
    _check_counts(feature, column, config)
    return column.values.reshape(len(records), -1).sum(axis=1)


class RecordOrder:
    """Reads the records of a split in the order that `dataset.Split` describes."""

    def __init__(self, split: Split) -> None:
        self._paths, self._seed, self._fetch = split.paths, split.seed, split.fetch
        self._counts = np.array(split.counts, np.int64)
        self._examples = int(self._counts.sum())

    def shuffled(self, start: int, epochs: int | None) -> Iterator[Keyed]:
        """Yields the shuffled stream from sample number `start` on: records and their keys, one window at a time.

        Whole shards and windows before `start` are skipped. Records are not parsed. The number of epochs is unlimited
        if `epochs` is None.
        """
        first_epoch, within = divmod(start, self._examples)
        window, offset = divmod(within, WINDOW)
        for epoch in itertools.count(first_epoch) if epochs is None else range(first_epoch, epochs):
            order = np.argsort(stream_keys(self._seed, epoch, np.arange(len(self._paths))), kind="stable")
            for records, keys in self._pieces(epoch, order, window * WINDOW, WINDOW):
                kept = np.argsort(keys, kind="stable")[offset:]
                yield [records[number] for number in kept.tolist()], keys[kept]
                offset = 0
            window = 0

    def in_file_order(self, batch_size: int) -> Iterator[Keyed]:
        """Yields one pass in file order: records and keys, `batch_size` at a time except for the last."""
        return self._pieces(0, np.arange(len(self._paths)), 0, batch_size)

    def _pieces(self, epoch: int, order: np.ndarray, start: int, size: int) -> Iterator[Keyed]:
        """Yields the records of the shards in `order` from position `start` on, `size` at a time, with their keys."""
        ends = np.cumsum(self._counts[order])
        whole = int(np.searchsorted(ends, start, side="right"))
        before = int(ends[whole - 1]) if whole else 0
        paths: Iterator[Path] = (self._paths[shard] for shard in order[whole:])
        if self._fetch is not None:
            paths = prefetched(map(self._fetch, paths), AHEAD)
        records = itertools.islice(itertools.chain.from_iterable(map(read_shard, paths)), start - before, None)
        while piece := list(itertools.islice(records, size)):
            positions = np.arange(start, start + len(piece))
            rank = np.searchsorted(ends, positions, side="right")
            shard = order[rank]
            yield piece, stream_keys(self._seed, epoch, shard, positions - ends[rank] + self._counts[shard])
            start += len(piece)


def _rebatched(pieces: Iterator[Keyed], batch_size: int) -> Iterator[Keyed]:
    """Yields the records in batches of `batch_size`; the last incomplete batch is dropped."""
    records: list[bytes] = []
    keys = np.empty(0, np.uint64)
    for more_records, more_keys in pieces:
        records, keys = records + more_records, np.concatenate([keys, more_keys])
        whole = len(records) - len(records) % batch_size
        for begin in range(0, whole, batch_size):
            yield records[begin : begin + batch_size], keys[begin : begin + batch_size]
        records, keys = records[whole:], keys[whole:]


def _filled(source: Split, piece: Keyed, options: BatchOptions) -> Batch:
    """Builds the own rows of a full batch; if there are too few records, the last one is repeated with weight 0."""
    records, keys = piece
    numbers = np.arange(options.batch_size)[options.own_rows]
    rows = np.minimum(numbers, len(records) - 1)
    batch = _parse(source, [records[row] for row in rows.tolist()], keys[rows], options.objective)
    for values in batch[2].values():
        values[numbers >= len(records)] = 0.0
    return batch


def parse_records(
    records: Sequence[bytes], keys: np.ndarray, config: DataConfig, vocabulary: Vocabulary, objective: str = "mlm"
) -> Batch:
    """Builds the batch of B serialized Examples, as in `input.tf.pretraining_dataset`.

    `keys`, uint64 (B,), are the random streams of the masks of records without masks; `causal_lm` draws none. Raises
    ValueError if a record does not follow the schema.
    """
    features = record_features(config)
    columns = decode_examples(records, [feature.name for feature in features])
    for feature in features:
        _check_counts(feature, columns[feature.name], config)
    ids = columns["input_ids"].values
    if ids.min(initial=0) < 0 or ids.max(initial=0) >= len(vocabulary):
        raise ValueError(
            f"token ids must be in [0, {len(vocabulary)}), the size of the vocabulary. "
            f"Received: {ids.min()} to {ids.max()}"
        )
    if config.masking == "static":
        return _static_batch(columns, config, objective)
    inputs, lengths, labels = _unmasked_inputs(columns, config, vocabulary)
    if objective == "causal_lm":
        return _causal_batch(inputs, labels, config)
    masked = mask_rows(inputs[TOKEN_IDS], lengths, keys, config, vocabulary)
    inputs |= {TOKEN_IDS: masked.token_ids, MASK_POSITIONS: masked.mask_positions}
    return _batch(inputs, masked.mask_ids, masked.mask_weights, labels, config)


def _check_counts(feature: Feature, column: RecordColumn, config: DataConfig) -> None:
    """Raises ValueError if a record has another number of values of a feature of fixed length."""
    if (length := feature.length_in(config)) is not None:
        wrong = column.counts[column.counts != length]
        if len(wrong):
            raise ValueError(f"`{feature.name}` must have {length} values in every record. Received: {wrong[0]}")


def _unmasked_inputs(
    columns: Mapping[str, RecordColumn], config: DataConfig, vocabulary: Vocabulary
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Returns the inputs of records without masks, their lengths (B,) and next sentence labels (B,)."""
    tokens, width = columns["input_ids"], config.max_seq_length
    segments, labels = (columns[name].values for name in ("segment_lengths", "next_sentence_labels"))
    if tokens.counts.max() > width:
        raise ValueError(
            f"an example must have at most max_seq_length = {width} tokens. Received: {tokens.counts.max()}"
        )
    segments = segments.reshape(-1, 2)
    if (segments.sum(axis=1) != tokens.counts).any():
        raise ValueError("`segment_lengths` must sum to the number of tokens.")
    position = np.arange(width)
    is_token = position < tokens.counts[:, None]
    padded = np.full(is_token.shape, vocabulary.pad_id, np.int32)
    padded[is_token] = tokens.values
    inputs = {
        TOKEN_IDS: padded,
        SEGMENT_IDS: (is_token & (position >= segments[:, :1])).astype(np.int32),
        PADDING_MASK: is_token.astype(np.int32),
    }
    return inputs, tokens.counts, labels


def _static_batch(columns: Mapping[str, RecordColumn], config: DataConfig, objective: str) -> Batch:
    """Builds the batch of masked records."""
    rows = {name: column.values.reshape(len(column.counts), -1) for name, column in columns.items()}
    inputs = {name: rows[feature].astype(np.int32) for feature, name in RECORD_TO_INPUT.items()}
    ids, weights = rows["masked_lm_ids"].astype(np.int32), rows["masked_lm_weights"].astype(np.float32)
    labels = rows["next_sentence_labels"][:, 0]
    if objective == "causal_lm":
        row, slot = np.nonzero(weights > 0)
        inputs[TOKEN_IDS][row, inputs[MASK_POSITIONS][row, slot]] = ids[row, slot]
        return _causal_batch(inputs, labels, config)
    return _batch(inputs, ids, weights, labels, config)


def _causal_batch(inputs: dict[str, np.ndarray], labels: np.ndarray, config: DataConfig) -> Batch:
    """Builds the batch of the left-to-right language model from inputs without masks."""
    positions, ids, weights = next_tokens(inputs[TOKEN_IDS], inputs[PADDING_MASK])
    return _batch(inputs | {MASK_POSITIONS: positions}, ids, weights.astype(np.float32), labels, config)


def _batch(
    inputs: dict[str, np.ndarray], ids: np.ndarray, weights: np.ndarray, labels: np.ndarray, config: DataConfig
) -> Batch:
    """Builds the batch with targets `ids` (B, P) and `labels` (B,); labels have weight 0 for single segments."""
    label_weights = np.full(len(labels), 1.0 if config.next_sentence else 0.0, np.float32)
    return (
        inputs,
        {MLM_LOGITS: ids, NSP_LOGITS: labels.astype(np.int32)},
        {MLM_LOGITS: weights, NSP_LOGITS: label_weights},
    )

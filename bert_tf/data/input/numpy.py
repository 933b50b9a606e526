"""Input pipeline from a data directory to batches in numpy, bit-identical to `input.tf`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data.input.arguments import EVALUATION_SEED, check_arguments, check_examples
from bert_tf.data.input.batches import Batches, made_ahead
from bert_tf.data.input.bins import GROUP, batch_rows, trimmed
from bert_tf.data.input.order import Keyed, RecordOrder
from bert_tf.data.manifest import open_data
from bert_tf.data.masking.tokens import mask_rows
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
)
from bert_tf.data.tfrecord.example_columns import decode_examples
from bert_tf.text.vocabulary import Vocabulary

Batch = tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]

# Number of prefetched batches and windows of records.
_BATCHES_AHEAD, _WINDOWS_AHEAD = 4, 1


def pretraining_batches(
    directory: str | Path,
    split: str,
    *,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    epochs: int | None = None,
    training: bool = True,
    by_length: bool = False,
) -> Batches:
    """Returns batches for pre-training or its evaluation.

    Args:
        directory: data directory with its manifest.
        split: `train` or `validation`.
        batch_size: B, global batch size over all replicas.
        seed: seed of order and masks; ignored in evaluation.
        start_step: number of batches to skip at the start; training only.
        epochs: passes over the data, `None` for unlimited; the last incomplete batch is dropped.
        training: True for training, False for evaluation.
        by_length: if True, batches hold examples of similar length with less padding (see `bins`); training only.

    Returns:
        Batches (inputs, targets, weights) of arrays, with the names, shapes, dtypes and values of
        `input.tf.pretraining_dataset`.

    Raises:
        ValueError: if files do not match the manifest, a split is empty or too small for a batch, or an argument is
            out of range; while iterating, if a record is damaged.
    """
    check_arguments(split, batch_size, seed, start_step, epochs, training, by_length)
    manifest, vocabulary = open_data(directory)
    check_examples(f"{directory}: split `{split}`", manifest.examples(split), batch_size, epochs, training)
    order = RecordOrder(directory, manifest.shards[split], seed if training else EVALUATION_SEED)
    of_records = _static_batch if manifest.config.masking == "static" else _dynamic_batch
    parse = partial(of_records, config=manifest.config, vocabulary=vocabulary)

    def batches() -> Iterator[Batch]:
        stream = _shuffled(order, parse, batch_size, start_step, epochs)
        if by_length:
            stream = _by_length(order, parse, batch_size, seed, start_step, epochs)
        elif not training:
            stream = (_filled(piece, parse, batch_size) for piece in order.in_file_order(batch_size))
        return made_ahead(stream, _BATCHES_AHEAD)

    return Batches(batches)


def _shuffled(
    order: RecordOrder, parse: Callable[..., Batch], batch_size: int, start_step: int, epochs: int | None
) -> Iterator[Batch]:
    """Yields shuffled batches from `start_step` on."""
    windows = made_ahead(order.shuffled(start_step * batch_size, epochs), _WINDOWS_AHEAD)
    for records, keys in _rebatched(windows, batch_size):
        yield parse(records, keys)


def _by_length(
    order: RecordOrder, parse: partial[Batch], batch_size: int, seed: int, start_step: int, epochs: int | None
) -> Iterator[Batch]:
    """Yields batches of examples of adjacent lengths from `start_step` on."""
    first, skipped = divmod(start_step, GROUP)
    for number, group in enumerate(_shuffled(order, parse, GROUP * batch_size, first, epochs), start=first):
        rows_of = batch_rows(group[0][PADDING_MASK].sum(axis=1), seed, number)
        for rows in rows_of[skipped if number == first else 0 :]:
            inputs, targets, weights = ({name: values[rows] for name, values in part.items()} for part in group)
            yield trimmed(inputs, targets, weights, parse.keywords["config"])


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


def _filled(piece: Keyed, parse: Callable[[list[bytes], np.ndarray], Batch], batch_size: int) -> Batch:
    """Builds a full batch; if there are too few records, the last one is repeated with weight 0."""
    records, keys = piece
    rows = np.minimum(np.arange(batch_size), len(records) - 1)
    inputs, targets, weights = parse([records[row] for row in rows.tolist()], keys[rows])
    for values in weights.values():
        values[len(records) :] = 0.0
    return inputs, targets, weights


def _dynamic_batch(records: list[bytes], keys: np.ndarray, config: DataConfig, vocabulary: Vocabulary) -> Batch:
    """Builds the batch of records without masks; masks are drawn from `keys`."""
    columns = decode_examples(records, [feature.name for feature in DYNAMIC_FEATURES])
    tokens, width = columns["input_ids"], config.max_seq_length
    segments, labels = (columns[name].values for name in ("segment_lengths", "next_sentence_labels"))
    _check_counts(columns, DYNAMIC_FEATURES, config)
    if tokens.counts.max() > width:
        raise ValueError(
            f"an example must have at most max_seq_length = {width} tokens. Received: {tokens.counts.max()}"
        )
    segments = segments.reshape(-1, 2)
    if (segments.sum(axis=1) != tokens.counts).any():
        raise ValueError("`segment_lengths` must sum to the number of tokens.")
    _check_ids(tokens.values, vocabulary)
    position = np.arange(width)
    is_token = position < tokens.counts[:, None]
    padded = np.full(is_token.shape, vocabulary.pad_id, np.int32)
    padded[is_token] = tokens.values
    masked = mask_rows(padded, tokens.counts, keys, config, vocabulary)
    inputs = {
        TOKEN_IDS: masked.token_ids,
        SEGMENT_IDS: (is_token & (position >= segments[:, :1])).astype(np.int32),
        PADDING_MASK: is_token.astype(np.int32),
        MASK_POSITIONS: masked.mask_positions,
    }
    return _batch(inputs, masked.mask_ids, masked.mask_weights, labels, config)


def _static_batch(records: list[bytes], keys: np.ndarray, config: DataConfig, vocabulary: Vocabulary) -> Batch:
    """Builds the batch of masked records; `keys` is not used."""
    del keys
    columns = decode_examples(records, [feature.name for feature in STATIC_FEATURES])
    _check_counts(columns, STATIC_FEATURES, config)
    _check_ids(columns["input_ids"].values, vocabulary)
    rows = {name: column.values.reshape(len(records), -1) for name, column in columns.items()}
    inputs = {name: rows[feature].astype(np.int32) for feature, name in RECORD_TO_INPUT.items()}
    weights = rows["masked_lm_weights"].astype(np.float32)
    return _batch(inputs, rows["masked_lm_ids"].astype(np.int32), weights, rows["next_sentence_labels"][:, 0], config)


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


def _check_counts(columns: dict, features: tuple[Feature, ...], config: DataConfig) -> None:
    """Raises ValueError if the number of values in a record does not match the schema."""
    for feature in features:
        if feature.length is not None:
            length = getattr(config, feature.length) if isinstance(feature.length, str) else feature.length
            wrong = columns[feature.name].counts[columns[feature.name].counts != length]
            if len(wrong):
                raise ValueError(f"`{feature.name}` must have {length} values in every record. Received: {wrong[0]}")


def _check_ids(ids: np.ndarray, vocabulary: Vocabulary) -> None:
    if ids.min(initial=0) < 0 or ids.max(initial=0) >= len(vocabulary):
        raise ValueError(
            f"token ids must be in [0, {len(vocabulary)}), the size of the vocabulary. "
            f"Received: {ids.min()} to {ids.max()}"
        )

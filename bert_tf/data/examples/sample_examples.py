"""Human-readable sample examples of a data directory: word pieces, segments and masks.

Records are read without TensorFlow. Records of a shard are in random order, so the first ones are a sample.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data.input.dataset import Batch
from bert_tf.data.input.numpy import parse_records
from bert_tf.data.manifest import Manifest
from bert_tf.data.randomness import stream_keys
from bert_tf.data.schema import (
    MASK_POSITIONS,
    MLM_LOGITS,
    PADDING_MASK,
    SEGMENT_IDS,
    TOKEN_IDS,
    record_features,
)
from bert_tf.data.tfrecord.example_reader import decode_examples
from bert_tf.data.tfrecord.shards import ShardInfo
from bert_tf.text.vocabulary import CONTINUATION, SPECIAL_TOKENS, Vocabulary

SHOWN_EXAMPLES = 20
NEXT, RANDOM, SINGLE = "next", "random", "single"
# Content of a predicted position after masking.
MASKED, REPLACED, KEPT = "masked", "random", "kept"
# Records searched for an example of a given label: if both labels are equally frequent, the search fails with
# probability 2**-32.
_LOOKED_AT = 32
# Stream key of the sample masks for records without masks.
_MASKS_SHOWN = 0x73686F776E


@dataclass(frozen=True)
class Token:
    """One position of an example."""

    piece: str  # word piece after masking
    segment: int  # 0 or 1
    original: str = ""  # word piece to predict; empty if the position is not predicted
    fate: str = ""  # `masked`, `random` or `kept` if the position is predicted

    @property
    def special(self) -> bool:
        """True if the token is a special token that was not inserted by masking."""
        return self.piece in SPECIAL_TOKENS and not self.fate

    @property
    def continues(self) -> bool:
        """True if the original piece continues the previous word."""
        return (self.original or self.piece).startswith(CONTINUATION)

    @property
    def text(self) -> str:
        """The piece without the `##` prefix of a continuation."""
        return self.piece.removeprefix(CONTINUATION) if self.continues else self.piece


@dataclass(frozen=True)
class Example:
    """One example, without padding."""

    shard: str  # file name
    record: int  # index of the record in the shard, from 0
    label: str  # `next`, `random` or `single` (one segment)
    tokens: tuple[Token, ...]  # with special tokens

    @property
    def predicted(self) -> int:
        """The number of predicted positions."""
        return sum(bool(token.fate) for token in self.tokens)


def read_examples(
    records: Callable[[str], Iterable[bytes]], manifest: Manifest, vocabulary: Vocabulary, count: int = SHOWN_EXAMPLES
) -> tuple[Example, ...]:
    """Reads up to `count` examples spread evenly over the data, alternating between `next` and `random` if both occur.

    `records` returns the records of a shard by its name; only the first ones are read. The examples are in the order of
    the data, and the result is deterministic. If records have no masks, these are drawn as in training, from a separate
    random stream. Raises ValueError, which names the shard, if a record does not follow the schema.
    """
    examples: list[Example] = []
    config = manifest.config
    for shard, wanted in _places(manifest, count):
        heads = list(itertools.islice(records(shard.name), _LOOKED_AT + len(wanted)))
        labels = [_label(data, config, f"{shard.name}: record {number}") for number, data in enumerate(heads)]
        for record in _chosen(labels, wanted):
            key = stream_keys(config.seed, _MASKS_SHOWN, np.array([len(examples)]))
            batch = parse_records([heads[record]], key, config, vocabulary)
            tokens, _ = tokens_of_row(batch, 0, vocabulary)
            label = (NEXT, RANDOM)[labels[record]] if config.next_sentence else SINGLE
            examples.append(Example(shard.name, record, label, tokens))
    return tuple(examples)


def _label(record: bytes, config: DataConfig, where: str) -> int:
    """Returns the label of a record; raises ValueError if it lacks a feature."""
    try:
        columns = decode_examples([record], [feature.name for feature in record_features(config)])
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    return int(columns["next_sentence_labels"].values[0])


def _places(manifest: Manifest, count: int) -> list[tuple[ShardInfo, list[int]]]:
    """Returns the shards to read with the labels to look for, in proportion to the examples of each shard."""
    shards = [shard for shard in manifest.all_shards if shard.examples]
    ends = np.cumsum([shard.examples for shard in shards])
    if not len(ends):
        return []
    count = min(count, int(ends[-1]))
    numbers = (2 * np.arange(count) + 1) * int(ends[-1]) // (2 * count)
    owners = np.searchsorted(ends, numbers, side="right").tolist()
    by_shard = itertools.groupby(enumerate(owners), key=lambda item: item[1])
    return [(shards[owner], [slot % 2 for slot, _ in slots]) for owner, slots in by_shard]


def _chosen(labels: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Returns a record for each wanted label: the first unused one with this label, else the first unused one."""
    left = list(range(len(labels)))
    chosen = []
    for label in wanted:
        fitting = [record for record in left if labels[record] == label]
        chosen.append((fitting or left)[0])
        left.remove(chosen[-1])
    return chosen


def tokens_of_row(batch: Batch, row: int, vocabulary: Vocabulary) -> tuple[tuple[Token, ...], list[int]]:
    """Converts one row of a batch to tokens without padding, and the slots of the masks from left to right.

    The examples are not packed; masks of weight 0 are ignored.
    """
    inputs, targets, weights = batch
    positions, originals = inputs[MASK_POSITIONS][row], targets[MLM_LOGITS][row]
    slots = [slot for slot in np.argsort(positions, kind="stable").tolist() if weights[MLM_LOGITS][row, slot] > 0]
    masks = {int(positions[slot]): int(originals[slot]) for slot in slots}
    length = int(inputs[PADDING_MASK][row].sum())
    columns = (inputs[name][row, :length].tolist() for name in (TOKEN_IDS, SEGMENT_IDS))
    return tuple(
        _token(token, segment, masks.get(position), vocabulary)
        for position, (token, segment) in enumerate(zip(*columns, strict=True))
    ), slots


def _token(token: int, segment: int, original: int | None, vocabulary: Vocabulary) -> Token:
    piece = vocabulary.tokens[token]
    if original is None:
        return Token(piece, segment)
    fate = MASKED if token == vocabulary.mask_id else KEPT if token == original else REPLACED
    return Token(piece, segment, vocabulary.tokens[original], fate)

"""Human-readable sample examples of a data directory: word pieces, segments and masks.

Records are read without TensorFlow. Records of a shard are in random order, so the first ones are a sample.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data.examples.build import Pairs
from bert_tf.data.manifest import Manifest
from bert_tf.data.masking.tokens import mask_pairs
from bert_tf.data.randomness import stream_keys
from bert_tf.data.schema import DYNAMIC_FEATURES, STATIC_FEATURES
from bert_tf.data.tfrecord.example_reader import decode_example
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
    """One position of an example.

    Args:
        piece: word piece after masking.
        segment: 0 or 1.
        original: word piece to predict; empty if the position is not predicted.
        fate: `masked`, `random` or `kept` if the position is predicted, else empty.
    """

    piece: str
    segment: int
    original: str = ""
    fate: str = ""

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
    """One example, without padding.

    Args:
        shard: file name of the shard.
        record: index of the record in the shard, from 0.
        label: `next`, `random` or `single` (one segment).
        tokens: tokens in order, including special tokens.
    """

    shard: str
    record: int
    label: str
    tokens: tuple[Token, ...]

    @property
    def predicted(self) -> int:
        """The number of predicted positions."""
        return sum(bool(token.fate) for token in self.tokens)


def read_examples(
    records: Callable[[str], Iterable[bytes]], manifest: Manifest, vocabulary: Vocabulary, count: int = SHOWN_EXAMPLES
) -> tuple[Example, ...]:
    """Reads examples spread evenly over the data, alternating between `next` and `random` if both labels occur.

    Args:
        records: function from the name of a shard to its records; only the first records are read.
        manifest: manifest of the data.
        vocabulary: vocabulary of the data.
        count: maximum number of examples.

    Returns:
        The examples in the order of the data; the result is deterministic. If records have no masks, these are drawn
        as in training, from a separate random stream.

    Raises:
        ValueError: if a record does not follow the schema; names the shard.
    """
    examples: list[Example] = []
    for shard, wanted in _places(manifest, count):
        heads = itertools.islice(records(shard.name), _LOOKED_AT + len(wanted))
        features = [_decoded(data, manifest.config, f"{shard.name}: record {n}") for n, data in enumerate(heads)]
        for record in _chosen(features, wanted):
            row = _row(features[record], manifest.config)
            key = stream_keys(manifest.config.seed, _MASKS_SHOWN, len(examples))
            examples.append(Example(shard.name, record, row.label, row.tokens(manifest.config, vocabulary, key)))
    return tuple(examples)


def _places(manifest: Manifest, count: int) -> list[tuple[ShardInfo, list[int]]]:
    """Returns the shards to read with the labels to look for, in proportion to the examples of each shard."""
    shards = [shard for shards in manifest.shards.values() for shard in shards if shard.examples]
    ends = np.cumsum([shard.examples for shard in shards])
    if not len(ends):
        return []
    count = min(count, int(ends[-1]))
    numbers = (2 * np.arange(count) + 1) * int(ends[-1]) // (2 * count)
    owners = np.searchsorted(ends, numbers, side="right").tolist()
    by_shard = itertools.groupby(enumerate(owners), key=lambda item: item[1])
    return [(shards[owner], [slot % 2 for slot, _ in slots]) for owner, slots in by_shard]


def _chosen(features: Sequence[Mapping[str, np.ndarray]], wanted: Sequence[int]) -> list[int]:
    """Returns a record for each wanted label: the first unused one with this label, else the first unused one."""
    left = list(range(len(features)))
    chosen = []
    for label in wanted:
        fitting = [record for record in left if features[record]["next_sentence_labels"].tolist() == [label]]
        chosen.append((fitting or left)[0])
        left.remove(chosen[-1])
    return chosen


@dataclass(frozen=True)
class _Row:
    """One record: ids without padding, lengths of both segments, label, and masks if the record has them."""

    token_ids: np.ndarray
    segment_lengths: tuple[int, int]
    label: str
    masks: tuple[np.ndarray, np.ndarray] | None = None  # positions and original ids

    def tokens(self, config: DataConfig, vocabulary: Vocabulary, key: np.ndarray) -> tuple[Token, ...]:
        """Converts the row to tokens; masks are drawn from the stream `key` if the record has none."""
        token_ids, masks = self.token_ids, self.masks
        if masks is None:
            pairs = Pairs(
                token_ids.astype(np.int32),
                np.array([0, len(token_ids)]),
                np.array([self.segment_lengths], np.int32),
                np.array([int(self.label == RANDOM)], np.int32),
                key.reshape(1),
            )
            masked = mask_pairs(pairs, config, vocabulary)
            used = masked.mask_weights[0] > 0
            token_ids = masked.token_ids[0, : len(token_ids)]
            masks = masked.mask_positions[0, used], masked.mask_ids[0, used]
        originals = dict(zip(*(values.tolist() for values in masks), strict=True))
        first = self.segment_lengths[0]
        return tuple(
            token_at(token, int(position >= first), originals.get(position), vocabulary)
            for position, token in enumerate(token_ids.tolist())
        )


def token_at(token: int, segment: int, original: int | None, vocabulary: Vocabulary) -> Token:
    """Converts the ids of one position to a `Token`.

    Args:
        token: id after masking.
        segment: 0 or 1.
        original: id to predict; None if the position is not predicted.
        vocabulary: vocabulary of the data.
    """
    piece = vocabulary.tokens[token]
    if original is None:
        return Token(piece, segment)
    fate = MASKED if token == vocabulary.mask_id else KEPT if token == original else REPLACED
    return Token(piece, segment, vocabulary.tokens[original], fate)


def _decoded(data: bytes, config: DataConfig, where: str) -> dict[str, np.ndarray]:
    features = decode_example(data, where)
    wanted = STATIC_FEATURES if config.masking == "static" else DYNAMIC_FEATURES
    if missing := [feature.name for feature in wanted if feature.name not in features]:
        raise ValueError(f"{where}: lacks the feature {missing[0]}. Received: {', '.join(sorted(features))}")
    return features


def _row(features: Mapping[str, np.ndarray], config: DataConfig) -> _Row:
    row = _static(features) if config.masking == "static" else _dynamic(features)
    return row if config.next_sentence else dataclasses.replace(row, label=SINGLE)


def _dynamic(features: Mapping[str, np.ndarray]) -> _Row:
    first, second = features["segment_lengths"].tolist()
    return _Row(features["input_ids"], (first, second), _label(features))


def _static(features: Mapping[str, np.ndarray]) -> _Row:
    length = int(features["input_mask"].sum())
    second = int(features["segment_ids"].sum())
    used = features["masked_lm_weights"] > 0
    masks = features["masked_lm_positions"][used], features["masked_lm_ids"][used]
    return _Row(features["input_ids"][:length], (length - second, second), _label(features), masks)


def _label(features: Mapping[str, np.ndarray]) -> str:
    return (NEXT, RANDOM)[int(features["next_sentence_labels"][0])]

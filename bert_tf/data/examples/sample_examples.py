"""Examples of a data directory as a person reads them: word pieces, segments and masks in words.

Records are read without TensorFlow. Those of one shard stand in a random order, so the first of each are a sample.
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
# What became of a position that is to be predicted.
MASKED, REPLACED, KEPT = "masked", "random", "kept"
# Records looked at for one example of a wanted label: with half of each, 2**-32 miss it.
_LOOKED_AT = 32
# Names the stream of the masks shown for records that have none.
_MASKS_SHOWN = 0x73686F776E


@dataclass(frozen=True)
class Token:
    """One position of an example.

    Args:
        piece: what stands there, masked or not.
        segment: 0 or 1.
        original: the piece to be predicted there; empty where nothing is.
        fate: `masked`, `random` or `kept` where a piece is to be predicted, else empty.
    """

    piece: str
    segment: int
    original: str = ""
    fate: str = ""

    @property
    def special(self) -> bool:
        """Whether it is a special token that stood in the example before it was masked."""
        return self.piece in SPECIAL_TOKENS and not self.fate

    @property
    def continues(self) -> bool:
        """Whether it belongs to the word before it, by what stood there before it was masked."""
        return (self.original or self.piece).startswith(CONTINUATION)

    @property
    def text(self) -> str:
        """What stands there, without the sign of a continuation where it is one."""
        return self.piece.removeprefix(CONTINUATION) if self.continues else self.piece


@dataclass(frozen=True)
class Example:
    """One example, without padding.

    Args:
        shard: name of its file.
        record: its number there, from 0.
        label: `next`, `random` or `single` (one segment).
        tokens: in order, special tokens included.
    """

    shard: str
    record: int
    label: str
    tokens: tuple[Token, ...]

    @property
    def predicted(self) -> int:
        """The number of positions to be predicted."""
        return sum(bool(token.fate) for token in self.tokens)


def read_examples(
    records: Callable[[str], Iterable[bytes]], manifest: Manifest, vocabulary: Vocabulary, count: int = SHOWN_EXAMPLES
) -> tuple[Example, ...]:
    """Reads examples spread evenly over the data, `next` and `random` ones in turn where there are both.

    Args:
        records: gives the records of a shard by its name; only the first ones are asked for.
        manifest: of the data.
        vocabulary: of the data.
        count: how many, at most.

    Returns:
        The examples in the order of the data, the same ones each time. Masks that the records lack are drawn as the
        trainer draws them, from a stream of their own.

    Raises:
        ValueError: for a record that is none of ours; names the shard.
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
    """Returns the shards to read, each with the labels wanted of it; the more examples it has the more it gives."""
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
    """Returns a record for each wanted label: the first unused one that has it, else the first unused one."""
    left = list(range(len(features)))
    chosen = []
    for label in wanted:
        fitting = [record for record in left if features[record]["next_sentence_labels"].tolist() == [label]]
        chosen.append((fitting or left)[0])
        left.remove(chosen[-1])
    return chosen


@dataclass(frozen=True)
class _Row:
    """One record: ids without padding, lengths of both segments, label, and masks where the record has them."""

    token_ids: np.ndarray
    segment_lengths: tuple[int, int]
    label: str
    masks: tuple[np.ndarray, np.ndarray] | None = None  # positions and original ids

    def tokens(self, config: DataConfig, vocabulary: Vocabulary, key: np.ndarray) -> tuple[Token, ...]:
        """Returns the row in words, with masks drawn from the stream `key` where the record has none."""
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
    """Returns one position in words.

    Args:
        token: id of what stands there.
        segment: 0 or 1.
        original: id of the piece to be predicted there; None where nothing is.
        vocabulary: of the data.
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

"""Trains a WordPiece vocabulary from word counts on the driver, with Hugging Face `tokenizers`."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from beam_pipelines.transforms.count_words import LONGEST_WORD
from beam_pipelines.transforms.tokenize import shared_tokenizer
from bert_tf.config import ConfigError
from bert_tf.text.vocabulary import CONTINUATION, SPECIAL_TOKENS, Vocabulary

# Pieces that occur once are not useful.
_MIN_FREQUENCY = 2
# The trainer accepts only text, so each word is repeated by its count, at about 3 M words per CPU second. Larger inputs
# are sampled systematically. Measured on 38 M words of Wikipedia and books with 30,522 pieces, as pieces per word on
# 7 M held-out words: all words 1.0963, samples of 20 M 1.0962, of 5 M 1.0961, of 1 M 1.0973; 1 M with each count
# rounded up to at least one 1.1209.
_MOST_OCCURRENCES = 20_000_000
_WORDS_A_LINE = 1000
_LONGEST_SHOWN = 5
# A vocabulary is as large as possible with 95 % of its pieces occurring 100 times (arXiv 2004.02334).
_FREQUENT, _MOST_RARE = 100, 0.05
# BERT's own size, and those of smaller models.
USUAL_SIZES = (30_522, 16_000, 8_000, 4_000, 2_000, 1_000)


@dataclasses.dataclass(frozen=True)
class Alphabet:
    """The characters of a vocabulary."""

    pieces: tuple[str, ...]  # characters that begin words, then, with `##`, those that continue words, by code point
    characters: int  # number of distinct characters
    coverage: float  # share of the corpus's character occurrences that are in the alphabet


def choose_alphabet(pieces: Mapping[str, int], coverage: float, limit: int = 0) -> Alphabet:
    """Selects the fewest characters, most frequent first, that reach a share (`coverage`) of all character occurrences.

    `pieces` are occurrences of one-character pieces (`a` begins words, `##a` continues them). The alphabet has at most
    `limit` characters (0: no limit). Of equally frequent characters those with lower code points are kept.
    """
    occurrences: Counter[str] = Counter()
    for piece, count in pieces.items():
        occurrences[piece[-1]] += count
    ranked = sorted(occurrences, key=lambda character: (-occurrences[character], character))
    total = sum(occurrences.values())
    target = math.ceil(Fraction(repr(coverage)) * total)
    kept: set[str] = set()
    covered = 0
    for character in ranked[: limit or None]:
        if covered >= target:
            break
        kept.add(character)
        covered += occurrences[character]
    first = sorted(piece for piece in pieces if len(piece) == 1 and piece in kept)
    later = sorted(piece for piece in pieces if len(piece) > 1 and piece[-1] in kept)
    return Alphabet((*first, *later), len(kept), covered / max(total, 1))


def learn(counts: Mapping[str, int], size: int, alphabet: Sequence[str], unit: int = 1) -> Vocabulary:
    """Trains a vocabulary of the special tokens, the alphabet, then the trained pieces.

    Equal counts result in the same vocabulary in the same order. Counts are multiples of 1 / `unit`. The vocabulary has
    fewer than `size` pieces if the words do not have enough. Words with characters outside the `alphabet` are ignored.
    Raises ConfigError if `size` is too small for the special tokens and the alphabet.
    """
    # The trainer numbers characters in the order of a hash table and breaks ties by number. Passing them in a fixed
    # order makes the result the same in every process.
    fixed = [*SPECIAL_TOKENS, *alphabet]
    if len(fixed) > size:
        raise ConfigError(
            f"--vocabulary_size must be at least {len(fixed)} to hold the special tokens and all characters of the "
            f"alphabet. Received: {size}. Raise it, or lower --character_coverage or --limit_alphabet."
        )
    known = set(alphabet)
    usable = {word: count for word, count in sorted(counts.items()) if _is_spelt_with(word, known)}
    tokens = _train(usable, size, fixed, unit)
    if tokens[: len(fixed)] != fixed or len(set(tokens)) != len(tokens) or len(tokens) > size:
        raise RuntimeError("the trainer dropped special tokens or returned duplicate or too many pieces.")
    if len(tokens) < size:
        print(f"vocabulary: the input yields {len(tokens)} pieces, not {size}", file=sys.stderr)
    return Vocabulary(tuple(tokens))


def _is_spelt_with(word: str, known: set[str]) -> bool:
    return (
        len(word) <= LONGEST_WORD
        and word[0] in known
        and all(CONTINUATION + character in known for character in word[1:])
    )


def _train(counts: Mapping[str, int], size: int, fixed: list[str], unit: int) -> list[str]:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        special_tokens=fixed,
        min_frequency=_MIN_FREQUENCY,
        continuing_subword_prefix=CONTINUATION,
        show_progress=False,
    )
    occurrences = math.ceil(sum(counts.values()) / unit)
    if occurrences > _MOST_OCCURRENCES:
        print(f"vocabulary: training on a sample of {_MOST_OCCURRENCES} of {occurrences} words", file=sys.stderr)
    sample = systematic_sample(counts, min(occurrences, _MOST_OCCURRENCES))
    tokenizer.train_from_iterator(_lines(sample), trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def systematic_sample(counts: Mapping[str, int], size: int) -> Iterator[tuple[str, int]]:
    """Yields a deterministic sample of `size` occurrences, evenly spaced over the words, as (word, occurrences).

    Any run of neighbouring words gets its exact share, plus or minus one. With sorted words, a common prefix is
    therefore represented correctly even if each word is rare.
    """
    total = sum(counts.values())
    seen = taken = 0
    for word, count in counts.items():
        seen += count
        upto = seen * size // total
        if upto > taken:
            yield word, upto - taken
            taken = upto


def _lines(counts: Iterable[tuple[str, int]]) -> Iterator[str]:
    for word, count in counts:
        for begin in range(0, count, _WORDS_A_LINE):
            yield " ".join([word] * min(_WORDS_A_LINE, count - begin))


@dataclasses.dataclass(frozen=True)
class VocabularyReport:
    """Metrics of a vocabulary on its training words; shares and numbers of pieces do not count special tokens."""

    fertility: float  # pieces per word
    unk_rate: float  # share of words with [UNK]
    continuation_share: float  # share of pieces that continue words
    unused_pieces: int  # pieces that occur in no word: steps towards longer pieces
    longest_pieces: tuple[str, ...]  # the five longest without `##`, longest first
    rare_share: float  # share of pieces of several characters that occur too rarely to be trained well


def advised_size(vocabulary: Vocabulary, describe_first: Callable[[int], VocabularyReport]) -> int:
    """Returns the largest of the usual sizes whose pieces are frequent enough; the smallest if none is.

    Args:
        vocabulary: a learned vocabulary. Its first pieces are the vocabulary of that size.
        describe_first: returns the metrics of the first pieces, of a number.
    """
    fixed = sum(len(token.removeprefix(CONTINUATION)) == 1 for token in vocabulary.tokens) + len(SPECIAL_TOKENS)
    sizes = [size for size in USUAL_SIZES if fixed < size < len(vocabulary)]
    for size in (len(vocabulary), *sizes):
        if describe_first(size).rare_share <= _MOST_RARE:
            return size
    return sizes[-1] if sizes else len(vocabulary)


def describe(
    vocabulary: Vocabulary, tables: Iterable[Mapping[bytes, int]], lowercase: bool, unit: int = 1
) -> VocabularyReport:
    """Tokenizes all counted words, which are UTF-8 by table, and computes the metrics of the vocabulary.

    Counts are multiples of 1 / `unit`.
    """
    tokenizer = shared_tokenizer(vocabulary.tokens, lowercase)
    occurrences = np.zeros(len(vocabulary), np.int64)
    pieces = unknown = total = 0
    for table in tables:
        ids = tokenizer.tokenize([word.decode("utf-8") for word in table])
        values, splits = ids.values, ids.row_splits
        counts = np.fromiter(table.values(), np.int64, len(table))
        weights = np.repeat(counts, np.diff(splits))
        occurrences += np.bincount(values, weights, len(vocabulary)).astype(np.int64)
        pieces += int(np.diff(splits) @ counts)
        unknown_so_far = np.concatenate([[0], np.cumsum(values == vocabulary.unk_id)])[splits]
        unknown += int((np.diff(unknown_so_far) > 0) @ counts)
        total += int(counts.sum())
    learned = [token for token in vocabulary.tokens if token not in SPECIAL_TOKENS]
    continuing = sum(token.startswith(CONTINUATION) for token in learned)
    bare = [token.removeprefix(CONTINUATION) for token in learned]
    occurrences[list(vocabulary.special_ids)] = np.iinfo(np.int64).max
    trained = [number for number, token in enumerate(vocabulary.tokens) if len(token.removeprefix(CONTINUATION)) > 1]
    rare = int(np.count_nonzero(occurrences[trained] < _FREQUENT * unit))
    return VocabularyReport(
        fertility=round(pieces / max(total, 1), 4),
        unk_rate=round(unknown / max(total, 1), 6),
        continuation_share=round(continuing / max(len(learned), 1), 4),
        unused_pieces=int(np.count_nonzero(occurrences == 0)),
        longest_pieces=tuple(sorted(set(bare), key=lambda piece: (-len(piece), piece))[:_LONGEST_SHOWN]),
        rare_share=round(rare / max(len(trained) - len(SPECIAL_TOKENS), 1), 4),
    )

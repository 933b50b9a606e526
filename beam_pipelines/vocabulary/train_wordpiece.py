"""Word counts to a WordPiece vocabulary, on the driver, by the trainer of Hugging Face's `tokenizers`."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from beam_pipelines.transforms.count_words import LONGEST_WORD
from beam_pipelines.transforms.tokenize import shared_tokenizer
from bert_tf.config import ConfigError
from bert_tf.text.vocabulary import CONTINUATION, SPECIAL_TOKENS, Vocabulary

# Pieces seen once teach nothing.
_MIN_FREQUENCY = 2
# The trainer takes text only, so a word is fed as often as it occurs, about 3 M words a CPU second. Of more words a
# systematic sample is fed. Measured on 38 M words of Wikipedia and books, 30,522 pieces, as pieces a word on 7 M words
# held out: all words 1.0963, samples of 20 M 1.0962, of 5 M 1.0961, of 1 M 1.0973; 1 M by rounding each count up to
# one at least: 1.1209.
_MOST_OCCURRENCES = 20_000_000
_WORDS_A_LINE = 1000
_LONGEST_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Alphabet:
    """The characters a vocabulary knows.

    Args:
        pieces: those that begin words, then, with `##`, those that continue them, each in the order of code points.
        characters: how many different characters they are.
        coverage: share of the corpus's character occurrences they hold.
    """

    pieces: tuple[str, ...]
    characters: int
    coverage: float


def choose_alphabet(pieces: Mapping[str, int], coverage: float, limit: int = 0) -> Alphabet:
    """Chooses the fewest characters, the most frequent first, that hold a share of all character occurrences.

    Args:
        pieces: one-character pieces (`a` begins words, `##a` continues them) to their occurrences.
        coverage: the share to be reached, in (0, 1].
        limit: the most characters to keep, whatever the share; 0 for no such limit.

    Returns:
        The alphabet; of equally frequent characters the lower code points are kept.
    """
    occurrences: Counter[str] = Counter()
    for piece, count in pieces.items():
        occurrences[piece[-1]] += count
    ranked = sorted(occurrences, key=lambda character: (-occurrences[character], character))
    total = sum(occurrences.values())
    wanted = math.ceil(Fraction(repr(coverage)) * total)
    kept: set[str] = set()
    held = 0
    for character in ranked[: limit or None]:
        if held >= wanted:
            break
        kept.add(character)
        held += occurrences[character]
    first = sorted(piece for piece in pieces if len(piece) == 1 and piece in kept)
    later = sorted(piece for piece in pieces if len(piece) > 1 and piece[-1] in kept)
    return Alphabet((*first, *later), len(kept), held / max(total, 1))


def learn(counts: Mapping[str, int], size: int, alphabet: Sequence[str], unit: int = 1) -> Vocabulary:
    """Learns a vocabulary; the same counts give the same vocabulary, in the same order.

    Args:
        counts: occurrences of normalized words, as multiples of 1 / `unit`.
        size: pieces wanted, special tokens included; there are fewer where the words do not give so many.
        alphabet: one-character pieces (`Alphabet.pieces`); words of other characters teach nothing.
        unit: what one occurrence counts.

    Returns:
        The special tokens, the alphabet, then the learned pieces.

    Raises:
        ConfigError: when `size` does not hold the special tokens and the alphabet.
    """
    # The trainer numbers characters in the order of a hash table, and breaks ties by number: given beforehand, in
    # our order, they make its result the same in every process.
    fixed = [*SPECIAL_TOKENS, *alphabet]
    if len(fixed) > size:
        raise ConfigError(
            f"--vocabulary_size must be at least {len(fixed)} to hold the special tokens and all characters of the "
            f"alphabet; raise it, or lower --character_coverage or --limit_alphabet. Received: {size}"
        )
    known = set(alphabet)
    usable = {word: count for word, count in sorted(counts.items()) if _is_spelt_with(word, known)}
    tokens = _train(usable, size, fixed, unit)
    if tokens[: len(fixed)] != fixed or len(set(tokens)) != len(tokens) or len(tokens) > size:
        raise RuntimeError("the trainer did not keep the special tokens, gave duplicates or too many pieces.")
    if len(tokens) < size:
        print(f"vocabulary: the input gives {len(tokens)} pieces, not {size}", file=sys.stderr)
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
        print(f"vocabulary: learning from a sample of {_MOST_OCCURRENCES} of {occurrences} words", file=sys.stderr)
    sample = systematic_sample(counts, min(occurrences, _MOST_OCCURRENCES))
    tokenizer.train_from_iterator(_lines(sample), trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def systematic_sample(counts: Mapping[str, int], size: int) -> Iterator[tuple[str, int]]:
    """Yields `size` of all occurrences, evenly spaced over the words in the order given, as (word, occurrences).

    The sum over any run of neighbouring words is its exact share, give or take one, so that sorted words which begin
    alike are represented as they should be even where each of them is rare. No chance is in it.
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
    """How a vocabulary fits the words it was learned from.

    Args:
        fertility: pieces a word.
        unk_rate: share of words that hold [UNK].
        continuation_share: share of the pieces (special tokens apart) that continue words.
        unused_pieces: pieces (special tokens apart) that no word needs: steps on the way to longer ones.
        longest_pieces: the five longest, without `##`, the longest first.
    """

    fertility: float
    unk_rate: float
    continuation_share: float
    unused_pieces: int
    longest_pieces: tuple[str, ...]


def describe(vocabulary: Vocabulary, tables: Iterable[Mapping[bytes, int]], lowercase: bool) -> VocabularyReport:
    """Tokenizes all counted words.

    Args:
        vocabulary: what was learned.
        tables: words in UTF-8 and their counts, table by table.
        lowercase: as the tokenizer that will use the vocabulary.
    """
    tokenizer = shared_tokenizer(vocabulary.tokens, lowercase)
    used = np.zeros(len(vocabulary), np.bool_)
    pieces = unknown = total = 0
    for table in tables:
        values, splits = tokenizer.tokenize([word.decode("utf-8") for word in table])
        counts = np.fromiter(table.values(), np.int64, len(table))
        used[values] = True
        pieces += int(np.diff(splits) @ counts)
        unknown_so_far = np.concatenate([[0], np.cumsum(values == vocabulary.unk_id)])[splits]
        unknown += int((np.diff(unknown_so_far) > 0) @ counts)
        total += int(counts.sum())
    learned = [token for token in vocabulary.tokens if token not in SPECIAL_TOKENS]
    continuing = sum(token.startswith(CONTINUATION) for token in learned)
    bare = [token.removeprefix(CONTINUATION) for token in learned]
    used[list(vocabulary.special_ids)] = True
    return VocabularyReport(
        fertility=round(pieces / max(total, 1), 4),
        unk_rate=round(unknown / max(total, 1), 6),
        continuation_share=round(continuing / max(len(learned), 1), 4),
        unused_pieces=int(np.count_nonzero(~used)),
        longest_pieces=tuple(sorted(set(bare), key=lambda piece: (-len(piece), piece))[:_LONGEST_SHOWN]),
    )

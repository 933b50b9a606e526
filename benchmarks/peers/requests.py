"""Raw texts for all contenders of `benchmarks.serving`, and a vocabulary with their words.

The vocabulary is synthetic and has the size of the published one, which may be unavailable. Every text fills its row
with word pieces.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.peers.batches import LENGTH, VOCABULARY_SIZE

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnpqrstvwxz" for vowel in "aeiou"]
_TEXTS = 64
# One in so many words has two pieces, about as in English.
_OF_TWO_PIECES = 6
# Token counts of mixed texts: an exponential distribution above the shortest, capped at the longest.
_SHORTEST, _MEAN, _LONGEST = 6, 30, 128
_MIXED_TEXTS = 512


def vocabulary() -> list[str]:
    """Returns `VOCABULARY_SIZE` word pieces: special tokens, one-syllable endings, words of two and three syllables."""
    endings = [f"##{syllable}" for syllable in _SYLLABLES]
    short = ["".join(parts) for parts in itertools.product(_SYLLABLES, repeat=2)]
    chosen = random.Random(0).sample(range(len(_SYLLABLES) ** 3), VOCABULARY_SIZE)
    long = [_word(number) for number in chosen]
    return [*SPECIAL_TOKENS, *endings, *short, *long][:VOCABULARY_SIZE]


def texts(length: int = LENGTH, count: int = _TEXTS, seed: int = 0) -> list[str]:
    """Returns texts that fill rows of exactly `length` tokens, [CLS] and [SEP] included.

    Args:
        length: tokens per row, at least 2.
        count: number of texts.
        seed: seed of the choice of words.
    """
    return _texts([length] * count, random.Random(seed))


def mixed_texts(count: int = _MIXED_TEXTS, seed: int = 0) -> list[str]:
    """Returns texts of 6 to 128 tokens, [CLS] and [SEP] included, about 30 on average: many short ones, few long ones.

    Args:
        count: number of texts.
        seed: seed of the lengths and the choice of words.
    """
    rng = random.Random(seed)
    drawn = [_SHORTEST + int(rng.expovariate(1 / (_MEAN - _SHORTEST))) for _ in range(count)]
    return _texts([min(length, _LONGEST) for length in drawn], rng)


def _texts(lengths: Sequence[int], rng: random.Random) -> list[str]:
    words = [piece for piece in vocabulary() if piece.isalpha()]
    # A word of four syllables is not a piece: its longest prefix is a word of three syllables, the rest is an ending.
    stems = [word for word in words if len(word) == 6]
    return [_text(length - 2, words, stems, rng) for length in lengths]


def _text(pieces: int, words: Sequence[str], stems: Sequence[str], rng: random.Random) -> str:
    text_words = []
    while pieces:
        if pieces > 1 and len(text_words) % _OF_TWO_PIECES == _OF_TWO_PIECES - 1:
            text_words.append(rng.choice(stems) + rng.choice(_SYLLABLES))
            pieces -= 2
        else:
            text_words.append(rng.choice(words))
            pieces -= 1
    return " ".join(text_words)


def _word(number: int) -> str:
    """Returns the word of three syllables with a given number."""
    count = len(_SYLLABLES)
    return "".join(_SYLLABLES[digit] for digit in (number // count**2, number // count % count, number % count))


def endless(rows: Sequence[str], batch_size: int) -> Iterator[list[str]]:
    """Yields batches of texts in an endless cycle."""
    cycle = itertools.cycle(rows)
    while True:
        yield list(itertools.islice(cycle, batch_size))


def write(folder: Path, length: int = LENGTH) -> None:
    """Writes texts.json and vocab.txt."""
    (folder / "texts.json").write_text(json.dumps(texts(length)), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join([*vocabulary(), ""]), encoding="utf-8")


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Returns a parser with the arguments of all contenders."""
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    parser.add_argument("--requests", type=Path, required=True, help="folder of `write`")
    parser.add_argument("--batch_size", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    return parser


def batches_of(args: argparse.Namespace) -> Iterator[list[str]]:
    """Yields the batches of a contender in an endless cycle."""
    return endless(json.loads((args.requests / "texts.json").read_text(encoding="utf-8")), args.batch_size)

"""Raw texts that all contenders of `benchmarks.serving` answer, and a vocabulary that they are words of.

The vocabulary is made up, of the size of the published one, which need not be at hand. Every text is of as many word
pieces as its row has room for.
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
# Of so many words one is of two pieces, about as in English.
_OF_TWO_PIECES = 6
# Tokens of mixed texts: an exponential distribution above the shortest, which the longest cuts off.
_SHORTEST, _MEAN, _LONGEST = 6, 30, 128
_MIXED_TEXTS = 512


def vocabulary() -> list[str]:
    """Returns `VOCABULARY_SIZE` word pieces: special ones, endings of one syllable, words of two and of three."""
    endings = [f"##{syllable}" for syllable in _SYLLABLES]
    short = ["".join(parts) for parts in itertools.product(_SYLLABLES, repeat=2)]
    chosen = random.Random(0).sample(range(len(_SYLLABLES) ** 3), VOCABULARY_SIZE)
    long = [_word(number) for number in chosen]
    return [*SPECIAL_TOKENS, *endings, *short, *long][:VOCABULARY_SIZE]


def texts(length: int = LENGTH, count: int = _TEXTS, seed: int = 0) -> list[str]:
    """Returns texts that make rows of exactly `length` tokens, [CLS] and [SEP] counted.

    Args:
        length: tokens of a row, 2 at least.
        count: of texts.
        seed: of the choice of words.
    """
    return _texts([length] * count, random.Random(seed))


def mixed_texts(count: int = _MIXED_TEXTS, seed: int = 0) -> list[str]:
    """Returns texts of 6 to 128 tokens, [CLS] and [SEP] counted, about 30 in the mean: many short ones, few long ones.

    Args:
        count: of texts.
        seed: of the lengths and of the choice of words.
    """
    rng = random.Random(seed)
    drawn = [_SHORTEST + int(rng.expovariate(1 / (_MEAN - _SHORTEST))) for _ in range(count)]
    return _texts([min(length, _LONGEST) for length in drawn], rng)


def _texts(lengths: Sequence[int], rng: random.Random) -> list[str]:
    words = [piece for piece in vocabulary() if piece.isalpha()]
    # A fourth syllable makes a word that is no piece: its longest beginning is the word of three, its rest the ending.
    stems = [word for word in words if len(word) == 6]
    return [_text(length - 2, words, stems, rng) for length in lengths]


def _text(pieces: int, words: Sequence[str], stems: Sequence[str], rng: random.Random) -> str:
    found = []
    while pieces:
        if pieces > 1 and len(found) % _OF_TWO_PIECES == _OF_TWO_PIECES - 1:
            found.append(rng.choice(stems) + rng.choice(_SYLLABLES))
            pieces -= 2
        else:
            found.append(rng.choice(words))
            pieces -= 1
    return " ".join(found)


def _word(number: int) -> str:
    """Returns the word of three syllables of a number."""
    count = len(_SYLLABLES)
    return "".join(_SYLLABLES[digit] for digit in (number // count**2, number // count % count, number % count))


def endless(rows: Sequence[str], batch_size: int) -> Iterator[list[str]]:
    """Yields batches of texts, from the first one again after the last."""
    cycle = itertools.cycle(rows)
    while True:
        yield list(itertools.islice(cycle, batch_size))


def write(folder: Path, length: int = LENGTH) -> None:
    """Writes texts.json and vocab.txt."""
    (folder / "texts.json").write_text(json.dumps(texts(length)), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join([*vocabulary(), ""]), encoding="utf-8")


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Returns the parser of what every contender is told."""
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    parser.add_argument("--requests", type=Path, required=True, help="folder of `write`")
    parser.add_argument("--batch_size", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    return parser


def batches_of(args: argparse.Namespace) -> Iterator[list[str]]:
    """Returns the batches that a contender answers, one after the other."""
    return endless(json.loads((args.requests / "texts.json").read_text(encoding="utf-8")), args.batch_size)

"""Word counts to a WordPiece vocabulary, on the driver, by the trainer of Hugging Face's `tokenizers`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from beam_pipelines.transforms.tokenize import shared_tokenizer
from bert_tf.config import ConfigError
from bert_tf.text.vocabulary import CONTINUATION, SPECIAL_TOKENS, Vocabulary

# The tokenizer gives [UNK] for longer words, so they can teach nothing.
_LONGEST_WORD = 200
# Pieces seen once teach nothing.
_MIN_FREQUENCY = 2
# The trainer takes text only, so a word is fed as often as it occurs, about 2 M words/s; above this many
# occurrences all counts are scaled down.
_MOST_OCCURRENCES = 50_000_000
_WORDS_A_LINE = 1000


def learn(counts: Mapping[str, int], size: int, limit_alphabet: int) -> Vocabulary:
    """Learns a vocabulary; the same counts give the same vocabulary, in the same order.

    Args:
        counts: occurrences of normalized words.
        size: pieces wanted, special tokens included; there are fewer where the words do not give so many.
        limit_alphabet: distinct characters kept, the most frequent first.

    Returns:
        The special tokens, the characters that begin words, those that continue words, then the learned pieces.

    Raises:
        ConfigError: when `size` does not hold the special tokens and the characters.
    """
    counts = {word: count for word, count in counts.items() if len(word) <= _LONGEST_WORD}
    alphabet = _alphabet(counts, limit_alphabet)
    counts = {word: count for word, count in sorted(counts.items()) if alphabet.issuperset(word)}
    first = sorted({word[0] for word in counts})
    later = sorted({character for word in counts for character in word[1:]})
    # The trainer numbers characters in the order of a hash table, and breaks ties by number: given beforehand, in
    # our order, they make its result the same in every process.
    fixed = [*SPECIAL_TOKENS, *first, *(CONTINUATION + character for character in later)]
    if len(fixed) > size:
        raise ConfigError(
            f"--vocabulary_size must be at least {len(fixed)} to hold the special tokens and all characters of the "
            f"input; lower --limit_alphabet ({limit_alphabet}) or raise it. Received: {size}"
        )
    tokens = _train(counts, size, fixed)
    if tokens[: len(fixed)] != fixed or len(set(tokens)) != len(tokens) or len(tokens) > size:
        raise RuntimeError("the trainer did not keep the special tokens, gave duplicates or too many pieces.")
    if len(tokens) < size:
        print(f"vocabulary: the input gives {len(tokens)} pieces, not {size}", file=sys.stderr)
    return Vocabulary(tuple(tokens))


def _alphabet(counts: Mapping[str, int], limit: int) -> set[str]:
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    ranked = sorted(characters, key=lambda character: (-characters[character], character))
    return set(ranked[:limit])


def _train(counts: Mapping[str, int], size: int, fixed: list[str]) -> list[str]:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        special_tokens=fixed,
        min_frequency=_MIN_FREQUENCY,
        continuing_subword_prefix=CONTINUATION,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_lines(counts), trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def _lines(counts: Mapping[str, int]) -> Iterator[str]:
    total = sum(counts.values())
    if total > _MOST_OCCURRENCES:
        print(f"vocabulary: counts of {total} words are scaled to {_MOST_OCCURRENCES} for learning", file=sys.stderr)
    for word, count in counts.items():
        if total > _MOST_OCCURRENCES:
            count = max(1, round(count * _MOST_OCCURRENCES / total))
        for begin in range(0, count, _WORDS_A_LINE):
            yield " ".join([word] * min(_WORDS_A_LINE, count - begin))


def measure(counts: Mapping[str, int], vocabulary: Vocabulary, lowercase: bool) -> tuple[float, float]:
    """Returns (pieces a word, share of words that hold [UNK]) of `vocabulary` over the counted words."""
    words = list(counts)
    weights = np.array([counts[word] for word in words], np.float64)
    values, splits = shared_tokenizer(vocabulary.tokens, lowercase).tokenize(words)
    unknown = np.concatenate([[0], np.cumsum(values == vocabulary.unk_id)])[splits]
    total = max(weights.sum(), 1.0)
    fertility = float((np.diff(splits) * weights).sum() / total)
    return fertility, float(((np.diff(unknown) > 0) * weights).sum() / total)

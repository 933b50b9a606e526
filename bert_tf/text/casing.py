"""Detects the casing of a vocabulary from its word pieces."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from bert_tf.config import ConfigError
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

# Chinese releases contain `<S>` and `<T>`.
_SPECIAL = frozenset((*SPECIAL_TOKENS, "<S>", "<T>"))


def is_lowercase(vocabulary: Vocabulary) -> bool:
    """Returns True if no word piece contains a capital letter, special tokens (in brackets) excluded."""
    return _capitalised(vocabulary) is None


def infer_lowercase(vocabulary: Vocabulary) -> bool | None:
    """Infers from a vocabulary whether text should be lower-cased.

    False if a piece has a capital letter. True if no piece has one, but some have letters that are capitalised at the
    start of a sentence. None if the pieces allow both: there are no such letters (Chinese, Georgian), or there are
    accents, which lower-casing would have stripped.
    """
    if not is_lowercase(vocabulary):
        return False
    pieces = list(_ordinary(vocabulary))
    if any(map(_has_accent, pieces)) or all(piece == piece.title() for piece in pieces):
        return None
    return True


def resolve_lowercase(vocabulary: Vocabulary, cased: bool, name: object) -> bool:
    """Returns True if text is lower-cased: by the vocabulary, or `cased`. Raises ConfigError if these contradict."""
    lowercase = infer_lowercase(vocabulary)
    if cased and lowercase:
        raise ConfigError(
            f"--cased cannot be used with the vocabulary {name}: no word piece has a capital letter, so capitalised "
            "words would become [UNK]. Remove --cased, or train a vocabulary with `bert-tf vocab --cased`. "
            "Received: --cased"
        )
    return not cased if lowercase is None else lowercase


def casing_notice(vocabulary: Vocabulary, cased: bool) -> str | None:
    """Returns a message if the vocabulary preserves case although `cased` is False; None otherwise."""
    piece = None if cased else _capitalised(vocabulary)
    return piece and f"the vocabulary is cased (it contains {piece!r}): case and accents of the text are preserved"


def _capitalised(vocabulary: Vocabulary) -> str | None:
    return next((piece for piece in _ordinary(vocabulary) if piece != piece.lower()), None)


def _ordinary(vocabulary: Vocabulary) -> Iterator[str]:
    return (token for token in vocabulary.tokens if token not in _SPECIAL and not token.startswith("["))


def _has_accent(piece: str) -> bool:
    return any(unicodedata.category(character) == "Mn" for character in unicodedata.normalize("NFD", piece))

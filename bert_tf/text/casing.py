"""Detects the casing of a vocabulary from its word pieces."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterator

from bert_tf.config import ConfigError
from bert_tf.text.vocabulary import CONTINUATION, SPECIAL_TOKENS, Vocabulary

logger = logging.getLogger(__name__)

# Chinese releases contain `<S>` and `<T>`.
_SPECIAL = frozenset((*SPECIAL_TOKENS, "<S>", "<T>"))
# Least share of pieces with capitals in a cased vocabulary, which has at least the capital letters of its alphabet. The
# cased releases of BERT have 27 % (English) and 15 % (multilingual).
_CASED_SHARE = 0.01


def is_lowercase(vocabulary: Vocabulary) -> bool:
    """Returns True if fewer than 1 % of the word pieces have a capital letter, and logs which ones have.

    Special tokens in brackets, and placeholders such as `URL`, do not count.
    """
    if _is_cased(vocabulary):
        return False
    if capitals := _capitalised(vocabulary):
        logger.warning("%s. If the model is cased, convert it with `bert-tf convert --lowercase false`", _few(capitals))
    return True


def infer_lowercase(vocabulary: Vocabulary) -> bool | None:
    """Infers from a vocabulary whether text should be lower-cased.

    False if at least 1 % of the pieces have a capital letter. True if no piece has one, but some have letters that are
    capitalised at the start of a sentence. None if the pieces allow both: a few have capitals, such as placeholders,
    there are no such letters (Chinese, Georgian), or there are accents, which lower-casing would have stripped.
    """
    if _is_cased(vocabulary):
        return False
    pieces = list(_ordinary(vocabulary))
    if _capitalised(vocabulary) or any(map(_has_accent, pieces)) or all(piece == piece.title() for piece in pieces):
        return None
    return True


def resolve_lowercase(vocabulary: Vocabulary, cased: bool, name: object) -> bool:
    """Returns True if text is lower-cased and stripped of accents, by the vocabulary and the value of `--cased`.

    Without `--cased`, a vocabulary that allows both is used with lower-casing. Raises ConfigError if `cased` is True
    for an uncased vocabulary.
    """
    lowercase = infer_lowercase(vocabulary)
    if cased and lowercase:
        raise ConfigError(
            f"--cased cannot be used with the vocabulary {name}: no word piece has a capital letter, so capitalised "
            "words would become [UNK]. Remove --cased, or train a vocabulary with `bert-tf vocab --cased`. "
            "Received: --cased"
        )
    return not cased if lowercase is None else lowercase


def casing_notice(vocabulary: Vocabulary, cased: bool) -> str | None:
    """Returns a message if the casing was decided by the vocabulary, which has capitals, and not by `cased`."""
    capitals = [] if cased else _capitalised(vocabulary)
    if not capitals:
        return None
    if _is_cased(vocabulary):
        return f"the vocabulary is cased (it contains {capitals[0]!r}): case and accents of the text are preserved"
    return f"{_few(capitals)}. Add --cased to preserve case"


def _few(capitals: list[str]) -> str:
    return (
        f"{len(capitals)} word pieces have capitals, such as {capitals[0]!r}, too few for a cased vocabulary: "
        "text is lower-cased"
    )


def _is_cased(vocabulary: Vocabulary) -> bool:
    pieces = list(_ordinary(vocabulary))
    # Placeholders in uncased vocabularies are words of capitals.
    cased = [
        piece
        for piece in _capitalised(vocabulary)
        if len(piece.removeprefix(CONTINUATION)) == 1 or piece != piece.upper()
    ]
    return bool(cased) and len(cased) >= _CASED_SHARE * len(pieces)


def _capitalised(vocabulary: Vocabulary) -> list[str]:
    return [piece for piece in _ordinary(vocabulary) if piece != piece.lower()]


def _ordinary(vocabulary: Vocabulary) -> Iterator[str]:
    return (token for token in vocabulary.tokens if token not in _SPECIAL and not token.startswith("["))


def _has_accent(piece: str) -> bool:
    return any(unicodedata.category(character) == "Mn" for character in unicodedata.normalize("NFD", piece))

"""The casing of a vocabulary: its word pieces show whether it was learned from lower-cased text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from bert_tf.config.base import ConfigError
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

# Chinese releases have `<S>` and `<T>`.
_SPECIAL = frozenset((*SPECIAL_TOKENS, "<S>", "<T>"))


def is_lowercase(vocabulary: Vocabulary) -> bool:
    """Returns whether no word piece but special ones (in brackets) has a capital, which lower-cased text never has."""
    return _capitalised(vocabulary) is None


def infer_lowercase(vocabulary: Vocabulary) -> bool | None:
    """Returns the casing of a vocabulary as far as its word pieces show it.

    Returns:
        False where a piece has a capital. True where none has, but some have letters that begin sentences as
        capitals. None where the pieces allow both: without such letters (Chinese, Georgian), or with accents, which
        are stripped together with capitals.
    """
    if not is_lowercase(vocabulary):
        return False
    pieces = list(_ordinary(vocabulary))
    if any(map(_has_accent, pieces)) or all(piece == piece.title() for piece in pieces):
        return None
    return True


def resolve_lowercase(vocabulary: Vocabulary, cased: bool, name: object) -> bool:
    """Returns whether text is to be lower-cased and stripped of accents.

    Args:
        vocabulary: of the tokenizer.
        cased: whether `--cased` was given. Without it a vocabulary that allows both means lower-casing.
        name: the vocabulary's file, for the message.

    Raises:
        ConfigError: where `--cased` was given for a vocabulary of lower-cased text.
    """
    lowercase = infer_lowercase(vocabulary)
    if cased and lowercase:
        raise ConfigError(
            f"--cased does not go with the vocabulary {name}: none of its word pieces has a capital, so that words "
            "with capitals would become [UNK]. Leave out --cased, or learn a vocabulary with `bert-tf vocab --cased`. "
            "Received: --cased"
        )
    return not cased if lowercase is None else lowercase


def casing_notice(vocabulary: Vocabulary, cased: bool) -> str | None:
    """Returns a line that says why case is kept although `--cased` was not given, None where it is not."""
    piece = None if cased else _capitalised(vocabulary)
    return piece and f"the vocabulary is cased (it has {piece!r}): case and accents of the text are kept"


def _capitalised(vocabulary: Vocabulary) -> str | None:
    return next((piece for piece in _ordinary(vocabulary) if piece != piece.lower()), None)


def _ordinary(vocabulary: Vocabulary) -> Iterator[str]:
    return (token for token in vocabulary.tokens if token not in _SPECIAL and not token.startswith("["))


def _has_accent(piece: str) -> bool:
    return any(unicodedata.category(character) == "Mn" for character in unicodedata.normalize("NFD", piece))

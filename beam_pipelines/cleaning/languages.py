"""In which language a text is: py3langid, a naive Bayes classifier over byte n-grams with its model in the package.

Only the languages with an ISO 639-1 code take part, so that a Wu or Cantonese text counts as Chinese. The scores are
sums of float32: another kind of processor may decide otherwise where two languages are as likely to six digits, in
about one document of Wikipedia in 40 million.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from bert_tf.config import ConfigError

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# A sample from beginning, middle and end: a preface or a list of sources alone may be in another language.
_PIECES = 3
_PIECE_CHARACTERS = 200


def check_languages(codes: Iterable[str]) -> None:
    """Checks that all languages can be told from others.

    Args:
        codes: ISO 639-1 codes.

    Raises:
        ConfigError: with the known codes, for one that is not among them (such as `none`).
    """
    known = known_languages()
    unknown = [code for code in dict.fromkeys(codes) if code not in known]
    if unknown:
        raise ConfigError(
            f"`language_filter` needs languages that it can identify, any of: {', '.join(known)}. "
            f"Received: {', '.join(map(repr, unknown))}"
        )


def known_languages() -> tuple[str, ...]:
    """Returns the ISO 639-1 codes of all languages that can be identified, sorted."""
    return tuple(sorted(set(_identifier().nb_classes)))


def identify_language(text: str) -> str:
    """Returns the ISO 639-1 code of the most likely language of `text`; without any letter it means nothing."""
    return _identifier().classify(sample(text))[0]


def sample(text: str) -> str:
    """Returns at most `_PIECES * _PIECE_CHARACTERS` characters of `text`, spread over it."""
    spare = len(text) - _PIECE_CHARACTERS
    if len(text) <= _PIECES * _PIECE_CHARACTERS:
        return text
    begins = [piece * spare // (_PIECES - 1) for piece in range(_PIECES)]
    return " ".join(text[begin : begin + _PIECE_CHARACTERS] for begin in begins)


@functools.lru_cache(maxsize=1)
def _identifier() -> LanguageIdentifier:
    """Returns the one identifier of this process; loading it takes most of a second."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    identifier.set_languages([label for label in identifier.labels if len(label) == 2])
    # It takes rows of this table, which are scattered after columns were left out: 1.7 times faster so.
    identifier.nb_ptc = np.ascontiguousarray(identifier.nb_ptc)
    return identifier

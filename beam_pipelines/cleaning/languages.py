"""Language identification with py3langid, a naive Bayes classifier over byte n-grams with a bundled model.

Only languages with an ISO 639-1 code are candidates, so Wu and Cantonese texts count as Chinese. Scores are float32
sums: another processor type may decide differently if two languages are equally likely to six digits, which is about
one Wikipedia document in 40 million.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from bert_tf.config import ConfigError

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# Samples are taken from beginning, middle and end, because a preface or a list of sources may be in another language.
_PIECES = 3
_PIECE_CHARACTERS = 200


def check_languages(codes: Iterable[str]) -> None:
    """Raises ConfigError if an ISO 639-1 code (or `none`) cannot be identified; the message lists the known codes."""
    known = known_languages()
    unknown = [code for code in dict.fromkeys(codes) if code not in known]
    if unknown:
        raise ConfigError(
            f"`language_filter` requires identifiable languages, any of: {', '.join(known)}. "
            f"Received: {', '.join(map(repr, unknown))}"
        )


def known_languages() -> tuple[str, ...]:
    """Returns the ISO 639-1 codes of all identifiable languages, sorted."""
    return tuple(sorted(set(_identifier().nb_classes)))


def identify_language(text: str) -> str:
    """Returns the ISO 639-1 code of the most likely language of `text`; meaningless for a text without letters."""
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
    """Returns the cached identifier of this process; loading it takes most of a second."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    identifier.set_languages([label for label in identifier.labels if len(label) == 2])
    # After columns are dropped, the rows of this table are strided; a contiguous copy is 1.7 times faster.
    identifier.nb_ptc = np.ascontiguousarray(identifier.nb_ptc)
    return identifier

"""Leaves out documents that break a rule of the cleaning configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import apache_beam as beam
import numpy as np

from beam_pipelines.cleaning.languages import identify_language
from beam_pipelines.cleaning.quality import measure, repeated_lines
from beam_pipelines.sources.documents import RawDocument, excerpt
from bert_tf.config.cleaning import CleaningConfig

TOO_SHORT, SYMBOLS, REPEATED_LINES, LANGUAGE = "too_short", "symbols", "repeated_lines", "language"
NO_LANGUAGE = "none"


class FilterDocuments(beam.DoFn):
    """Gives documents that are to be left out their reason; all others, and those that have one, pass as they are.

    The reason is that of the first rule broken, in this order: `too_short`, `symbols`, `repeated_lines`, `language`.

    Args:
        cleaning: the rules.
        languages: of each input, as ISO 639-1 codes that `cleaning.languages.check_languages` accepts; documents of
            an input with `none` are not checked for theirs.
    """

    def __init__(self, cleaning: CleaningConfig, languages: tuple[str, ...]) -> None:
        self._cleaning = cleaning
        self._languages = languages

    def process(self, batch: list[RawDocument]) -> Iterable[list[RawDocument]]:
        """Yields one batch."""
        good = [number for number, document in enumerate(batch) if not document.reason]
        reasons = find_reasons([batch[number] for number in good], self._cleaning, self._languages)
        filtered = list(batch)
        for number, reason in zip(good, reasons, strict=True):
            if reason:
                document = batch[number]
                filtered[number] = document._replace(paragraphs=excerpt(document.paragraphs), reason=reason)
        yield filtered


def find_reasons(documents: Sequence[RawDocument], cleaning: CleaningConfig, languages: tuple[str, ...]) -> list[str]:
    """Returns for each document why it is left out, empty where it is kept; see `FilterDocuments`."""
    measures = measure([document.paragraphs for document in documents])
    reasons = []
    for document, words, symbol_ratio in zip(documents, *map(np.ndarray.tolist, measures), strict=True):
        if words < cleaning.min_words:
            reason = TOO_SHORT
        elif symbol_ratio > cleaning.max_symbol_ratio:
            reason = SYMBOLS
        elif repeated_lines(document.paragraphs) > cleaning.max_repeated_lines:
            reason = REPEATED_LINES
        # What has no words is in no language; tokenizing finds it empty.
        elif cleaning.language_filter and words and _is_foreign(document, languages[document.source]):
            reason = LANGUAGE
        else:
            reason = ""
        reasons.append(reason)
    return reasons


def _is_foreign(document: RawDocument, language: str) -> bool:
    return language != NO_LANGUAGE and identify_language("\n".join(document.paragraphs)) != language

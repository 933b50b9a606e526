"""Leaves out documents that break a rule of the cleaning configuration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beam_pipelines.cleaning.languages import identify_language
from beam_pipelines.cleaning.quality import measure, repeated_lines
from beam_pipelines.sources.documents import RawDocument, excerpt
from bert_tf.config.cleaning import CleaningConfig

TOO_SHORT, SYMBOLS, REPEATED_LINES, LANGUAGE = "too_short", "symbols", "repeated_lines", "language"
NO_LANGUAGE = "none"


def filter_documents(
    batch: list[RawDocument], cleaning: CleaningConfig, languages: tuple[str, ...]
) -> list[RawDocument]:
    """Sets the reason of documents that break a rule; all others, and documents with a reason, stay unchanged.

    The reason is the first broken rule, in this order: `too_short`, `symbols`, `repeated_lines`, `language`. The
    languages of the inputs are codes accepted by `cleaning.languages.check_languages`; for inputs with `none` the
    language is not checked.
    """
    good = [number for number, document in enumerate(batch) if not document.reason]
    reasons = find_reasons([batch[number] for number in good], cleaning, languages)
    filtered = list(batch)
    for number, reason in zip(good, reasons, strict=True):
        if reason:
            document = batch[number]
            filtered[number] = document._replace(paragraphs=excerpt(document.paragraphs), reason=reason)
    return filtered


def find_reasons(documents: Sequence[RawDocument], cleaning: CleaningConfig, languages: tuple[str, ...]) -> list[str]:
    """Returns the reason for leaving out each document, empty if it is kept; see `filter_documents`."""
    measures = measure([document.paragraphs for document in documents])
    reasons = []
    for document, words, symbol_ratio in zip(documents, *map(np.ndarray.tolist, measures), strict=True):
        if words < cleaning.min_words:
            reason = TOO_SHORT
        elif symbol_ratio > cleaning.max_symbol_ratio:
            reason = SYMBOLS
        elif repeated_lines(document.paragraphs) > cleaning.max_repeated_lines:
            reason = REPEATED_LINES
        # A document without words has no language; tokenization rejects it as empty.
        elif cleaning.language_filter and words and _is_foreign(document, languages[document.source]):
            reason = LANGUAGE
        else:
            reason = ""
        reasons.append(reason)
    return reasons


def _is_foreign(document: RawDocument, language: str) -> bool:
    return language != NO_LANGUAGE and identify_language("\n".join(document.paragraphs)) != language

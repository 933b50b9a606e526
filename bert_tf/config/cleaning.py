"""Configuration of the document filters."""

from __future__ import annotations

from dataclasses import dataclass

from bert_tf.config.errors import check_fields


@dataclass(frozen=True)
class CleaningConfig:
    """Document filters, all off by default. Exact duplicates are always removed.

    Words are separated by spaces and contain a letter or number; in scripts without spaces (Chinese, Japanese, Thai)
    every letter is a word. Usual values for prose are `min_words` 50 and `max_repeated_lines` 0.3 (arXiv 2112.11446,
    appendix A.1). 99.9 % of Wikipedia articles have a symbol ratio below 0.02, so a `max_symbol_ratio` of 0.1 is
    lenient.

    Args:
        language_filter: remove documents that are not in the language of their input.
        min_words: minimum number of words in a document.
        max_symbol_ratio: maximum share of symbols among the non-space characters. Symbols are all characters except
            letters, marks, numbers and ordinary punctuation.
        max_repeated_lines: maximum share of lines that repeat an earlier line of the same document.
        near_duplicates: similarity threshold for removing near-duplicates (Jaccard similarity of word 5-grams), 0.5 to
            0.95; 0 disables the search. 0.8 is usual (arXiv 2107.06499, 4.2).

    Example:
        >>> from bert_tf.config import CleaningConfig
        >>> cleaning = CleaningConfig(min_words=50, max_repeated_lines=0.3)
        >>> cleaning.filters
        True
        >>> bert_tf.DataConfig(cleaning=cleaning).cleaning.min_words
        50
    """

    language_filter: bool = False
    min_words: int = 0
    max_symbol_ratio: float = 1.0
    max_repeated_lines: float = 1.0
    near_duplicates: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self, ["min_words"], lambda value: value >= 0, "must be at least 0")
        ratios = ("max_symbol_ratio", "max_repeated_lines")
        check_fields(self, ratios, lambda value: 0.0 <= value <= 1.0, "must be in [0, 1]")
        # Below 0.5 most document pairs are compared; above 0.95 the resolution of 128 minimum hashes is too low.
        rule = "must be 0 (off) or in [0.5, 0.95]"
        check_fields(self, ["near_duplicates"], lambda value: not value or 0.5 <= value <= 0.95, rule)

    @property
    def filters(self) -> bool:
        """True if any filter of single documents is on."""
        return self != CleaningConfig(near_duplicates=self.near_duplicates)

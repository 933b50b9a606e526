"""Which documents of a corpus are worth keeping."""

from __future__ import annotations

from dataclasses import dataclass

from bert_tf.config.base import ConfigError


@dataclass(frozen=True)
class CleaningConfig:
    """Rules that leave documents out; every rule is off by default. Exact duplicates are always left out.

    A word is what stands between spaces and holds a letter or number; in scripts without spaces (Chinese, Japanese,
    Thai) every letter is one. For prose `min_words` 50 and `max_repeated_lines` 0.3 are usual (arXiv 2112.11446,
    appendix A.1); 99.9 % of the articles of Wikipedia have a `max_symbol_ratio` below 0.02, so that 0.1 is lenient.

    Args:
        language_filter: leave out documents that are not in the language of their input.
        min_words: leave out documents of fewer words.
        max_symbol_ratio: leave out documents with a larger share of symbols among their characters that are not
            spaces. Symbols are all but letters, marks, numbers and the punctuation of ordinary prose.
        max_repeated_lines: leave out documents with a larger share of lines that occurred before in them.
        near_duplicates: leave out documents at least this similar to another (Jaccard similarity of their runs of
            five words), 0.5 to 0.95; 0 looks for none. 0.8 is usual (arXiv 2107.06499, 4.2).
    """

    language_filter: bool = False
    min_words: int = 0
    max_symbol_ratio: float = 1.0
    max_repeated_lines: float = 1.0
    near_duplicates: float = 0.0

    def __post_init__(self) -> None:
        if self.min_words < 0:
            raise ConfigError(f"`min_words` must be at least 0. Received: {self.min_words}")
        for name in ("max_symbol_ratio", "max_repeated_lines"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"`{name}` must be in [0, 1]. Received: {getattr(self, name)}")
        # Below, most of a corpus is compared with most; above, 128 minimum hashes cannot tell the difference.
        if self.near_duplicates and not 0.5 <= self.near_duplicates <= 0.95:
            raise ConfigError(f"`near_duplicates` must be 0 (off) or in [0.5, 0.95]. Received: {self.near_duplicates}")

    @property
    def filters(self) -> bool:
        """Whether a rule looks at documents one by one."""
        return self != CleaningConfig(near_duplicates=self.near_duplicates)

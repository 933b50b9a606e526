"""Configuration of pre-training data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from bert_tf.config.cleaning import CleaningConfig
from bert_tf.config.errors import ConfigError, check_fields

# When the checksums of the data are verified against the manifest.
VERIFY = ("never", "once", "always")


@dataclass(frozen=True)
class DataConfig:
    """Configuration of pre-training examples (arXiv 1810.04805, appendix A.2).

    Args:
        max_seq_length: maximum tokens per example, including [CLS] and both [SEP].
        masking: `dynamic` (new masks in every epoch, drawn during training) or `static` (masks stored in the records).
        dupe_factor: passes over the corpus, each with its own pairs (and masks, if static).
        short_seq_prob: share of target lengths drawn uniformly from 2 to the maximum.
        random_next_prob: share of pairs whose second segment comes from another document.
        masked_lm_prob: share of tokens to predict; 0.15 in the paper, 0.3 to 0.4 in newer recipes (arXiv 2202.08005).
        max_predictions_per_seq: maximum number of predictions per example; 0 derives it: `masked_lm_prob` times
            `max_seq_length`, rounded up. A smaller number lowers the share of tokens to predict in long examples.
        mask_share: share of predicted positions replaced by [MASK].
        random_share: share of predicted positions replaced by a random token; the rest are unchanged.
        mask_unit: unit of masking: `piece`, `whole_word` (all pieces of a word) or `span` (several words).
        max_ngram: maximum words in a span; a span of n words has a probability proportional to 1/n
            (arXiv 1909.11942, 3.1).
        next_sentence: create pairs for next sentence prediction; otherwise one segment of consecutive sentences.
        validation_fraction: share of documents in the validation set, selected by content hash. A negative number
            derives it from the input size: 0.01, or more for a small corpus.
        num_shards: number of training shards, one TFRecord file each; 0 derives it from the input size.
        seed: random seed; every random choice is a function of the seed, the document and the pass.
        lowercase: lower-case text and strip accents, as in the uncased models.
        language: ISO 639-1 code for sentence splitting; `none` expects one sentence per line. A comma-separated list
            assigns one code to each input, in order.
        cleaning: document filters.

    Example:
        >>> config = bert_tf.DataConfig(max_seq_length=64, mask_unit="whole_word")
        >>> config.masking, config.masked_lm_prob, config.max_predictions_per_seq
        ('dynamic', 0.15, 10)
    """

    max_seq_length: int = 128
    masking: str = "dynamic"
    dupe_factor: int = 1
    short_seq_prob: float = 0.1
    random_next_prob: float = 0.5
    masked_lm_prob: float = 0.15
    max_predictions_per_seq: int = 0
    mask_share: float = 0.8
    random_share: float = 0.1
    mask_unit: str = "piece"
    max_ngram: int = 3
    next_sentence: bool = True
    validation_fraction: float = -1.0
    num_shards: int = 0
    seed: int = 12345
    lowercase: bool = True
    language: str = "en"
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)

    def __post_init__(self) -> None:
        check_fields(self, ["max_seq_length"], lambda value: value >= 8, "must be at least 8")
        check_fields(self, ["masking"], ("dynamic", "static").__contains__, "must be `dynamic` or `static`")
        units = ("piece", "whole_word", "span")
        check_fields(self, ["mask_unit"], units.__contains__, "must be `piece`, `whole_word` or `span`")
        shares = ("short_seq_prob", "random_next_prob", "masked_lm_prob", "mask_share", "random_share")
        check_fields(self, shares, lambda value: 0.0 <= value <= 1.0, "must be in [0, 1]")
        if self.max_predictions_per_seq == 0:
            object.__setattr__(self, "max_predictions_per_seq", self.most_predictions(self.masked_lm_prob))
        counts = ("dupe_factor", "max_predictions_per_seq", "max_ngram")
        check_fields(self, counts, lambda value: value >= 1, "must be at least 1")
        for name in ("max_predictions_per_seq", "max_ngram"):
            if getattr(self, name) > self.max_seq_length:
                raise ConfigError(
                    f"`{name}` must not exceed `max_seq_length`. "
                    f"Received: {getattr(self, name)} and {self.max_seq_length}"
                )
        if self.mask_share + self.random_share > 1.0 + 1e-9:
            raise ConfigError(
                f"`mask_share` + `random_share` must not exceed 1. Received: {self.mask_share + self.random_share}"
            )
        check_fields(self, ["validation_fraction"], lambda value: value < 1.0, "must be below 1; negative derives it")
        check_fields(self, ["num_shards"], lambda value: value >= 0, "must be 0 (derived) or more")
        check_fields(self, ["seed"], lambda value: 0 <= value < 2**63, "must be in [0, 2**63)")

    def most_predictions(self, share: float) -> int:
        """Returns the number of predictions of an example of the maximum length for a share, rounded up."""
        # Some products, such as 0.07 * 100, are slightly above an integer.
        return max(1, math.ceil(round(share * self.max_seq_length, 6)))

"""Settings of a conversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_tf.config import BertConfig, local_path


@dataclass(frozen=True)
class Options:
    """Settings for everything that the source does not define.

    Args:
        lowercase: whether text is lower-cased; None uses the setting of the source.
        vocabulary: path of a vocab.txt; None uses that of the source.
        padded_vocabulary: whether rows of the token embedding beyond the vocabulary are padding.
        dtype: dtype to write if the target supports several; None keeps that of the source.
        text_columns: number of texts that a classifier takes, 1 or 2.
        describe: builds a preset's task.json from the known facts about a head (`task`, `labels`, `text_columns`) and
            the encoder; None writes the known facts.
        shard_bytes: maximum size of a file of weights if the target may have several, in bytes.
    """

    lowercase: bool | None = None
    vocabulary: str | Path | None = None
    padded_vocabulary: bool = False
    dtype: str | None = None
    text_columns: int = 1
    describe: Callable[[Mapping[str, Any], BertConfig], Mapping[str, Any]] | None = None
    shard_bytes: int = 5_000_000_000

    @property
    def vocabulary_path(self) -> Path | None:
        """The path of `vocabulary`. Raises ConfigError for a URL."""
        return None if self.vocabulary is None else local_path(self.vocabulary)

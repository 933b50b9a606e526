"""What a conversion is told beside source and target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_tf.config import BertConfig, local_path


@dataclass(frozen=True)
class Options:
    """Args, all of them for what the source does not say.

    Args:
        lowercase: whether text is lower-cased; None believes the source.
        vocabulary: a vocab.txt; None takes the source's.
        padded_vocabulary: whether rows of the token embedding beyond the vocabulary are padding.
        dtype: number format to write where the target has a choice; None keeps the source's.
        text_columns: texts that a classifier takes, 1 or 2.
        describe: makes a preset's task.json of what is known of a head (`task`, `labels`, `text_columns`) and of the
            encoder; None writes what is known.
        shard_bytes: largest file of weights to write where the target may have several, bytes.
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

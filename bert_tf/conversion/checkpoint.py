"""Checkpoints in a common representation, independent of the file format, and the settings of a conversion."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config import BertConfig, ConfigError, local_path
from bert_tf.config.base import read_json_object
from bert_tf.conversion.tensors import ConversionError, Heads, Tensor
from bert_tf.models.weights import check_finite
from bert_tf.text.vocabulary import Vocabulary, load_vocabulary

logger = logging.getLogger(__name__)
# Dtypes that a checkpoint may be stored in, widest first. Other dtypes would lose bits or are not those of weights.
DTYPES = ("float32", "bfloat16", "float16")


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


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose arrays are read on demand; unknown values are None.

    Args:
        form: format, one of `formats.registry.FORMS`.
        tensors: tensors by the original's names, in the order of `tensors.expected_shapes`.
        vocabulary: vocabulary of the length of the token embedding, padding included.
        dtype: dtype of most tensors, one of `DTYPES`.
        labels: class names of the task in the order of their ids.
        pooling: pooling of a text classifier, `first` or `mean`.
        left_out: names of the parts of the source that a model does not hold, such as optimizer slots.
        info: further metadata of the source, which a preset keeps.
    """

    form: str
    path: Path
    config: BertConfig
    heads: Heads
    tensors: Mapping[str, Tensor]
    vocabulary: Vocabulary | None = None
    lowercase: bool | None = None
    dtype: str = "float32"
    labels: tuple[str, ...] | None = None
    step: int | None = None
    classifier_dropout: float | None = None
    pooling: str = "first"
    left_out: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)

    def array(self, name: str) -> np.ndarray:
        """Returns a C-contiguous float32 array in the original's layout. Raises ConversionError for NaN or infinity."""
        tensor = self.tensors[name]
        array = np.ascontiguousarray(tensor.read(), dtype=np.float32)
        with conversion_errors():
            check_finite(array, tensor.name, self.path)
        return array

    def parameters(self) -> int:
        """Returns the number of parameters."""
        return sum(int(np.prod(tensor.shape)) for tensor in self.tensors.values())


@contextmanager
def conversion_errors() -> Iterator[None]:
    """Raises ConversionError in place of any other ValueError, with its message; also a decorator."""
    try:
        yield
    except ConversionError:
        raise
    except ValueError as error:
        raise ConversionError(str(error)) from error


# Raise ConversionError for a damaged file.
read_json = conversion_errors()(read_json_object)
read_vocabulary = conversion_errors()(load_vocabulary)


def has_keys(path: Path, keys: set[str]) -> bool:
    """Returns True if a file holds a JSON object with these keys."""
    try:
        return keys <= set(read_json_object(path))
    except (ConfigError, OSError):
        return False


def fitted(vocabulary: Vocabulary, rows: int, source: object, *, padded: bool = False) -> Vocabulary:
    """Returns a vocabulary of `rows` pieces.

    Blank pieces at the end are dropped. Rows without a piece are padding, `[paddingN]`, which the log names unless
    `padded` says so. Raises ConversionError for more pieces.
    """
    if len(vocabulary) > rows and not any(token.strip() for token in vocabulary.tokens[rows:]):
        vocabulary = replace(vocabulary, tokens=vocabulary.tokens[:rows])
    if len(vocabulary) > rows:
        raise ConversionError(
            f"{source}: must have at most as many word pieces as the token embedding has rows, {rows}. "
            f"Received: {len(vocabulary)}. Convert it with the model's vocabulary: `bert-tf convert --vocabulary`."
        )
    if len(vocabulary) < rows and not padded:
        logger.warning(
            "%s: has %d pieces for %d rows of the token embedding; rows without a piece are taken for padding. If they "
            "are not, convert the model with its vocabulary: `bert-tf convert --vocabulary`.",
            source, len(vocabulary), rows,
        )  # fmt: skip
    return vocabulary if len(vocabulary) == rows else vocabulary.padded(rows)


def fitted_vocabulary(stored: Path, rows: int, options: Options) -> Vocabulary | None:
    """Returns the vocabulary of `options`, or else of the file `stored`, fitted to `rows`; None if there is neither."""
    path = options.vocabulary_path or stored
    if options.vocabulary is None and not path.is_file():
        return None
    return fitted(read_vocabulary(path), rows, path, padded=options.padded_vocabulary)

"""Reads and writes the other files of the original's and the Model Garden's releases: configuration and vocabulary."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.formats.bert_config import CONFIG_NAME, write_config
from bert_tf.conversion.formats.vocabulary import fitted, read_vocabulary, without_padding
from bert_tf.conversion.options import Options
from bert_tf.conversion.tensors import ConversionError
from bert_tf.models.presets import VOCABULARY_NAME
from bert_tf.text.casing import is_lowercase
from bert_tf.text.vocabulary import Vocabulary, save_vocabulary

# Casing by the directory name of a release; the first match is used.
_CASES = {
    "uncased": True,
    "cased": False,
    "multilingual_l-12_h-768_a-12": True,
    "chinese_l-12_h-768_a-12": True,
}
_CASE_KEY = "do_lower_case"


def read_release_vocabulary(directory: Path, rows: int, options: Options) -> Vocabulary | None:
    """Returns the vocabulary of the options or of the checkpoint's directory; None if absent.

    Args:
        directory: directory of the checkpoint.
        rows: number of rows of the token embedding.
        options: settings of the conversion.

    Raises:
        ConversionError: if the number of word pieces differs from `rows`.
    """
    path = options.vocabulary_path or directory / VOCABULARY_NAME
    if options.vocabulary is None and not path.is_file():
        return None
    return fitted(read_vocabulary(path), rows, path, padded=options.padded_vocabulary)


def casing(directory: Path, vocabulary: Vocabulary | None, beside: Mapping[str, Any], options: Options) -> bool | None:
    """Returns True if text is lower-cased; None if unknown.

    The sources, in this order: options, configuration, directory name, word pieces.

    Args:
        directory: directory of the checkpoint.
        vocabulary: vocabulary of the checkpoint.
        beside: additional keys of the configuration, as returned by `read_config`.
        options: settings of the conversion.
    """
    if options.lowercase is not None:
        return options.lowercase
    if _CASE_KEY in beside:
        return bool(beside[_CASE_KEY])
    name = directory.resolve().name.lower()
    for part, lowercase in _CASES.items():
        if re.search(rf"(?<![a-z]){part}(?![a-z])", name):
            return lowercase
    return None if vocabulary is None else is_lowercase(vocabulary)


def remembered(beside: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of a configuration that a preset keeps."""
    return {CONFIG_NAME: {name: value for name, value in beside.items() if name != _CASE_KEY}}


def write_release(checkpoint: Checkpoint, directory: Path, options: Options) -> None:
    """Writes configuration and vocabulary.

    Args:
        checkpoint: checkpoint to write.
        directory: directory to write to.
        options: settings of the conversion.

    Raises:
        ConversionError: if the programs cannot represent the encoder or the dtype; the message names the field.
    """
    if options.dtype not in (None, "float32"):
        raise ConversionError(
            f"{checkpoint.path}: `dtype` must be float32; this format supports float32 only. Received: {options.dtype}"
        )
    beside = dict(checkpoint.info.get(CONFIG_NAME, {}))
    vocabulary = checkpoint.vocabulary
    # The releases do not store the casing. If the word pieces suggest another one, the configuration stores it.
    if checkpoint.lowercase is not None and (vocabulary is None or is_lowercase(vocabulary) != checkpoint.lowercase):
        beside[_CASE_KEY] = checkpoint.lowercase
    write_config(checkpoint, directory, beside)
    if vocabulary is not None:
        save_vocabulary(without_padding(vocabulary), directory / VOCABULARY_NAME)

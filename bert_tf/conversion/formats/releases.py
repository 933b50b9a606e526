"""What stands beside the tensors of a release of the original or the Model Garden: configuration, pieces, casing."""

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

# Casing by the name of a directory, as the releases are named; the first that is found.
_CASES = {
    "uncased": True,
    "cased": False,
    "multilingual_l-12_h-768_a-12": True,
    "chinese_l-12_h-768_a-12": True,
}
_CASE_KEY = "do_lower_case"


def read_release_vocabulary(directory: Path, rows: int, options: Options) -> Vocabulary | None:
    """Returns the word pieces given, or those beside the tensors, None where there are none.

    Raises:
        ConversionError: where they are not as many as the token embedding has rows.
    """
    path = options.vocabulary_path or directory / VOCABULARY_NAME
    if options.vocabulary is None and not path.is_file():
        return None
    return fitted(read_vocabulary(path), rows, path, padded=options.padded_vocabulary)


def casing(directory: Path, vocabulary: Vocabulary | None, beside: Mapping[str, Any], options: Options) -> bool | None:
    """Returns whether text is lower-cased: as told, as the configuration, the directory's name or the pieces say.

    Args:
        directory: of the checkpoint.
        vocabulary: of it.
        beside: what `read_config` returned beside the architecture.
        options: of the conversion.
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
    """Returns what a preset should remember of a configuration."""
    return {CONFIG_NAME: {name: value for name, value in beside.items() if name != _CASE_KEY}}


def write_release(checkpoint: Checkpoint, directory: Path, options: Options) -> None:
    """Writes configuration and word pieces.

    Raises:
        ConversionError: where the programs cannot express the encoder or the number format; the message says what.
    """
    if options.dtype not in (None, "float32"):
        raise ConversionError(
            f"{checkpoint.path}: the target's program reads float32 only; dtype must be that. Received: {options.dtype}"
        )
    beside = dict(checkpoint.info.get(CONFIG_NAME, {}))
    vocabulary = checkpoint.vocabulary
    # The releases keep no casing. Where the pieces would tell the wrong one, it stands in the configuration.
    if checkpoint.lowercase is not None and (vocabulary is None or is_lowercase(vocabulary) != checkpoint.lowercase):
        beside[_CASE_KEY] = checkpoint.lowercase
    write_config(checkpoint, directory, beside)
    if vocabulary is not None:
        save_vocabulary(without_padding(vocabulary), directory / VOCABULARY_NAME)

"""Fits the vocabulary of a checkpoint to the length of its embedding."""

from __future__ import annotations

import re
from pathlib import Path

from bert_tf.conversion.tensors import ConversionError
from bert_tf.text.vocabulary import Vocabulary

# Text never contains such a piece, because brackets are separate words.
_PADDING = re.compile(r"\[padding(\d+)\]")


def fitted(vocabulary: Vocabulary, rows: int, source: object, *, padded: bool = False) -> Vocabulary:
    """Returns a vocabulary of the length of the token embedding.

    Args:
        vocabulary: vocabulary of the source.
        rows: number of rows of the embedding.
        source: file of the vocabulary, for the error message.
        padded: whether rows beyond the vocabulary are padding, which becomes `[paddingN]`.

    Raises:
        ConversionError: if the lengths differ and the difference is not padding.
    """
    if len(vocabulary) == rows:
        return vocabulary
    if len(vocabulary) > rows or not padded:
        hint = "; if the other rows are padding, add --padded_vocabulary" if len(vocabulary) < rows else ""
        raise ConversionError(
            f"{source}: must have as many word pieces as the token embedding has rows, {rows}{hint}. "
            f"Received: {len(vocabulary)}"
        )
    return Vocabulary((*vocabulary.tokens, *(f"[padding{number}]" for number in range(len(vocabulary), rows))))


def without_padding(vocabulary: Vocabulary) -> Vocabulary:
    """Returns the vocabulary without the padding that `fitted` added."""
    tokens = vocabulary.tokens
    length = len(tokens)
    while length and (match := _PADDING.fullmatch(tokens[length - 1])) and int(match[1]) == length - 1:
        length -= 1
    return vocabulary if length == len(tokens) else Vocabulary(tokens[:length])


def read_vocabulary(path: Path) -> Vocabulary:
    """Reads a vocab.txt. Raises ConversionError with the file and the line."""
    from bert_tf.text.vocabulary import load_vocabulary

    try:
        return load_vocabulary(path)
    except ValueError as error:
        raise ConversionError(str(error)) from error

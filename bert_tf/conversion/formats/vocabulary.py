"""The vocabulary of a checkpoint: as long as its embedding."""

from __future__ import annotations

import re
from pathlib import Path

from bert_tf.conversion.tensors import ConversionError
from bert_tf.text.vocabulary import Vocabulary

# No text is cut into such a piece: brackets are words of their own.
_PADDING = re.compile(r"\[padding(\d+)\]")


def fitted(vocabulary: Vocabulary, rows: int, source: object, *, padded: bool = False) -> Vocabulary:
    """Returns a vocabulary as long as the token embedding.

    Args:
        vocabulary: of the source.
        rows: of the embedding.
        source: the vocabulary's file, for the message.
        padded: whether rows beyond the vocabulary are padding, which `[paddingN]` then stands for.

    Raises:
        ConversionError: where the lengths differ, and not by padding.
    """
    if len(vocabulary) == rows:
        return vocabulary
    if len(vocabulary) > rows or not padded:
        hint = "; where the rest is padding, say so with --padded_vocabulary" if len(vocabulary) < rows else ""
        raise ConversionError(
            f"{source}: must have as many word pieces as the token embedding has rows, {rows}{hint}. "
            f"Received: {len(vocabulary)}"
        )
    return Vocabulary((*vocabulary.tokens, *(f"[padding{number}]" for number in range(len(vocabulary), rows))))


def without_padding(vocabulary: Vocabulary) -> Vocabulary:
    """Returns the vocabulary that `fitted` was given."""
    tokens = vocabulary.tokens
    length = len(tokens)
    while length and (found := _PADDING.fullmatch(tokens[length - 1])) and int(found[1]) == length - 1:
        length -= 1
    return vocabulary if length == len(tokens) else Vocabulary(tokens[:length])


def read_vocabulary(path: Path) -> Vocabulary:
    """Reads a vocab.txt. Raises ConversionError naming file and line."""
    from bert_tf.text.vocabulary import load_vocabulary

    try:
        return load_vocabulary(path)
    except ValueError as error:
        raise ConversionError(str(error)) from error

"""Texts and their choices as examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bert_tf.config import ConfigError
from bert_tf.tasks.swag.files import CONTEXT, START, ChoiceExample, ending_columns
from bert_tf.text import columns

# Names of the inputs, as in exported models.
TEXT_NAMES = ("text", "choices")


def choice_examples(x: Any, choices: int = 0) -> list[ChoiceExample]:
    """Returns the examples of texts and choices.

    Args:
        x: columns of texts and of lists of choices, a text and its choices, or a dictionary or data frame with the
            columns of SWAG's files.
        choices: number of choices; 0 accepts any.

    Returns:
        The examples. A choice is the ending of an example without `start`.

    Raises:
        ConfigError: for columns of different lengths, and different numbers of choices, with the number of the row.
    """
    if isinstance(x, list) and not x:
        return []
    names = list(x) if isinstance(x, Mapping) else list(getattr(x, "columns", ()))
    if {CONTEXT, START} <= set(names):
        parts = [columns.texts_of(x[name], name) for name in (CONTEXT, START, *ending_columns(names))]
        contexts, starts, *endings = parts
        rows = [tuple(row) for row in zip(*endings, strict=True)]
    else:
        texts, lists = columns.named_columns(x, TEXT_NAMES)
        contexts = columns.texts_of(texts, TEXT_NAMES[0])
        lists = [lists] if columns.is_single(x) else columns.items_of(lists)
        rows = [tuple(columns.texts_of(row, TEXT_NAMES[1])) for row in lists]
        starts = [""] * len(contexts)
    if len(contexts) != len(rows):
        raise ConfigError(f"columns must have the same length. Received: {[len(contexts), len(rows)]}")
    expected = choices or len(rows[0])
    for number, row in enumerate(rows):
        if len(row) != expected or not row:
            raise ConfigError(f"each text must have {expected or 'some'} choices. Received: {len(row)} in row {number}")
    examples = zip(contexts, starts, rows, strict=True)
    return [ChoiceExample(f"row {number}", number, *example) for number, example in enumerate(examples)]

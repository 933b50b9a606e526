"""Head of multiple choice: a text with several choices, each scored as a pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from bert_tf.config import ConfigError
from bert_tf.data.schema import SINGLE_OUTPUT
from bert_tf.encoding.heads import Head
from bert_tf.encoding.predictions import ChoicePrediction, check_unranked
from bert_tf.encoding.rows import Arrays, EncodedRows
from bert_tf.encoding.texts import text_rows
from bert_tf.text import columns
from bert_tf.text.tokenizer import TextTokenizer

# Columns of SWAG's files.
CONTEXT, START = "sent1", "sent2"
ENDING = "ending"
# Names of the inputs, as in exported models.
TEXT_NAMES = ("text", "choices")


@dataclass(frozen=True)
class ChoiceExample:
    """A beginning and its possible endings.

    `number`, that of the row in its file, from 0, is the index in predictions. `context` is the previous sentence,
    `start` the beginning of the sentence that an ending completes; one of them may be empty. `label` is the number of
    the gold ending; None if unknown.
    """

    place: str
    number: int
    context: str
    start: str
    endings: tuple[str, ...]
    label: int | None = None

    @property
    def choices(self) -> list[str]:
        """The endings, each after its beginning."""
        return [f"{self.start} {ending}".strip() for ending in self.endings]


@dataclass(frozen=True)
class ChoiceAnswer:
    """The number of the predicted ending, and the probability of each; () if only the number was read from a file."""

    choice: int
    probabilities: tuple[float, ...] = ()


@dataclass(frozen=True)
class ChoiceHead(Head[ChoiceExample, ChoiceAnswer]):
    """One of several choices; `choices` is 0 if any number is accepted."""

    name: ClassVar[str] = "swag"

    choices: int = 0

    def encode(
        self, examples: Sequence[ChoiceExample], tokenizer: TextTokenizer, length: int, labelled: bool = True
    ) -> EncodedRows:
        """Encodes a pair for each choice; the longer text of a pair is truncated at its end."""
        pairs = [(example.context, choice) for example in examples for choice in example.choices]
        rows = text_rows(pairs, tokenizer, length)
        choices = self.choices or len(examples[0].endings)
        rows = replace(rows, examples=np.arange(len(examples)), choices=choices)
        return rows.with_targets(np.array([example.label for example in examples], np.int32)) if labelled else rows

    def answers(self, examples: Sequence[ChoiceExample], rows: EncodedRows, outputs: Arrays) -> list[ChoiceAnswer]:
        """Returns the most probable choice and the probabilities of all choices."""
        probabilities = softmax(outputs[SINGLE_OUTPUT], axis=1)
        return [ChoiceAnswer(int(row.argmax()), tuple(row.tolist())) for row in probabilities]

    def examples_of(self, x: Any) -> list[ChoiceExample]:
        """Returns texts and their choices, or the columns of SWAG's files, as examples.

        A choice takes the place of an ending, without `sent2`. Raises ConfigError for different numbers of choices.
        """
        return choice_examples(x, self.choices)

    def predictions(
        self, examples: Sequence[ChoiceExample], answers: Sequence[ChoiceAnswer], top_k: int | None = None
    ) -> list[ChoicePrediction]:
        """Returns the most probable choice and all probabilities. Raises ConfigError for `top_k`."""
        check_unranked(self.name, top_k)
        return [{"choice": answer.choice, "probabilities": list(answer.probabilities)} for answer in answers]


def ending_columns(header: Sequence[str]) -> tuple[str, ...]:
    """Returns the ending columns of a header: `ending0`, `ending1` and so on, without gaps."""
    names = tuple(f"{ENDING}{number}" for number in range(len(header)))
    return tuple(name for number, name in enumerate(names) if set(names[: number + 1]) <= set(header))


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
    if not rows:
        return []
    expected = choices or len(rows[0])
    for number, row in enumerate(rows):
        if len(row) != expected or not row:
            raise ConfigError(f"each text must have {expected or 'some'} choices. Received: {len(row)} in row {number}")
    examples = zip(contexts, starts, rows, strict=True)
    return [ChoiceExample(f"row {number}", number, *example) for number, example in enumerate(examples)]

"""Sample predictions for masked pieces, formatted for people.

Shape legend: B batch, S sequence, P predictions, V vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_tf.data.examples.sample_examples import Token, tokens_of_row
from bert_tf.data.input.dataset import Batch
from bert_tf.data.schema import MASK_POSITIONS, MLM_LOGITS
from bert_tf.text.vocabulary import CONTINUATION, Vocabulary

# Candidate pieces shown for each mask.
GUESSES = 3
# A model that returns logits by name; called with inputs and `training=False`.
Model = Callable[..., Mapping[str, Any]]
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~])")


@dataclass(frozen=True)
class MaskPrediction:
    """The prediction for a mask: the probability of the right piece, and the best guesses in descending order."""

    position: int
    probability: float
    guesses: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class FilledExample:
    """A masked example without padding, and predictions from left to right; a token's `original` is the right piece."""

    tokens: tuple[Token, ...]
    fillings: tuple[MaskPrediction, ...]

    def is_right(self, filling: MaskPrediction) -> bool:
        """Returns True if the most probable piece is the right one."""
        return filling.guesses[0][0] == self.tokens[filling.position].original


def fill_masks(model: Model, batch: Batch, vocabulary: Vocabulary) -> tuple[FilledExample, ...]:
    """Returns the examples of a batch, one per row, with the predictions of `model` for masks of weight above 0."""
    arrays: Any = tuple({name: np.asarray(value) for name, value in part.items()} for part in batch)
    inputs, targets, _ = arrays
    logits = np.asarray(model(inputs, training=False)[MLM_LOGITS], np.float32)
    probabilities = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities /= probabilities.sum(axis=-1, keepdims=True)
    filled = []
    for row in range(len(logits)):
        tokens, slots = tokens_of_row(arrays, row, vocabulary)
        fillings = (
            MaskPrediction(
                int(inputs[MASK_POSITIONS][row, slot]),
                float(probabilities[row, slot, targets[MLM_LOGITS][row, slot]]),
                tuple(_top(probabilities[row, slot], vocabulary)),
            )
            for slot in slots
        )
        filled.append(FilledExample(tokens, tuple(fillings)))
    return tuple(filled)


def in_markdown(example: FilledExample) -> str:
    """Returns an example as Markdown for TensorBoard: the text with numbered masks, and a table of the predictions."""
    numbers = {filling.position: number for number, filling in enumerate(example.fillings, start=1)}
    words: list[str] = []
    for position, token in enumerate(example.tokens):
        text = _escaped(token.text if token.fate else token.piece.removeprefix(CONTINUATION))
        written = f"**{text}** ({numbers[position]})" if position in numbers else text
        words.append(written if token.continues and not token.fate else f" {written}")
    head = ["", "right piece", "its probability", *(f"guess {number}" for number in range(1, GUESSES + 1))]
    lines = [_row(head), _row(["---"] * len(head))]
    for number, filling in enumerate(example.fillings, start=1):
        sign = "✓" if example.is_right(filling) else "✗"
        right = _escaped(example.tokens[filling.position].original)
        guesses = [f"{_escaped(piece)} {share:.1%}" for piece, share in filling.guesses]
        lines.append(_row([f"{number} {sign}", right, f"{filling.probability:.1%}", *guesses]))
    return "".join(words).lstrip() + "\n\n" + "\n".join(lines)


def _top(probabilities: np.ndarray, vocabulary: Vocabulary) -> Iterator[tuple[str, float]]:
    # Equally probable pieces are in vocabulary order, because the sort is stable.
    for index in np.argsort(-probabilities, kind="stable")[:GUESSES].tolist():
        yield vocabulary.tokens[index], float(probabilities[index])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(r"\\\1", text)

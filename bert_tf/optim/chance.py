"""Classifiers that are no better than the most frequent label, and what to do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable

from bert_tf.config.training import FINETUNING_RATE, rate_of_width
from bert_tf.entry.amounts import plural

# Steps of the paper's smallest task, RTE: 2,490 rows, three epochs of batches of 32 (arXiv 1810.04805, 4.1).
_FEW_STEPS = 234


def near_chance(right: float, labels: Counter[Hashable]) -> str:
    """Compares correct predictions with the most frequent label.

    Args:
        right: number of correct predictions.
        labels: number of examples of each label.

    Returns:
        A message if the predictions are not better by two standard errors, otherwise "".
    """
    most, examples = max(labels.values()), labels.total()
    if right > most + 2 * math.sqrt(most * (1 - most / examples)):
        return ""
    return (
        f"near chance: accuracy {right / examples:.1%}, that of always giving the most frequent label is "
        f"{most / examples:.1%}"
    )


def ways_on(
    steps: int,
    epochs: int,
    learning_rate: float | None,
    hidden_dim: int,
    flags: tuple[str, str] = ("--set training.epochs={}", "--set training.learning_rate={}"),
) -> list[str]:
    """Returns settings that may help an encoder that learned nothing.

    Args:
        steps: steps of the run.
        epochs: epochs of the run.
        learning_rate: its highest learning rate; None if it is unknown.
        hidden_dim: width of the encoder.
        flags: forms of the settings of epochs and rate.
    """
    ways = []
    if steps < _FEW_STEPS:
        setting = flags[0].format(math.ceil(epochs * _FEW_STEPS / steps))
        ways.append(f"train longer than {plural(steps, 'step')} (`{setting}`)")
    usual = rate_of_width(FINETUNING_RATE, hidden_dim)
    if learning_rate is not None and not usual / 2 <= learning_rate <= usual * 2:
        ways.append(f"use the usual rate of this size (`{flags[1].format(f'{usual:g}')}`)")
    return ways

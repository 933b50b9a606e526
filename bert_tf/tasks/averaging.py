"""Averaging of the predictions of several models, whose outputs may be in different orders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def label_order(labels: Sequence[str], others: Sequence[str]) -> list[int]:
    """Returns the index in `others` of each of `labels`. Raises ValueError if the labels are not the same."""
    if sorted(labels) != sorted(others):
        raise ValueError(f"an ensemble must have the labels {', '.join(labels)}. Received: {', '.join(others)}")
    return [others.index(label) for label in labels]


def mean_probabilities(probabilities: Sequence[np.ndarray], labels: Sequence[Sequence[str]]) -> np.ndarray:
    """Returns the mean of probabilities over models.

    Args:
        probabilities: of each model, (..., classes).
        labels: of each model, in the order of its classes.

    Returns:
        The mean, (..., classes), in the order of the first model's labels.
    """
    orders = [label_order(labels[0], of_model) for of_model in labels]
    return np.mean([of_model[..., order] for of_model, order in zip(probabilities, orders, strict=True)], axis=0)

"""Ties among answers to questions, whose order may change with a rounding error.

Shape legend: B questions, K answers.
"""

from __future__ import annotations

import numpy as np

from bert_tf.export.verify.comparison import Tensors
from bert_tf.export.verify.tolerances import close


def open_answers(contexts: np.ndarray, outputs: Tensors, score_error: float, threshold: float) -> Tensors:
    """Returns the answers that are tied with another one, and the positions of texts that occur more than once.

    `contexts` are bytes [B]; `outputs` are those of `spans.SpanSignatures`, the n best answers in descending order of
    probability. `score_error` is the largest error of a span's score, `threshold` that of `null_odds`. The bool arrays
    by output name are broadcastable to their outputs.
    """
    texts, probabilities = outputs["n_best_answers"], outputs["n_best_probabilities"]
    is_text = (texts != b"") & (probabilities > 0)
    best_tied = _best_two_tied(np.where(is_text, probabilities, 0.0), score_error)
    tied = close(probabilities[:, :-1], probabilities[:, 1:], score_error)
    tied = np.pad(tied, [(0, 0), (0, 1)]) | np.pad(tied, [(0, 0), (1, 0)])
    # Candidates after the last one are unknown.
    is_last = np.arange(probabilities.shape[1]) == (probabilities > 0).sum(axis=1, keepdims=True) - 1
    open_probabilities = np.zeros((len(texts), 1), bool)
    if "null_odds" in outputs:
        best_tied |= np.abs(outputs["null_odds"] - threshold) <= 2 * score_error
        # If "" is not among the n best, it is appended as one more candidate, which changes all probabilities.
        is_null = (texts == b"") & (probabilities > 0)
        at_the_limit = is_last & (np.arange(probabilities.shape[1]) == probabilities.shape[1] - 2)
        open_probabilities = (is_null & (tied | at_the_limit)).any(axis=1, keepdims=True)
    tied |= is_last | open_probabilities
    several = np.array(
        [[_occurs_again(text, context) for text in row] for row, context in zip(texts, contexts, strict=True)]
    )
    answer_again = np.array([_occurs_again(*pair) for pair in zip(outputs["answer"], contexts, strict=True)])
    return {
        "answer": best_tied,
        "start": best_tied | answer_again,
        "end": best_tied | answer_again,
        "probability": best_tied | open_probabilities[:, 0],
        "n_best_answers": tied,
        "n_best_starts": tied | several,
        "n_best_ends": tied | several,
        "n_best_probabilities": open_probabilities,
    }


def _best_two_tied(probabilities: np.ndarray, score_error: float) -> np.ndarray:
    """Returns a bool (B,), True if the two largest probabilities of a row are tied."""
    ordered = -np.sort(-probabilities, axis=1)
    return close(ordered[:, 0], ordered[:, 1], score_error) if ordered.shape[1] > 1 else np.zeros(len(ordered), bool)


def _occurs_again(text: bytes, context: bytes) -> bool:
    """Returns True if a text occurs more than once in its context, so that its position is ambiguous."""
    return text != b"" and context.find(text, context.find(text) + 1) >= 0

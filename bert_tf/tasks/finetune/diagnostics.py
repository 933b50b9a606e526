"""Diagnostics of predictions: collapsed models, whose predictions are all identical, chance, and the next step."""

from __future__ import annotations

from collections import Counter

from bert_tf.config import TrainingConfig
from bert_tf.optim.chance import near_chance, ways_on
from bert_tf.reports.tasks.scored import Scored, ScoredLabels, ScoredNumbers

# Predicted numbers count as identical if their range is below this share of the range of the gold numbers.
_NO_SPREAD = 1e-2


def detect_collapse(scored: Scored) -> str:
    """Returns a message if the predictions are all alike and the gold labels are not; otherwise "".

    Fine-tuning on few examples may collapse (arXiv 1810.04805, 4.1).
    """
    if isinstance(scored, ScoredLabels):
        return _one_label(scored)
    if isinstance(scored, ScoredNumbers):
        return _one_number(scored)
    gold = sum(bool(row.gold) for row in scored)
    predicted = sum(bool(row.predicted) for row in scored)
    if gold and not predicted:
        return f"collapsed: no span was predicted in {len(scored)} texts, but {gold} have gold spans"
    if predicted == len(scored) and len({bool(row.gold) for row in scored}) > 1 and all(row.heading for row in scored):
        return f"collapsed: all {predicted} questions were answered, but {len(scored) - gold} have no answer"
    return ""


def detect_chance(scored: Scored) -> str:
    """Returns a message if labels are not clearly better than the most frequent one, otherwise "".

    Clearly better is more than two standard errors. Numbers and spans have no message.
    """
    if not isinstance(scored, ScoredLabels):
        return ""
    right = sum(scored.labels[row.probabilities.index(max(row.probabilities))] == row.gold for row in scored.rows)
    return near_chance(right, Counter(row.gold for row in scored.rows))


def next_step(config: TrainingConfig, hidden_dim: int, steps: int) -> str:
    """Returns advice for the training of an encoder that learned nothing, a sentence.

    Args:
        config: configuration of the run.
        hidden_dim: width of the encoder.
        steps: steps of the run.
    """
    ways = ways_on(steps, config.epochs, config.learning_rate, hidden_dim)
    return f"Next: {', '.join([*ways, 'try other seeds (`--restarts 5`)'])}."


def _one_label(scored: ScoredLabels) -> str:
    predicted = {row.probabilities.index(max(row.probabilities)) for row in scored.rows}
    if len(predicted) == 1 and len({row.gold for row in scored.rows}) > 1:
        return f"collapsed: all {len(scored.rows)} examples were given the label {scored.labels[predicted.pop()]!r}"
    return ""


def _one_number(scored: ScoredNumbers) -> str:
    gold, predicted = [row.gold for row in scored.rows], [row.predicted for row in scored.rows]
    if max(predicted) - min(predicted) < _NO_SPREAD * (max(gold) - min(gold)):
        return f"collapsed: all {len(scored.rows)} examples were given about the same number"
    return ""

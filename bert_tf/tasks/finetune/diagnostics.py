"""Diagnostics of predictions: collapsed models, whose predictions are all identical, chance, and the next step."""

from __future__ import annotations

import math
from collections.abc import Mapping

from bert_tf.config import BertConfig, TrainingConfig
from bert_tf.config.training import FINETUNING_RATE, rate_of_width
from bert_tf.entry.amounts import plural
from bert_tf.reports.tasks.scored import Scored, ScoredLabels, ScoredNumbers

# Predicted numbers count as identical if their range is below this share of the range of the gold numbers.
_NO_SPREAD = 1e-2
# Below about this number of steps fine-tuning on few examples is unstable (arXiv 2006.04884, section 6).
_FEW_STEPS = 200


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


def detect_chance(metrics: Mapping[str, float], examples: int) -> str:
    """Returns a message if the accuracy is within two standard errors of the most frequent label's; otherwise "".

    Args:
        metrics: official metrics; without `accuracy` and `majority` there is no message.
        examples: number of examples.
    """
    accuracy, majority = metrics.get("accuracy", math.inf), metrics.get("majority", -math.inf)
    if accuracy > majority + 2 * math.sqrt(majority * (1 - majority) / examples if majority > 0 else 0.0):
        return ""
    return f"near chance: accuracy {accuracy:.1%}, that of always giving the most frequent label is {majority:.1%}"


def next_step(config: TrainingConfig, model: BertConfig, steps: int) -> str:
    """Returns advice for a run that learned nothing, a sentence.

    Args:
        config: configuration of the run.
        model: configuration of the encoder.
        steps: steps of the run.
    """
    ways = []
    if steps < _FEW_STEPS:
        epochs = math.ceil(config.epochs * _FEW_STEPS / steps)
        ways.append(f"train longer than {plural(steps, 'step')} (`--set training.epochs={epochs}`)")
    usual = rate_of_width(FINETUNING_RATE, model.hidden_dim)
    if not usual / 2 <= config.learning_rate <= usual * 2:
        ways.append(f"use the usual rate of this size (`--set training.learning_rate={usual:.0e}`)")
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

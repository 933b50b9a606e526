"""Diagnostics of predictions: detects collapsed models, whose predictions are all identical."""

from __future__ import annotations

from bert_tf.reports.tasks.scored import Scored, ScoredLabels, ScoredNumbers

# Predicted numbers count as identical if their range is below this share of the range of the gold numbers.
_NO_SPREAD = 1e-2


def detect_collapse(scored: Scored) -> str:
    """Returns a message if the predictions are all alike and the gold labels are not; otherwise "".

    Fine-tuning on few examples may collapse (arXiv 1810.04805, 4.1). Try another seed or a lower learning rate.
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


def _one_label(scored: ScoredLabels) -> str:
    predicted = {row.probabilities.index(max(row.probabilities)) for row in scored.rows}
    if len(predicted) == 1 and len({row.gold for row in scored.rows}) > 1:
        return f"collapsed: all {len(scored.rows)} examples were given the label {scored.labels[predicted.pop()]!r}"
    return ""


def _one_number(scored: ScoredNumbers) -> str:
    def spread(values: list[float]) -> float:
        return max(values) - min(values)

    gold_spread = spread([row.gold for row in scored.rows])
    if spread([row.predicted for row in scored.rows]) < _NO_SPREAD * gold_spread:
        return f"collapsed: all {len(scored.rows)} examples were given about the same number"
    return ""

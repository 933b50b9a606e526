"""What is to be said of a model's answers as a whole."""

from __future__ import annotations

from collections import Counter

from bert_tf.tasks.scored import Scored, ScoredLabels, ScoredNumbers

# Numbers that spread less than this share of the right ones' spread are all the same.
_NO_SPREAD = 1e-2


def detect_collapse(scored: Scored) -> str:
    """Returns that the answers are all alike where the right ones are not, and "" otherwise.

    Fine-tuning on few examples may end so (arXiv 1810.04805, 4.1, on Large): another seed or a lower rate helps.
    """
    if isinstance(scored, ScoredLabels):
        return _one_label(scored)
    if isinstance(scored, ScoredNumbers):
        return _one_number(scored)
    gold = sum(bool(row.gold) for row in scored)
    found = sum(bool(row.predicted) for row in scored)
    if gold and not found:
        return f"collapsed: no span was found in {len(scored)} texts, {gold} of which have some"
    if found == len(scored) and len({bool(row.gold) for row in scored}) > 1 and all(row.heading for row in scored):
        return f"collapsed: every one of {found} questions was answered, of which {len(scored) - gold} have no answer"
    return ""


def _one_label(scored: ScoredLabels) -> str:
    predicted = Counter(scored.labels[max(range(len(p)), key=p.__getitem__)] for p in _probabilities(scored))
    gold = {row.gold for row in scored.rows}
    if len(predicted) == 1 and len(gold) > 1:
        return f"collapsed: all {len(scored.rows)} examples were given the label {next(iter(predicted))!r}"
    return ""


def _probabilities(scored: ScoredLabels) -> list[tuple[float, ...]]:
    return [row.probabilities for row in scored.rows]


def _one_number(scored: ScoredNumbers) -> str:
    def spread(values: list[float]) -> float:
        return max(values) - min(values)

    right = spread([row.gold for row in scored.rows])
    if spread([row.predicted for row in scored.rows]) < _NO_SPREAD * right:
        return f"collapsed: all {len(scored.rows)} examples were given about the same number"
    return ""

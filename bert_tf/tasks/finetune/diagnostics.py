"""What is to be said of a model's answers as a whole."""

from __future__ import annotations

from collections import Counter

from bert_tf.tasks.scored import Judged, JudgedLabels, JudgedNumbers

# Numbers that spread less than this share of the right ones' spread are all the same.
_NO_SPREAD = 1e-2


def collapse(judged: Judged) -> str:
    """Returns that the answers are all alike where the right ones are not, and "" otherwise.

    Fine-tuning on few examples may end so (arXiv 1810.04805, 4.1, on Large): another seed or a lower rate helps.
    """
    if isinstance(judged, JudgedLabels):
        return _one_label(judged)
    if isinstance(judged, JudgedNumbers):
        return _one_number(judged)
    gold = sum(bool(row.gold) for row in judged)
    found = sum(bool(row.predicted) for row in judged)
    if gold and not found:
        return f"collapsed: no span was found in {len(judged)} texts, {gold} of which have some"
    if found == len(judged) and len({bool(row.gold) for row in judged}) > 1 and all(row.heading for row in judged):
        return f"collapsed: every one of {found} questions was answered, of which {len(judged) - gold} have no answer"
    return ""


def _one_label(judged: JudgedLabels) -> str:
    predicted = Counter(judged.labels[max(range(len(p)), key=p.__getitem__)] for p in _probabilities(judged))
    gold = {row.gold for row in judged.rows}
    if len(predicted) == 1 and len(gold) > 1:
        return f"collapsed: all {len(judged.rows)} examples were given the label {next(iter(predicted))!r}"
    return ""


def _probabilities(judged: JudgedLabels) -> list[tuple[float, ...]]:
    return [row.probabilities for row in judged.rows]


def _one_number(judged: JudgedNumbers) -> str:
    def spread(values: list[float]) -> float:
        return max(values) - min(values)

    right = spread([row.gold for row in judged.rows])
    if spread([row.predicted for row in judged.rows]) < _NO_SPREAD * right:
        return f"collapsed: all {len(judged.rows)} examples were given about the same number"
    return ""

"""Precision, recall and F1 of entities, as in the conlleval script of the CoNLL shared tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bert_tf.tasks.ner.tags import entities


def entity_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Returns the metrics of tagged sentences, in [0, 1]; a ratio with denominator 0 is 0.

    These are `precision`, `recall`, `f1`, `accuracy` (of single tags), and `f1_TYPE` for each type that occurs. An
    entity is correct if its first word, last word and type are correct. Gold and predicted tags are decoded by
    conlleval's rules, independent of their scheme.
    """
    correct: Counter[str] = Counter()
    gold_counts: Counter[str] = Counter()
    predicted_counts: Counter[str] = Counter()
    equal_tags = words = 0
    for gold_tags, predicted_tags in zip(gold, predicted, strict=True):
        gold_entities, predicted_entities = entities(gold_tags), entities(predicted_tags)
        gold_counts.update(entity.type for entity in gold_entities)
        predicted_counts.update(entity.type for entity in predicted_entities)
        correct.update(entity.type for entity in set(gold_entities) & set(predicted_entities))
        equal_tags += sum(a == b for a, b in zip(gold_tags, predicted_tags, strict=True))
        words += len(gold_tags)
    precision, recall = _share(correct.total(), predicted_counts.total()), _share(correct.total(), gold_counts.total())
    return {
        "precision": precision,
        "recall": recall,
        "f1": _f1(correct.total(), predicted_counts.total(), gold_counts.total()),
        "accuracy": _share(equal_tags, words),
        **{
            f"f1_{kind}": _f1(correct[kind], predicted_counts[kind], gold_counts[kind])
            for kind in sorted(gold_counts | predicted_counts)
        },
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _f1(correct: int, predicted: int, gold: int) -> float:
    """Returns the harmonic mean of precision and recall."""
    return _share(2 * correct, predicted + gold)

"""Precision, recall and F1 of whole entities, as the script conlleval of the CoNLL shared tasks counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bert_tf.tasks.ner.tags import entities

Tags = Sequence[str]


def entity_scores(gold: Sequence[Tags], predicted: Sequence[Tags]) -> dict[str, float]:
    """Returns the figures of tagged sentences.

    An entity is right where its first word, its last word and its type are. Each side is read by conlleval's rules,
    whatever its scheme.

    Args:
        gold: the right tags of every sentence.
        predicted: the tags found, as many.

    Returns:
        `precision`, `recall`, `f1`, `accuracy` (of single tags), and `f1_TYPE` of every type that occurs, in [0, 1];
        what would divide by 0 is 0.
    """
    right: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    found: Counter[str] = Counter()
    equal_tags = words = 0
    for one, other in zip(gold, predicted, strict=True):
        there, given = entities(one), entities(other)
        wanted.update(entity.type for entity in there)
        found.update(entity.type for entity in given)
        right.update(entity.type for entity in set(there) & set(given))
        equal_tags += sum(a == b for a, b in zip(one, other, strict=True))
        words += len(one)
    precision, recall = _share(right.total(), found.total()), _share(right.total(), wanted.total())
    return {
        "precision": precision,
        "recall": recall,
        "f1": _f1(right.total(), found.total(), wanted.total()),
        "accuracy": _share(equal_tags, words),
        **{f"f1_{kind}": _f1(right[kind], found[kind], wanted[kind]) for kind in sorted(wanted | found)},
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _f1(right: int, found: int, wanted: int) -> float:
    """Returns the harmonic mean of precision and recall."""
    return _share(2 * right, found + wanted)

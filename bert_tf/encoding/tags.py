"""Tagging schemes of named entities; precision, recall and F1 as in the conlleval script of the CoNLL shared tasks.

| scheme | an entity of three words, then an adjacent entity of one word and the same type |
|---|---|
| IO | I I I I: one entity |
| IOB1 | I I I B: B only if an entity is adjacent to the previous one and of the same type |
| IOB2 | B I I B |
| IOBES | B I E S |
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import tensorflow as tf

OUTSIDE = "O"
SCHEMES = ("IO", "IOB1", "IOB2", "IOBES")
# Scheme of the classes of models, independent of that of files.
MODEL_SCHEME = "IOB2"
_TAG = re.compile(r"O|[BIES]-.+")


class Entity(NamedTuple):
    """An entity: its type, and its words `start` to `end` (exclusive) in a sentence."""

    type: str
    start: int
    end: int


class TagPlace(NamedTuple):
    """A tag with its place and the previous tag in the sentence."""

    place: str
    tag: str
    previous: str


def is_tag(text: str) -> bool:
    """Returns True if a text is O, or one of B, I, E, S with a hyphen and a type."""
    return _TAG.fullmatch(text) is not None


def type_of(tag: str) -> str:
    """Returns the entity type of a tag, after the first hyphen; "" for O."""
    return tag.partition("-")[2]


def begins(previous: str, tag: str) -> bool:
    """Returns True if an entity begins at `tag`, by conlleval's rules, which accept any sequence of tags.

    I or E after O or after another type begins an entity, and so does any tag after E or S, except O.
    """
    if tag == OUTSIDE:
        return False
    return tag[0] in "BS" or previous[0] in "OES" or type_of(previous) != type_of(tag)


def entities(tags: Sequence[str]) -> list[Entity]:
    """Returns the entities of a sentence."""
    spans: list[Entity] = []
    previous = OUTSIDE
    for number, tag in enumerate(tags):
        if begins(previous, tag):
            spans.append(Entity(type_of(tag), number, number + 1))
        elif tag != OUTSIDE:
            spans[-1] = spans[-1]._replace(end=number + 1)
        previous = tag
    return spans


def tags_of(spans: Iterable[Entity], words: int, scheme: str) -> tuple[str, ...]:
    """Returns the tags of `words` words in one of `SCHEMES`; in IO, adjacent entities of the same type are merged."""
    tags = [OUTSIDE] * words
    for entity in spans:
        tags[entity.start : entity.end] = [f"I-{entity.type}"] * (entity.end - entity.start)
        adjacent = entity.start > 0 and type_of(tags[entity.start - 1]) == entity.type
        if scheme == "IOBES":
            tags[entity.end - 1] = f"E-{entity.type}"
        if scheme in ("IOB2", "IOBES") or (scheme == "IOB1" and adjacent):
            tags[entity.start] = f"B-{entity.type}"
        if scheme == "IOBES" and entity.end == entity.start + 1:
            tags[entity.start] = f"S-{entity.type}"
    return tuple(tags)


def entity_labels(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the labels of a model of entities. Raises ValueError unless they are O, and B- and I- with types."""
    wrong = [name for name in names if name != OUTSIDE and (name[:2] not in ("B-", "I-") or not name[2:])]
    if wrong or OUTSIDE not in names:
        raise ValueError(
            f"`labels` must be {OUTSIDE}, and B- and I- with a type, in the order of the model's outputs. "
            f"Received: {', '.join(names)}"
        )
    return tuple(names)


def in_scheme(tags: Sequence[str], scheme: str) -> tuple[str, ...]:
    """Returns tags of any scheme in one of `SCHEMES`."""
    return tags_of(entities(tags), len(tags), scheme)


class MarkedWords(NamedTuple):
    """Words of texts with their classes, in a graph; bool (W,)."""

    inside: tf.Tensor  # True if the word belongs to an entity
    begins: tf.Tensor  # True if an entity begins with the word, as `begins` tells
    touches: tf.Tensor  # True if the previous word of the text belongs to an entity of the same type


def marked(classes: tf.Tensor, labels: Sequence[str], is_first: tf.Tensor) -> MarkedWords:
    """Returns the words of entities and their first words, by conlleval's rules; the twin of `entities` in a graph.

    Args:
        classes: numbers of the words' labels, int32 (W,).
        labels: O, and B- and I- with types.
        is_first: True for the first word of each text, bool (W,).
    """
    kinds = sorted({type_of(label) for label in labels})
    numbers = tf.gather(tf.constant([kinds.index(type_of(label)) for label in labels]), classes)
    inside = tf.gather(tf.constant([label != OUTSIDE for label in labels]), classes)
    before, inside_before = (tf.concat([each[:1], each[:-1]], 0) for each in (numbers, inside))
    touches = ~is_first & inside_before & (numbers == before)
    starts = tf.gather(tf.constant([label.startswith("B-") for label in labels]), classes)
    return MarkedWords(inside, inside & (~touches | starts), touches)


def letters(words: MarkedWords, scheme: str) -> tf.Tensor:
    """Returns the letter before the type of each tag, (W,); the twin of `tags_of` in a graph."""
    begins, inside = words.begins, words.inside
    if scheme == "IOBES":
        goes_on = tf.concat([inside & ~begins, [False]], 0)[1:]
        return tf.where(begins, tf.where(goes_on, "B", "S"), tf.where(goes_on, "I", "E"))
    is_marked = {"IO": tf.zeros_like(begins), "IOB1": begins & words.touches, "IOB2": begins}[scheme]
    return tf.where(is_marked, "B", "I")


def scheme_of(sentences: Iterable[tuple[Sequence[str], Sequence[str]]]) -> str:
    """Detects the scheme of sentences, given as tags and the place of each tag, for example file and line.

    It is IOBES if any tag is E or S, and IO if no tag is B, E or S. Raises ValueError for tags that contradict each
    other, with their places.
    """
    first: dict[str, TagPlace] = {}
    broken: TagPlace | None = None
    for tags, places in sentences:
        for previous, tag, place in zip((OUTSIDE, *tags), (*tags, OUTSIDE), (*places, places[-1]), strict=True):
            tag_place = TagPlace(place, tag, previous)
            if tag[0] in "BES":
                first.setdefault(tag[0], tag_place)
            if tag[0] in "BI" and (previous == OUTSIDE or type_of(previous) != type_of(tag)):
                first.setdefault("IOB2" if tag[0] == "B" else "IOB1", tag_place)
            if broken is None and _breaks_iobes(previous, tag):
                broken = tag_place
    of_iobes = first.get("E") or first.get("S")
    if of_iobes:
        if broken:
            raise _contradiction(broken, "invalid in IOBES", of_iobes, "IOBES")
        return "IOBES"
    if "B" not in first:
        return "IO"
    if "IOB1" in first and "IOB2" in first:
        raise _contradiction(first["IOB1"], "IOB1", first["IOB2"], "IOB2")
    return "IOB1" if "IOB1" in first else "IOB2"


def _breaks_iobes(previous: str, tag: str) -> bool:
    """Returns True if `tag` after `previous` breaks IOBES: I or E must follow B or I of their type, and vice versa."""
    is_open, goes_on = previous[0] in "BI", tag[0] in "IE"
    return is_open != goes_on or (is_open and type_of(previous) != type_of(tag))


def _contradiction(one: TagPlace, first: str, other: TagPlace, second: str) -> ValueError:
    return ValueError(
        f"{one.place}: all tags must be of one scheme. Set it with `--scheme` if they are not. "
        f"Received: {one.tag!r} after {one.previous!r} ({first}), but {other.tag!r} after {other.previous!r} "
        f"({second}) at {other.place}"
    )


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

"""Tags of words: which words they make an entity, and the ways of writing that.

| scheme | an entity of three words, then one of one word that touches it, of the same type |
|---|---|
| IO | I I I I: one entity |
| IOB1 | I I I B: B only where an entity touches the one before it, of the same type |
| IOB2 | B I I B |
| IOBES | B I E S |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

OUTSIDE = "O"
SCHEMES = ("IO", "IOB1", "IOB2", "IOBES")
_TAG = re.compile(r"O|[BIES]-.+")


class Entity(NamedTuple):
    """Words `start` to `end` (not included) of a sentence, and what they are."""

    type: str
    start: int
    end: int


class TagPlace(NamedTuple):
    """Where a tag stands, itself, and the tag before it in the sentence."""

    place: str
    tag: str
    previous: str


def is_tag(text: str) -> bool:
    """Tells whether a text is O, or one of B, I, E, S, a hyphen and a type."""
    return _TAG.fullmatch(text) is not None


def type_of(tag: str) -> str:
    """Returns what follows the first hyphen; nothing for O."""
    return tag.partition("-")[2]


def begins(previous: str, tag: str) -> bool:
    """Tells whether an entity begins at `tag`, by the rules of conlleval, which take any sequence of tags.

    I or E that follow O, or another type, begin one; so does whatever follows E or S.
    """
    if tag == OUTSIDE:
        return False
    return tag[0] in "BS" or previous[0] in "OES" or type_of(previous) != type_of(tag)


def entities(tags: Sequence[str]) -> list[Entity]:
    """Returns the entities of a sentence."""
    found: list[Entity] = []
    previous = OUTSIDE
    for number, tag in enumerate(tags):
        if begins(previous, tag):
            found.append(Entity(type_of(tag), number, number + 1))
        elif tag != OUTSIDE:
            found[-1] = found[-1]._replace(end=number + 1)
        previous = tag
    return found


def tags_of(found: Iterable[Entity], words: int, scheme: str) -> tuple[str, ...]:
    """Returns the tags of a sentence.

    Args:
        found: its entities in order, none within another.
        words: how many it has.
        scheme: one of `SCHEMES`. Entities that touch and are of one type are one in IO.
    """
    tags = [OUTSIDE] * words
    for entity in found:
        tags[entity.start : entity.end] = [f"I-{entity.type}"] * (entity.end - entity.start)
        touches = entity.start > 0 and type_of(tags[entity.start - 1]) == entity.type
        if scheme == "IOBES":
            tags[entity.end - 1] = f"E-{entity.type}"
        if scheme in ("IOB2", "IOBES") or (scheme == "IOB1" and touches):
            tags[entity.start] = f"B-{entity.type}"
        if scheme == "IOBES" and entity.end == entity.start + 1:
            tags[entity.start] = f"S-{entity.type}"
    return tuple(tags)


def scheme_of(sentences: Iterable[tuple[Sequence[str], Sequence[str]]]) -> str:
    """Returns the one scheme that the tags are written in.

    Args:
        sentences: the tags of each, and the place of each tag, such as file and line.

    Returns:
        One of `SCHEMES`: IOBES where there is an E or S, IO where there is no B either.

    Raises:
        ValueError: naming the tags that contradict one another.
    """
    first: dict[str, TagPlace] = {}
    broken: TagPlace | None = None
    for tags, places in sentences:
        for previous, tag, place in zip((OUTSIDE, *tags), (*tags, OUTSIDE), (*places, places[-1]), strict=True):
            found = TagPlace(place, tag, previous)
            if tag[0] in "BES":
                first.setdefault(tag[0], found)
            if tag[0] in "BI" and (previous == OUTSIDE or type_of(previous) != type_of(tag)):
                first.setdefault("IOB2" if tag[0] == "B" else "IOB1", found)
            if broken is None and _breaks_iobes(previous, tag):
                broken = found
    of_iobes = first.get("E") or first.get("S")
    if of_iobes:
        if broken:
            raise _contradiction(broken, "in no IOBES", of_iobes, "in IOBES")
        return "IOBES"
    if "B" not in first:
        return "IO"
    if "IOB1" in first and "IOB2" in first:
        raise _contradiction(first["IOB1"], "in IOB1", first["IOB2"], "in IOB2")
    return "IOB1" if "IOB1" in first else "IOB2"


def _breaks_iobes(previous: str, tag: str) -> bool:
    """Tells whether `tag` cannot follow: after B and I there must be I or E of their type, and nowhere else."""
    is_open, goes_on = previous[0] in "BI", tag[0] in "IE"
    return is_open != goes_on or (is_open and type_of(previous) != type_of(tag))


def _contradiction(one: TagPlace, first: str, other: TagPlace, second: str) -> ValueError:
    return ValueError(
        f"{one.place}: all tags must be of one scheme; where they are not, `--scheme` says which one is meant. "
        f"Received: {one.tag!r} after {one.previous!r}, as {first}, but {other.tag!r} after {other.previous!r}, as "
        f"{second}, at {other.place}"
    )

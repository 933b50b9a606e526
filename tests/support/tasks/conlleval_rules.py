"""Reference implementation of the rules of the CoNLL shared tasks' script conlleval, line by line."""

from __future__ import annotations

from collections.abc import Sequence

Tag = tuple[str, str]
NOTHING: Tag = ("O", "")
# Pairs of previous and current letter that end or begin a chunk, independent of the types.
ENDS = {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O")}
BEGINS = {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I")}


def split(text: str) -> Tag:
    letter, _, kind = text.partition("-")
    return letter, kind


def ends(previous: Tag, tag: Tag) -> bool:
    return (previous[0], tag[0]) in ENDS or (previous[0] != "O" and previous[1] != tag[1])


def begins(previous: Tag, tag: Tag) -> bool:
    return (previous[0], tag[0]) in BEGINS or (tag[0] != "O" and previous[1] != tag[1])


def figures(lines: Sequence[str], separator: str = " ") -> dict[str, float]:
    """Returns precision, recall and F1 of lines whose last two columns are the gold and the predicted tag."""
    right = wanted = found = 0
    both_open = False
    last_gold = last_found = NOTHING
    for line in [*lines, ""]:
        columns = line.split(separator) if line.strip() else ["", "O", "O"]
        gold, guess = split(columns[-2]), split(columns[-1])
        gold_ends, guess_ends = ends(last_gold, gold), ends(last_found, guess)
        if both_open and gold_ends and guess_ends and last_gold[1] == last_found[1]:
            both_open, right = False, right + 1
        elif both_open and (gold_ends != guess_ends or gold[1] != guess[1]):
            both_open = False
        gold_begins, guess_begins = begins(last_gold, gold), begins(last_found, guess)
        both_open = both_open or (gold_begins and guess_begins and gold[1] == guess[1])
        wanted, found = wanted + gold_begins, found + guess_begins
        last_gold, last_found = gold, guess
    precision, recall = (right / whole if whole else 0.0 for whole in (found, wanted))
    both = precision + recall
    return {"precision": precision, "recall": recall, "f1": 2 * precision * recall / both if both else 0.0}

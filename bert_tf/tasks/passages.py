"""Labelled passages out of plain text: the label is the file that a passage stands in.

A classification task that every corpus carries within itself, so that what pre-training gives can be measured
without a labelled data set.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, cast

_COMPRESSED = {".gz", ".bz2"}
_PASSAGE_WORDS = 25
_LONGEST_PASSAGE_WORDS = 90
_DEV_SHARE = 0.2
_PARTS = 4


@dataclass(frozen=True)
class Passage:
    """A few sentences, their label, and the document they are from."""

    label: str
    document: str
    text: str


def write_passages(
    files: Sequence[Path], directory: Path, *, most_labels: int = 8, most_passages: int = 1500
) -> tuple[int, int]:
    """Writes `train.tsv` and `dev.tsv` with the columns `label` and `text`.

    Whole documents go to one side or the other, a passage that stands in two places goes to neither, and one
    that contains its label goes nowhere: the label is to be inferred, not read.

    Args:
        files: UTF-8 text (plain, .gz, .bz2), a paragraph a line, a blank line between documents. Of a single
            file the labels are its four quarters.
        directory: where the two files go; made where it is missing.
        most_labels: the largest files are kept.
        most_passages: passages kept of a label, chosen by hash.

    Returns:
        The number of training and of development rows.

    Raises:
        ValueError: when fewer than two labels have passages on both sides.
    """
    passages = list(_single_file(files[0]) if len(files) == 1 else _by_file(files))
    occurrences = Counter(passage.text for passage in passages)
    passages = [
        passage
        for passage in passages
        if occurrences[passage.text] == 1 and passage.label.lower() not in passage.text.lower()
    ]
    kept = Counter(passage.label for passage in passages).most_common(most_labels)
    chosen = [
        passage
        for label, _ in sorted(kept)
        for passage in sorted((p for p in passages if p.label == label), key=_key)[:most_passages]
    ]
    sides: dict[str, list[Passage]] = {"train": [], "dev": []}
    for passage in chosen:
        sides["dev" if _fraction(passage.document) < _DEV_SHARE else "train"].append(passage)
    shared = {passage.label for passage in sides["train"]} & {passage.label for passage in sides["dev"]}
    if len(shared) < 2:
        raise ValueError(
            f"a classifier needs passages of two files or of the quarters of one. "
            f"Received: {len(passages)} passages in {len(files)} file(s)"
        )
    directory.mkdir(parents=True, exist_ok=True)
    return tuple(
        _write(directory / f"{side}.tsv", (p for p in rows if p.label in shared)) for side, rows in sides.items()
    )  # type: ignore[return-value]


def _write(path: Path, passages: Iterable[Passage]) -> int:
    lines = ["label\ttext", *(f"{passage.label}\t{passage.text}" for passage in passages)]
    staging = path.with_name(f".{path.name}.tmp")
    staging.write_text("\n".join(lines) + "\n", encoding="utf-8")
    staging.replace(path)
    return len(lines) - 1


def _by_file(files: Sequence[Path]) -> Iterator[Passage]:
    for path in files:
        label = path.name.removesuffix(path.suffix if path.suffix in _COMPRESSED else "").removesuffix(".txt")
        for ordinal, document in enumerate(_documents(path)):
            yield from (Passage(label, f"{path.name} {ordinal}", text) for text in _passages(document))


def _single_file(path: Path) -> Iterator[Passage]:
    texts = [text for document in _documents(path) for text in _passages(document)]
    for ordinal, text in enumerate(texts):
        yield Passage(f"quarter_{_PARTS * ordinal // len(texts) + 1}", f"{path.name} {ordinal // 4}", text)


def _documents(path: Path) -> Iterator[list[str]]:
    document: list[str] = []
    with _opened(path) as lines:
        for line in lines:
            text = re.sub(r"\s+", " ", line).strip()
            if text:
                document.append(text)
            elif document:
                yield document
                document = []
    if document:
        yield document


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return cast(TextIO, gzip.open(path, "rt", encoding="utf-8"))
    if path.suffix == ".bz2":
        return cast(TextIO, bz2.open(path, "rt", encoding="utf-8"))
    return path.open(encoding="utf-8")


def _passages(paragraphs: list[str]) -> Iterator[str]:
    words: list[str] = []
    for paragraph in paragraphs:
        words += paragraph.split(" ")
        if len(words) >= _PASSAGE_WORDS:
            yield " ".join(words[:_LONGEST_PASSAGE_WORDS])
            words = []


def _key(passage: Passage) -> bytes:
    return hashlib.blake2b(passage.text.encode()).digest()


def _fraction(document: str) -> float:
    return int.from_bytes(hashlib.blake2b(document.encode(), digest_size=4).digest(), "big") / 2**32

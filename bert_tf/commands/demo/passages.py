"""Labelled passages of plain text: the label is the file that a passage is from.

Every corpus has such a classification task, so that the effect of pre-training can be measured without a labelled data
set. Documents are held out before pre-training, which therefore never reads the passages that the classifier is
measured on.
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

from bert_tf.data.corpora.docstrings import LabelledDocument

_COMPRESSED = {".gz", ".bz2"}
_PASSAGE_WORDS = 25
_LONGEST_PASSAGE_WORDS = 90
_HELD_OUT_SHARE = 0.2
# A single file gives this many labels, and its documents are cut into blocks of so many paragraphs.
_PARTS = 4
_BLOCK = 8


@dataclass(frozen=True)
class Passage:
    """A few sentences of one document, and their label."""

    label: str
    text: str


def labelled_documents(files: Sequence[Path]) -> list[LabelledDocument]:
    """Reads the documents of some files; the label of each is the name of its file.

    A single file is cut into blocks of a few paragraphs, and the label of a block is the quarter that it is in.

    Args:
        files: UTF-8 text (plain, .gz, .bz2), a paragraph a line, a blank line between documents.

    Returns:
        The documents in the order of the files.
    """
    if len(files) > 1:
        return [LabelledDocument(_label(path), path.name, text) for path in files for text in _documents(path)]
    texts = [text[begin : begin + _BLOCK] for text in _documents(files[0]) for begin in range(0, len(text), _BLOCK)]
    return [
        LabelledDocument(f"quarter_{_PARTS * number // len(texts) + 1}", files[0].name, text)
        for number, text in enumerate(texts)
    ]


def split_documents(
    documents: Iterable[LabelledDocument], training: Path, held_out: Path
) -> tuple[list[Path], list[Path]]:
    """Writes a fifth of the documents to one folder and the others to another, a file for each label.

    The side of a document depends on its text alone. A held-out paragraph that also occurs in a training document is
    left out, so that no paragraph is on both sides.

    Args:
        documents: all of them.
        training: folder of the files to train on; made where it is missing.
        held_out: folder of the files to measure on; made where it is missing.

    Returns:
        The files of `training` and of `held_out`, sorted by label.
    """
    sides: dict[Path, dict[str, list[Sequence[str]]]] = {training: {}, held_out: {}}
    for document in documents:
        side = held_out if _fraction("\n".join(document.paragraphs)) < _HELD_OUT_SHARE else training
        sides[side].setdefault(document.label, []).append(document.paragraphs)
    seen = {paragraph for texts in sides[training].values() for text in texts for paragraph in text}
    for label, texts in sides[held_out].items():
        unseen = ([paragraph for paragraph in text if paragraph not in seen] for text in texts)
        sides[held_out][label] = [text for text in unseen if text]
    first, second = (
        [_write_documents(folder / f"{label}.txt", texts) for label, texts in sorted(labels.items()) if texts]
        for folder, labels in sides.items()
    )
    return first, second


def write_passages(
    training: Sequence[Path],
    held_out: Sequence[Path],
    directory: Path,
    *,
    most_labels: int = 8,
    most_passages: int = 1500,
) -> tuple[int, int]:
    """Writes `train.tsv` and `dev.tsv` with the columns `label` and `text`.

    A passage that stands in two places is left out, and so is one that contains its label: the label is to be inferred,
    not read.

    Args:
        training: files of `split_documents` to take training passages from.
        held_out: its files to take held-out passages from.
        directory: where the two files go; made where it is missing.
        most_labels: the labels with most training passages are kept.
        most_passages: passages kept of a label on either side, chosen by hash.

    Returns:
        The number of training and of held-out rows.

    Raises:
        ValueError: when fewer than two labels have passages on both sides.
    """
    sides = [_passages_of(files) for files in (training, held_out)]
    occurrences = Counter(passage.text for side in sides for passage in side)
    sides = [[p for p in side if occurrences[p.text] == 1 and p.label.lower() not in p.text.lower()] for side in sides]
    counts = Counter(passage.label for passage in sides[0])
    shared = counts.keys() & {passage.label for passage in sides[1]}
    # Of labels with equally many passages, the first by name.
    labels = sorted(sorted(shared), key=lambda label: -counts[label])[:most_labels]
    if len(labels) < 2:
        raise ValueError(
            "a classifier needs passages of two files or of the quarters of one, on both sides. Give more text with "
            f"--input. Received: {len(sides[0])} training and {len(sides[1])} held-out passages with {len(labels)} "
            "common label(s)"
        )
    directory.mkdir(parents=True, exist_ok=True)
    train, dev = (
        _write(directory / f"{name}.tsv", _chosen(side, sorted(labels), most_passages))
        for name, side in zip(("train", "dev"), sides, strict=True)
    )
    return train, dev


def _chosen(passages: Sequence[Passage], labels: Sequence[str], most: int) -> list[Passage]:
    return [
        passage for label in labels for passage in sorted((p for p in passages if p.label == label), key=_key)[:most]
    ]


def _write(path: Path, passages: Iterable[Passage]) -> int:
    lines = ["label\ttext", *(f"{passage.label}\t{passage.text}" for passage in passages)]
    staging = path.with_name(f".{path.name}.tmp")
    staging.write_text("\n".join(lines) + "\n", encoding="utf-8")
    staging.replace(path)
    return len(lines) - 1


def _write_documents(path: Path, documents: Iterable[Sequence[str]]) -> Path:
    text = "\n\n".join("\n".join(paragraphs) for paragraphs in documents) + "\n"
    # An unchanged file keeps its time of change, so that the steps after it can resume.
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path


def _label(path: Path) -> str:
    return path.name.removesuffix(path.suffix if path.suffix in _COMPRESSED else "").removesuffix(".txt")


def _passages_of(files: Sequence[Path]) -> list[Passage]:
    return [
        Passage(_label(path), text) for path in files for document in _documents(path) for text in _passages(document)
    ]


def _documents(path: Path) -> Iterator[tuple[str, ...]]:
    document: list[str] = []
    with _opened(path) as lines:
        for line in lines:
            text = re.sub(r"\s+", " ", line).strip()
            if text:
                document.append(text)
            elif document:
                yield tuple(document)
                document = []
    if document:
        yield tuple(document)


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return cast(TextIO, gzip.open(path, "rt", encoding="utf-8"))
    if path.suffix == ".bz2":
        return cast(TextIO, bz2.open(path, "rt", encoding="utf-8"))
    return path.open(encoding="utf-8")


def _passages(paragraphs: Sequence[str]) -> Iterator[str]:
    words: list[str] = []
    for paragraph in paragraphs:
        words += paragraph.split(" ")
        if len(words) >= _PASSAGE_WORDS:
            yield " ".join(words[:_LONGEST_PASSAGE_WORDS])
            words = []


def _key(passage: Passage) -> bytes:
    return hashlib.blake2b(passage.text.encode()).digest()


def _fraction(text: str) -> float:
    """Returns a number in [0, 1) that is a function of the text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big") / 2**32

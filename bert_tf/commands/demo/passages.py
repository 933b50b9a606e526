"""Labelled passages of plain text; the label is the file of a passage.

Every corpus provides such a classification task, so the effect of pre-training can be measured without a labelled data
set. Documents are held out before pre-training, so the model has not seen the evaluated passages.
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

from bert_tf.config.files import write_file
from bert_tf.data.corpora.docstrings import LabelledDocument

_COMPRESSED = {".gz", ".bz2"}
_PASSAGE_WORDS = 25
_LONGEST_PASSAGE_WORDS = 90
_HELD_OUT_SHARE = 0.2
# Number of labels of a single file, and paragraphs per block of its documents.
_PARTS = 4
_BLOCK = 8


@dataclass(frozen=True)
class Passage:
    """A few sentences of one document and their label.

    Args:
        label: name of the file.
        text: the sentences.
    """

    label: str
    text: str


def labelled_documents(files: Sequence[Path]) -> list[LabelledDocument]:
    """Reads the documents of some files; the label of each is the name of its file.

    A single file is split into blocks of a few paragraphs; the label of a block is its quarter of the file.

    Args:
        files: UTF-8 text (plain, .gz, .bz2), one paragraph per line, a blank line between documents.

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
    """Writes a fifth of the documents to one directory and the others to another, one file per label.

    The split of a document depends on its text alone. A held-out paragraph that also occurs in a training document is
    omitted, so that no paragraph is in both splits.

    Args:
        documents: all documents.
        training: directory of the training files; created if missing.
        held_out: directory of the held-out files; created if missing.

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

    Passages that occur twice or contain their label are omitted, so that the label must be inferred.

    Args:
        training: training files of `split_documents`.
        held_out: held-out files of `split_documents`.
        directory: output directory; created if missing.
        most_labels: number of labels to keep, those with the most training passages.
        most_passages: maximum passages per label in each split, chosen by hash.

    Returns:
        The number of training and of held-out rows.

    Raises:
        ValueError: if fewer than two labels have passages in both splits.
    """
    sides = [_passages_of(files) for files in (training, held_out)]
    occurrences = Counter(passage.text for side in sides for passage in side)
    sides = [[p for p in side if occurrences[p.text] == 1 and p.label.lower() not in p.text.lower()] for side in sides]
    counts = Counter(passage.label for passage in sides[0])
    shared = counts.keys() & {passage.label for passage in sides[1]}
    # Labels with equally many passages are in the order of their names.
    labels = sorted(sorted(shared), key=lambda label: -counts[label])[:most_labels]
    if len(labels) < 2:
        raise ValueError(
            "a classifier needs training and held-out passages of two files, or of two quarters of one file. "
            f"Received: {len(sides[0])} training and {len(sides[1])} held-out passages with {len(labels)} "
            "common label(s). Add more text with --input."
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
    write_file(path, "".join(f"{line}\n" for line in lines).encode())
    return len(lines) - 1


def _write_documents(path: Path, documents: Iterable[Sequence[str]]) -> Path:
    text = "\n\n".join("\n".join(paragraphs) for paragraphs in documents) + "\n"
    # An unchanged file keeps its modification time, so that later steps can resume.
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
    """Returns a number in [0, 1) that depends on the text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big") / 2**32

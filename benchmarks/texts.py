"""Writes text of a given size from a corpus, for benchmarks."""

from __future__ import annotations

import bz2
import contextlib
import glob
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import sentencex

DEFAULT_CORPUS = str(Path(__file__).parents[2] / "shared/data/corpus/*/*.txt.bz2")
# Enough files to keep every core of a small machine busy to the end.
_FILES = 8


def files_of(pattern: str) -> list[Path]:
    """Returns the sorted files that match comma-separated globs. Raises SystemExit if there are none."""
    files = sorted({Path(name) for part in pattern.split(",") for name in glob.glob(part)})  # noqa: PTH207
    if not files:
        raise SystemExit(f"--corpus {pattern}: must match .txt or .bz2 files of documents separated by blank lines.")
    return files


class Sample:
    """Plain text of any size from a corpus.

    Args:
        files: files of the corpus; documents are taken from each in turn, so that every size has the same mixture.
        directory: directory to write to.
    """

    def __init__(self, files: Sequence[Path], directory: Path) -> None:
        self._files = files
        self._directory = directory

    def write(self, megabytes: float, language: str = "none") -> list[Path]:
        """Writes the first documents of the corpus, unless the files exist.

        Args:
            megabytes: size of the text in millions of bytes.
            language: ISO 639-1 code for splitting paragraphs into one sentence per line, the original's input format;
                `none` keeps paragraphs.

        Returns:
            Eight files of about equal size.

        Raises:
            SystemExit: if the corpus is smaller.
        """
        folder = self._directory / f"text-{language}-{megabytes:g}"
        paths = [folder / f"part-{number}.txt" for number in range(_FILES)]
        if folder.exists():
            return paths
        folder.mkdir(parents=True)
        left = megabytes * 1e6
        with contextlib.ExitStack() as stack:
            outputs = itertools.cycle([stack.enter_context(path.open("w", encoding="utf-8")) for path in paths])
            for document in _in_turn(self._files):
                text = "\n".join(_lines(document, language)) + "\n\n"
                next(outputs).write(text)
                left -= len(text.encode())
                if left <= 0:
                    return paths
        raise SystemExit(f"--corpus: must hold at least {megabytes:g} MB of text.")


def _lines(document: Sequence[str], language: str) -> Iterator[str]:
    for paragraph in document:
        sentences = [paragraph] if language == "none" else sentencex.segment(language, paragraph)
        yield from (sentence.strip() for sentence in sentences if sentence.strip())


def documents_of(file: Path) -> Iterator[list[str]]:
    """Yields the documents of a file as lists of paragraphs."""
    with bz2.open(file, "rt", encoding="utf-8") if file.suffix == ".bz2" else file.open(encoding="utf-8") as lines:
        for blank, paragraphs in itertools.groupby(lines, lambda line: not line.strip()):
            if not blank:
                yield [paragraph.strip() for paragraph in paragraphs]


def _in_turn(files: Sequence[Path]) -> Iterator[list[str]]:
    for row in itertools.zip_longest(*(documents_of(file) for file in files)):
        yield from (document for document in row if document)

"""A corpus by name: what files it has, how large it is, and the transform that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from beam_pipelines.progress import ProgressLog
from beam_pipelines.sources.documents import RawDocument
from beam_pipelines.sources.python_docs import ReadSourceFiles
from beam_pipelines.sources.text import ReadTextFiles
from bert_tf.config import ConfigError
from bert_tf.data.docstrings import documentation_files

# Text in a byte of compressed prose (measured on Wikipedia: 3.3 for bz2, 2.6 for gzip; rounded up), and in a
# byte of Python source (measured on the standard library: 0.1).
_TEXT_PER_BYTE = {".bz2": 4.0, ".gz": 4.0, ".py": 0.1}
_SOURCE_FILES_A_BATCH = 64


@dataclass(frozen=True, order=True)
class InputFile:
    """One file: path, size in bytes, time of its last change in seconds, and a label (python_docs)."""

    path: str
    size: int
    modified: float
    label: str = ""

    @property
    def text_bytes(self) -> int:
        """Bytes of text in it, estimated for compressed files and sources."""
        return int(self.size * _TEXT_PER_BYTE.get(Path(self.path).suffix, 1.0))


@dataclass(frozen=True)
class Corpus:
    """The files of one corpus, sorted by path, and their format."""

    format: str
    files: tuple[InputFile, ...]

    @property
    def text_bytes(self) -> int:
        """Bytes of text, estimated."""
        return sum(file.text_bytes for file in self.files)

    @property
    def work_bytes(self) -> int:
        """What decides whether a second process pays: reading text out of sources costs as much as more text."""
        return max(self.bytes, self.text_bytes)

    @property
    def bytes(self) -> int:
        """Bytes on disk."""
        return sum(file.size for file in self.files)


def find_corpus(format: str, pattern: str) -> Corpus:
    """Finds the files of a corpus.

    Args:
        format: `text` or `python_docs`.
        pattern: comma-separated globs, or package names for `python_docs` (empty: all).

    Raises:
        ConfigError: when a glob matches nothing, a directory or an empty file, or a package is not installed.
    """
    names = [name.strip() for name in pattern.split(",") if name.strip()]
    if format == "python_docs":
        sources = documentation_files(names or None)
        stats = [(label, path, path.stat()) for label, path in sources]
        files = {InputFile(str(path), stat.st_size, stat.st_mtime, label) for label, path, stat in stats}
    else:
        files = {file for name in names for file in _matches(name)}
    return Corpus(format, tuple(sorted(files)))


def _matches(pattern: str) -> list[InputFile]:
    try:
        found = FileSystems.match([pattern])[0].metadata_list
    except BeamIOError as error:
        raise ConfigError(f"--input {pattern}: {error}") from error
    if not found:
        raise ConfigError(f"--input {pattern}: matches no file.")
    files = []
    for match in found:
        if "://" not in match.path and Path(match.path).is_dir():
            raise ConfigError(f"--input {pattern}: {match.path} is a directory; give a glob such as {pattern}/*")
        if not match.size_in_bytes:
            raise ConfigError(f"--input {pattern}: {match.path} is empty.")
        files.append(InputFile(match.path, match.size_in_bytes, match.last_updated_in_seconds or 0.0))
    return files


class ReadCorpus(beam.PTransform):
    """Reads every document of a corpus, as batches of RawDocument.

    Args:
        corpus: the files.
        max_document_bytes: longer documents carry the reason `over_long`.
        progress: where bytes read are noted.
    """

    def __init__(self, corpus: Corpus, max_document_bytes: int, progress: ProgressLog) -> None:
        super().__init__()
        self._corpus = corpus
        self._max_document_bytes = max_document_bytes
        self._progress = progress

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[list[RawDocument]]:
        """Files, spread over the workers, then read."""
        reader = ReadTextFiles if self._corpus.format == "text" else ReadSourceFiles
        return (
            pipeline
            | "Files" >> beam.Create(self._elements())
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(reader(self._max_document_bytes, self._progress))
        )

    def _elements(self) -> Sequence[object]:
        if self._corpus.format == "text":
            return [file.path for file in self._corpus.files]
        pairs = [(file.label, file.path) for file in self._corpus.files]
        starts = range(0, len(pairs), _SOURCE_FILES_A_BATCH)
        return [pairs[start : start + _SOURCE_FILES_A_BATCH] for start in starts]

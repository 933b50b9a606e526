"""A corpus: its inputs and files, its size, and the transform that reads it."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
from apache_beam.io.filesystem import BeamIOError
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from beam_pipelines.output import storage
from beam_pipelines.runners.progress import ProgressLog
from beam_pipelines.sources.books import Books
from beam_pipelines.sources.documents import (
    DocumentBatch,
    Format,
    InputFile,
    Part,
    RawDocument,
    ReadSettings,
)
from beam_pipelines.sources.jsonl import Jsonl
from beam_pipelines.sources.lines import COMPRESSED
from beam_pipelines.sources.parquet import Parquet
from beam_pipelines.sources.python_docs import PythonDocs
from beam_pipelines.sources.text import Text
from beam_pipelines.sources.wikiextractor import WikiExtractor
from beam_pipelines.sources.wikipedia.source import Wikipedia
from bert_tf.config import ConfigError
from bert_tf.data.corpora.docstrings import documentation_files

FORMATS: dict[str, type[Format]] = {
    "text": Text,
    "wikipedia": Wikipedia,
    "wikiextractor": WikiExtractor,
    "jsonl": Jsonl,
    "parquet": Parquet,
    "books": Books,
    "python_docs": PythonDocs,
}
_PACKAGES = "python_docs"
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*|none")


@dataclass(frozen=True)
class Input:
    """One of the inputs of a corpus."""

    pattern: str  # glob, or package name (python_docs; empty for all packages)
    format: str  # key of `FORMATS`
    language: str = "en"  # ISO 639-1 code for sentence splitting, or `none`
    weight: float = 1.0  # number of uses of the documents, as a multiple of `dupe_factor`


@dataclass(frozen=True)
class Corpus:
    """Inputs in command-line order and their sorted files."""

    inputs: tuple[Input, ...]
    files: tuple[InputFile, ...]

    def files_of(self, source: int) -> list[InputFile]:
        """Returns the files of input number `source`."""
        return [file for file in self.files if file.source == source]

    @property
    def languages(self) -> tuple[str, ...]:
        """Language of each input."""
        return tuple(source.language for source in self.inputs)

    @property
    def weights(self) -> tuple[float, ...]:
        """Weight of each input."""
        return tuple(source.weight for source in self.inputs)

    @property
    def bytes(self) -> int:
        """Size on disk in bytes."""
        return sum(file.size for file in self.files)

    @property
    def text_bytes(self) -> int:
        """Estimated bytes of text."""
        return sum(self.text_bytes_of(file) for file in self.files)

    @property
    def work_bytes(self) -> int:
        """Bytes of work, which decide whether a second process pays off; extracting text from markup counts as work."""
        return max(self.bytes, self.text_bytes)

    @property
    def most_documents(self) -> float:
        """Upper bound on the number of documents.

        A book is one file, and documents of other formats take at least one byte. For compressed files the bound is
        infinite.
        """
        return sum(self._most_documents_of(file) for file in self.files)

    def _most_documents_of(self, file: InputFile) -> float:
        format = self.inputs[file.source].format
        if format == "books":
            return 1
        return math.inf if format == "parquet" or file.path.endswith(COMPRESSED) else file.size

    def text_bytes_of(self, file: InputFile) -> int:
        """Returns the estimated bytes of text in a file of the corpus."""
        rates = FORMATS[self.inputs[file.source].format].text_per_byte
        return int(file.size * rates.get(Path(file.path).suffix, rates[""]))


def find_corpus(pattern: str, formats: str = "text", languages: str = "en", weights: str = "1") -> Corpus:
    """Finds the files of a corpus. A file matched by several inputs belongs to the first of them.

    All arguments are comma-separated lists: of globs, or package names for `python_docs` (empty: all), and of formats,
    languages and weights, one for each input or one for all. Raises ConfigError if a list has the wrong length, a value
    is invalid, a glob matches nothing, a directory or an empty file, or a package is not installed.
    """
    patterns = _split_list(pattern) or [""]
    lists = {"format": formats, "language": languages, "weights": weights}
    columns = [_column(name, text, len(patterns)) for name, text in lists.items()]
    inputs = tuple(
        Input(pattern, _format(format), _language(language), _weight(weight))
        for pattern, format, language, weight in zip(patterns, *columns, strict=True)
    )
    files: dict[tuple[str, str], InputFile] = {}
    for number, source in enumerate(inputs):
        for file in _files(source):
            files.setdefault((file.path, file.label), dataclasses.replace(file, source=number))
    return Corpus(inputs, tuple(sorted(files.values())))


def _split_list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _column(name: str, text: str, inputs: int) -> list[str]:
    values = _split_list(text)
    if len(values) == 1:
        return values * inputs
    if len(values) != inputs:
        raise ConfigError(f"--{name} must have one entry, or one for each of the {inputs} inputs. Received: {text!r}")
    return values


def _format(name: str) -> str:
    if name not in FORMATS:
        raise ConfigError(f"--format must be one of {', '.join(FORMATS)}. Received: {name!r}")
    return name


def _language(code: str) -> str:
    if not _LANGUAGE.fullmatch(code):
        raise ConfigError(f"--language must be ISO 639 codes such as en, or none. Received: {code!r}")
    return code


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0.0 < weight < math.inf:
        raise ConfigError(f"--weights must be positive numbers. Received: {text!r}")
    return weight


def _files(source: Input) -> list[InputFile]:
    if source.format == _PACKAGES:
        sources = [
            (label, path, path.stat()) for label, path in documentation_files(_split_list(source.pattern) or None)
        ]
        return [InputFile(str(path), stat.st_size, stat.st_mtime, label) for label, path, stat in sources]
    if not source.pattern:
        raise ConfigError("--input is required.")
    return _matches(source.pattern)


def _matches(pattern: str) -> list[InputFile]:
    try:
        matches = storage.match(pattern)
    except (BeamIOError, ValueError) as error:
        hint = ". Run `pip install 'bert-tf[gcp]'`." if pattern.startswith("gs://") else ""
        raise ConfigError(f"--input {pattern}: {error}{hint}") from error
    if not matches:
        raise ConfigError(f"--input {pattern}: matches no file. Check the path or the glob.")
    files = []
    for match in matches:
        if "://" not in match.path and Path(match.path).is_dir():
            raise ConfigError(f"--input {pattern}: {match.path} is a directory. Use a glob such as {pattern}/*")
        if not match.size_in_bytes:
            raise ConfigError(f"--input {pattern}: {match.path} is empty.")
        files.append(InputFile(match.path, match.size_in_bytes, match.last_updated_in_seconds or 0.0))
    return files


def reader_of(format: str, language: str, settings: ReadSettings) -> Format:
    """Builds the reader of a format (a key of `FORMATS`) and a language, or `none`."""
    return FORMATS[format](settings, "" if language == "none" else language)


class ReadCorpus(beam.PTransform):
    """Reads all documents of a corpus in batches of RawDocument, and logs parts and bytes read."""

    def __init__(self, corpus: Corpus, settings: ReadSettings, progress: ProgressLog) -> None:
        super().__init__()
        self._corpus = corpus
        self._settings = settings
        self._progress = progress

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[list[RawDocument]]:
        """Splits files into parts and reads parts to batches of documents, by format and language."""
        kinds: dict[tuple[str, str], list[InputFile]] = {}
        for file in self._corpus.files:
            source = self._corpus.inputs[file.source]
            kinds.setdefault((source.format, source.language), []).append(file)
        batches = [self._read(pipeline, *kind, files) for kind, files in sorted(kinds.items())]
        return batches[0] if len(batches) == 1 else batches | "AllFormats" >> beam.Flatten()

    def _read(
        self, pipeline: beam.Pipeline, format: str, language: str, files: Sequence[InputFile]
    ) -> beam.PCollection[list[RawDocument]]:
        reader, name = reader_of(format, language, self._settings), f"{format}_{language}"
        return (
            pipeline
            | f"Files_{name}" >> beam.Create(files)
            | f"SpreadFiles_{name}" >> beam.Reshuffle()
            | f"Split_{name}" >> beam.FlatMap(_split, reader, self._progress)
            | f"SpreadParts_{name}" >> beam.Reshuffle()
            | f"Read_{name}" >> beam.ParDo(ReadPart(reader, self._progress))
        )


def _split(file: InputFile, format: Format, progress: ProgressLog) -> list[Part]:
    """Returns the parts of a file, and logs their number."""
    parts = [part._replace(source=file.source) for part in format.split(file)]
    progress.note("parts", len(parts))
    progress.note("files", 1)
    return parts


class ReadPart(beam.DoFn):
    """Reads parts. Batches continue over the parts of a bundle, so many small files do not cause small batches."""

    def __init__(self, format: Format, progress: ProgressLog) -> None:
        self._format = format
        self._progress = progress

    def start_bundle(self) -> None:
        """Starts without documents."""
        self._batch = DocumentBatch()

    def process(self, part: Part) -> Iterable[list[RawDocument]]:
        """Yields the full batches."""
        for document in self._format.read(part):
            if self._batch.add(document._replace(source=part.source)):
                yield self._take_batch()
        self._progress.note("parts_read", 1)

    def finish_bundle(self) -> Iterable[WindowedValue]:
        """Yields the last batch."""
        if self._batch.documents:
            yield GlobalWindows.windowed_value(self._take_batch())

    def _take_batch(self) -> list[RawDocument]:
        batch = self._batch.documents
        self._progress.note("documents", len(batch))
        self._progress.note("text", sum(len(text.encode()) for document in batch for text in document.paragraphs))
        self.start_bundle()
        return batch

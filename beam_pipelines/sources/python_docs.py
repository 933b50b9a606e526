"""The documentation of Python itself: docstrings of the standard library and of installed packages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from beam_pipelines.sources.documents import OVER_LONG, DocumentReader, RawDocument, in_batches
from bert_tf.data.docstrings import file_documents


class ReadSourceFiles(DocumentReader):
    """Extracts the documents of a batch of Python source files."""

    def process(self, files: list[tuple[str, str]]) -> Iterable[list[RawDocument]]:
        """Yields batches of the documents of `files`, which are (label, path) pairs."""
        yield from in_batches(document for label, path in files for document in self._documents(label, path))
        self._progress.note("files", len(files))

    def _documents(self, label: str, path: str) -> Iterator[RawDocument]:
        for ordinal, document in enumerate(file_documents(label, Path(path)), start=1):
            paragraphs = tuple(document.paragraphs)
            if sum(len(paragraph.encode()) for paragraph in paragraphs) > self._max_document_bytes:
                yield RawDocument(path, ordinal, (paragraphs[0][:200],), OVER_LONG)
            else:
                yield RawDocument(path, ordinal, paragraphs)
        self._progress.note("read", Path(path).stat().st_size)

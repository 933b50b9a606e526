"""Python documentation: docstrings of the standard library and of installed packages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from beam_pipelines.errors import InputError
from beam_pipelines.sources.documents import Format, Part, RawDocument, raw_document
from bert_tf.data.corpora.docstrings import file_documents


class PythonDocs(Format):
    """One document per module or class. Its place is its name; the label of the part is the package."""

    # Measured on the standard library.
    text_per_byte: ClassVar[dict[str, float]] = {"": 0.1}

    def read(self, part: Part) -> Iterator[RawDocument]:
        """Yields the documents of a source file, if any. Raises InputError if the file cannot be read."""
        try:
            documents = file_documents(part.label, Path(part.path))
        except OSError as error:
            raise InputError(f"{part.path}: cannot be read: {error}") from error
        for document in documents:
            yield raw_document(part.path, document.name, document.paragraphs, self.settings.max_document_bytes)

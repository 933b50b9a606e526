"""Parquet: one document per row, the text in one column; split by row groups."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from beam_pipelines.errors import InputError
from beam_pipelines.output import storage
from beam_pipelines.sources.documents import (
    EMPTY,
    UNDECODABLE,
    Format,
    InputFile,
    Part,
    RawDocument,
    excerpt,
    paragraphs_of,
    raw_document,
)
from beam_pipelines.sources.lines import PART_BYTES, READ_ERRORS

# Bytes decoded and read at a time, independent of the size of a row group.
_BATCH_BYTES = 4 << 20
_READ_BYTES = 1 << 20


class Parquet(Format):
    """One document per row. Rows are numbered from 0 through the whole file, as in a table read by pyarrow.

    The column is `settings.text_field`: a name, or a dotted path (`meta.text`) into structs. Its values are strings
    (plain, large, view or dictionary-encoded; binary is decoded as UTF-8) with paragraphs separated by newlines, or
    lists of strings with one or more paragraphs each. A null has the reason `empty`.
    """

    # Measured on Wikipedia prose with Snappy, the default of most writers; rounded up.
    text_per_byte: ClassVar[dict[str, float]] = {"": 2.0}

    def split(self, file: InputFile) -> Iterator[Part]:
        """Yields row group ranges."""
        with opened_parquet(file.path) as parquet:
            groups = parquet.metadata.num_row_groups
            sizes = [column_bytes(parquet.metadata.row_group(group), "", "compressed") for group in range(groups)]
        begin, size, rest = 0, 0, file.size
        for group in range(groups - 1):
            size += sizes[group]
            if size >= PART_BYTES:
                yield Part(file.path, begin, group + 1, size, file.label)
                begin, size, rest = group + 1, 0, rest - size
        yield Part(file.path, begin, groups, rest, file.label)

    def read(self, part: Part) -> Iterator[RawDocument]:
        """Yields the documents of `part`. Raises InputError if the file is damaged, or has no such column of text."""
        with opened_parquet(part.path) as parquet:
            name, path = self._column(part.path, parquet.schema_arrow)
            groups = range(parquet.metadata.num_row_groups)
            row = sum(parquet.metadata.row_group(group).num_rows for group in groups[: part.begin])
            for group in groups[part.begin : part.end or None]:
                metadata = parquet.metadata.row_group(group)
                bytes_a_row = column_bytes(metadata, name, "uncompressed") / max(1, metadata.num_rows)
                rows = max(1, int(_BATCH_BYTES / max(1.0, bytes_a_row)))
                for batch in parquet.iter_batches(rows, row_groups=[group], columns=[name], use_threads=False):
                    for value in _values(batch.column(0), path):
                        yield self._document(part.path, f"row {row}", value)
                        row += 1

    def _column(self, file: str, schema: pyarrow.Schema) -> tuple[str, list[str]]:
        """Returns the name of the column to read and the path of fields inside it."""
        name = self.settings.text_field
        first, *path = [name] if name in schema.names else name.split(".")
        kind = schema.field(first).type if schema.names.count(first) == 1 else None
        for field in path:
            inside = kind is not None and pyarrow.types.is_struct(kind) and kind.get_field_index(field) >= 0
            kind = kind.field(field).type if inside else None  # type: ignore[union-attr]
        if kind is None or not _is_text(kind):
            fault = "has no" if kind is None else f"has {kind}, not text, in its"
            columns = ", ".join(f"{field.name} ({field.type})" for field in schema)
            raise InputError(
                f"{file}: {fault} column {name!r}; the columns are {columns}. Received: --text_field {name}"
            )
        return name, path

    def _document(self, file: str, place: str, value: Any) -> RawDocument:
        if value is None:
            return RawDocument(file, place, (), EMPTY)
        pieces = value if isinstance(value, list) else [value]
        try:
            paragraphs = [text for piece in pieces for text in paragraphs_of((piece or b"").decode())]
        except UnicodeDecodeError as error:
            return RawDocument(file, place, excerpt([error.object[:1000].decode(errors="replace")]), UNDECODABLE)
        return raw_document(file, place, paragraphs, self.settings.max_document_bytes)


@contextlib.contextmanager
def opened_parquet(path: str) -> Iterator[pyarrow.parquet.ParquetFile]:
    """Opens a Parquet file; errors inside the block become an InputError."""
    try:
        with storage.opened(path) as raw:
            # With `pre_buffer` a whole row group would be kept in memory.
            yield pyarrow.parquet.ParquetFile(
                raw, buffer_size=_READ_BYTES, pre_buffer=False, page_checksum_verification=True
            )
    except READ_ERRORS as error:
        raise InputError(f"{path}: missing, damaged or not a Parquet file: {error}") from error


def column_bytes(group: Any, name: str, form: str) -> int:
    """Returns the size of a column and its nested columns in a row group; of all columns if `name` is empty."""
    columns = [group.column(number) for number in range(group.num_columns)]
    named = [c for c in columns if not name or c.path_in_schema == name or c.path_in_schema.startswith(f"{name}.")]
    return sum(getattr(column, f"total_{form}_size") for column in named)


def _is_text(kind: pyarrow.DataType) -> bool:
    types = pyarrow.types
    if types.is_list(kind) or types.is_large_list(kind):
        kind = kind.value_type
    if types.is_dictionary(kind):
        kind = kind.value_type
    strings = (types.is_string, types.is_large_string, types.is_string_view)
    return any(test(kind) for test in (*strings, types.is_binary, types.is_large_binary, types.is_binary_view))


def _values(column: pyarrow.Array, path: list[str]) -> Iterable[Any]:
    """Returns bytes, lists of bytes or None for each row of a column; not text, because it may be invalid UTF-8."""
    for field in path:
        column = pyarrow.compute.struct_field(column, field)
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    nested = getattr(column.type, "value_type", None)
    return column.cast(pyarrow.large_list(pyarrow.large_binary()) if nested else pyarrow.large_binary()).to_pylist()

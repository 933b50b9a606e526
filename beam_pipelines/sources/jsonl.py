"""JSON lines: one object per line with a text field; plain, .gz, .bz2 or .zst."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from beam_pipelines.errors import InputError
from beam_pipelines.sources import lines
from beam_pipelines.sources.documents import (
    EXCERPT_CHARACTERS,
    MALFORMED,
    OVER_LONG,
    UNDECODABLE,
    Format,
    InputFile,
    Part,
    RawDocument,
    excerpt,
    paragraphs_of,
    raw_document,
    without_surrogates,
)

# If this many first lines are all malformed, the file is not damaged but has another format.
_TELLING_LINES = 100
# Maximum length of a line relative to the longest text, for escapes (`\u4e2d` for three bytes) and other fields.
LINE_FACTOR = 4
LINE_MARGIN = 1 << 20
_FIELDS_SHOWN = 100


class Jsonl(Format):
    """One document per line; a line belongs to the part in which it begins, and blank lines are skipped.

    The field is `settings.text_field`: a key, or a dotted path (`meta.text`) into nested objects. Newlines in the text
    separate paragraphs. A null or blank text has the reason `empty`. A line that is not a JSON object, lacks the field,
    or has no string in it has the reason `malformed`. As in Python's `json`, the last of several equal keys counts, and
    NaN and Infinity are accepted.
    """

    text_per_byte: ClassVar[dict[str, float]] = lines.TEXT_PER_BYTE

    def split(self, file: InputFile) -> Iterable[Part]:
        """Yields byte ranges; a compressed file is one part."""
        return lines.byte_ranges(file)

    def read(self, part: Part) -> Iterator[RawDocument]:
        """Yields the documents of `part`.

        Args:
            part: range of a file.

        Raises:
            InputError: if the file cannot be read to its end, or none of its first lines has the field, because the
                field name or the format is wrong.
        """
        longest = LINE_FACTOR * self.settings.max_document_bytes + LINE_MARGIN
        first: RawDocument | None = None
        documents = 0
        for number, offset, line in lines.read_lines(part, longest):
            if part.end and offset >= part.end:
                return
            if line.isspace():
                continue
            document = self._document(part.path, lines.place(part, number, offset), line, longest)
            documents += 1
            if documents == 1 and not part.begin and document.reason == MALFORMED:
                first = document
            elif document.reason != MALFORMED:
                first = None
            if first and documents == _TELLING_LINES:
                raise InputError(
                    f"{part.path}: none of the first {_TELLING_LINES} lines is a JSON object with text in the field "
                    f'"{self.settings.text_field}". Check --text_field and --format. Received: {first.place}: '
                    f"{first.paragraphs[0]}"
                )
            yield document

    def _document(self, path: str, place: str, line: bytes, longest: int) -> RawDocument:
        record, reason, shown = parsed(line, longest)
        if not reason:
            try:
                value = field_of(record, self.settings.text_field)
            except ValueError as error:
                reason, shown = malformed(error, line)
        if reason:
            return RawDocument(path, place, shown, reason)
        return raw_document(path, place, paragraphs_of(value or ""), self.settings.max_document_bytes)


def malformed(error: ValueError, line: bytes) -> tuple[str, tuple[str, ...]]:
    """Returns the reason and the excerpt of a line without text."""
    shown = line[:EXCERPT_CHARACTERS].decode(errors="replace")
    return MALFORMED, excerpt([f"{without_surrogates(str(error))}:", shown])


def parsed(line: bytes, longest: int) -> tuple[Any, str, tuple[str, ...]]:
    """Parses one line of JSON.

    Args:
        line: bytes of the line.
        longest: length in bytes at which lines are cut.

    Returns:
        The value, "" and (); or None, the reason for leaving out the document, and an excerpt.
    """
    if len(line) == longest:
        return None, OVER_LONG, excerpt([line[: 4 * EXCERPT_CHARACTERS].decode(errors="replace")])
    text, fault = lines.decoded(line)
    if fault >= 0:
        return None, UNDECODABLE, (lines.around(line, fault),)
    try:
        return json.loads(text), "", ()
    except (ValueError, RecursionError) as error:
        return None, MALFORMED, excerpt([f"no JSON: {error}:", text])


def field_of(record: Any, name: str) -> str | None:
    """Returns the text of a field.

    Args:
        record: decoded line.
        name: key, or dotted path into nested objects.

    Returns:
        The text, or None if the field is null.

    Raises:
        ValueError: if the field is missing or is not text.
    """
    if isinstance(record, dict) and name in record:
        value = record[name]
    else:
        value, path = record, name.split(".")
        for depth, key in enumerate(path):
            within = f' in "{".".join(path[:depth])}"' if depth else ""
            if not isinstance(value, dict):
                raise ValueError(f"no JSON object{within} but {_kind(value)}")
            if key not in value:
                fields = ", ".join(map(str, value))[:_FIELDS_SHOWN] or "none"
                raise ValueError(f'no field "{key}"{within}; the fields are {fields}')
            value = value[key]
    if value is not None and not isinstance(value, str):
        raise ValueError(f'the field "{name}" holds no string but {_kind(value)}')
    return value


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")

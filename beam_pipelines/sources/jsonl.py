"""JSON lines: an object a line, the text in a field of it; plain, .gz, .bz2 or .zst."""

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
)
from beam_pipelines.sources.paragraphs import paragraphs_of, raw_document, without_surrogates

# A file whose first lines, this many, are all malformed is not damaged but something else than was said.
_TELLING_LINES = 100
# A line may be so many times longer than the longest text, for escapes (`\u4e2d` for three bytes) and other fields.
LINE_FACTOR = 4
LINE_MARGIN = 1 << 20
_FIELDS_SHOWN = 100


class Jsonl(Format):
    """One document a line; a line belongs to the part it begins in, and blank lines are passed over.

    The field is `settings.text_field`: a key, or a dotted path (`meta.text`) into nested objects. Its newlines separate
    paragraphs. The reason of a text that is null or blank is `empty`, that of a line which is no JSON object, lacks the
    field, or has something else than a string in it is `malformed`. As in Python's `json`, the last of several equal
    keys counts, and NaN and Infinity are accepted.
    """

    text_per_byte: ClassVar[dict[str, float]] = lines.TEXT_PER_BYTE

    def split(self, file: InputFile) -> Iterable[Part]:
        """Yields ranges of bytes; a compressed file stays whole."""
        return lines.byte_ranges(file)

    def read(self, part: Part) -> Iterator[RawDocument]:
        """Yields the documents of `part`.

        Raises:
            InputError: for a file that cannot be read to its end, or that begins with many lines of which none has the
                field: the field's name or the format is wrong.
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
                    f'"{self.settings.text_field}". Received: {first.place}: {first.paragraphs[0]}'
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
    """Returns the reason and the excerpt for a line in which no text was found."""
    shown = line[:EXCERPT_CHARACTERS].decode(errors="replace")
    return MALFORMED, excerpt([f"{without_surrogates(str(error))}:", shown])


def parsed(line: bytes, longest: int) -> tuple[Any, str, tuple[str, ...]]:
    """Reads one line of JSON.

    Args:
        line: its bytes.
        longest: bytes at which lines are cut.

    Returns:
        The value and two empty ones, or None, the reason why the document is left out, and an excerpt.
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
    """Returns the text in the field `name` of a decoded line, None where it is null.

    Raises:
        ValueError: where there is no such field, or no text in it.
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

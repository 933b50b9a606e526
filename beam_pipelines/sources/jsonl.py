"""JSON lines: one object per line with a text field; plain, .gz, .bz2 or .zst."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from beam_pipelines.errors import InputError
from beam_pipelines.sources import lines
from beam_pipelines.sources.documents import (
    EXCERPT_CHARACTERS,
    MALFORMED,
    OVER_LONG,
    UNDECODABLE,
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


class Jsonl(lines.RangeFormat):
    """One document per line; a line belongs to the part in which it begins, and blank lines are skipped.

    The field is `settings.text_field`: a key, or a dotted path (`meta.text`) into nested objects. Newlines in the text
    separate paragraphs. A null or blank text has the reason `empty`. A line that is not a JSON object, lacks the field,
    or has no string in it has the reason `malformed`. As in Python's `json`, the last of several equal keys counts, and
    NaN and Infinity are accepted.
    """

    def read(self, part: Part) -> Iterator[RawDocument]:
        """Yields the documents of `part`.

        Raises InputError if the file cannot be read to its end, or none of its first lines has the field, because the
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
        texts, reason, shown = text_fields(line, [self.settings.text_field], longest)
        if reason:
            return RawDocument(path, place, shown, reason)
        return raw_document(path, place, paragraphs_of(texts[0]), self.settings.max_document_bytes)


def text_fields(line: bytes, names: Sequence[str], longest: int) -> tuple[list[str], str, tuple[str, ...]]:
    """Reads text fields of a line of JSON. A line of `longest` bytes is over-long, because it was cut there.

    Returns the texts (empty for null), "" and (); or no texts, the reason for leaving out the document, and an excerpt.
    """
    if len(line) == longest:
        return [], OVER_LONG, excerpt([line[: 4 * EXCERPT_CHARACTERS].decode(errors="replace")])
    text, fault = lines.decoded(line)
    if fault >= 0:
        return [], UNDECODABLE, (lines.around(line, fault),)
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        return [], MALFORMED, excerpt([f"no JSON: {error}:", text])
    try:
        return [_field(record, name) or "" for name in names], "", ()
    except ValueError as error:
        shown = line[:EXCERPT_CHARACTERS].decode(errors="replace")
        return [], MALFORMED, excerpt([f"{without_surrogates(str(error))}:", shown])


def _field(record: Any, name: str) -> str | None:
    """Returns the text at a key or a dotted path; None for null. Raises ValueError if it is missing or not text."""
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

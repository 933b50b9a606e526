"""JSON files that hold one object: reading, and checks of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_tf.config.base import parse_json

# Characters of a text shown in a message.
SHOWN = 40


class FieldError(Exception):
    """A missing or invalid field of an object."""


def read_json_object(path: Path) -> dict[str, Any]:
    """Reads a JSON object from a UTF-8 file. Raises ValueError for other contents, and duplicate names in an object."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            names = [name for name, _ in pairs]
            double = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"names in an object must be unique. Received twice: {double!r}")
        return content

    try:
        content = parse_json(path.read_bytes().decode("utf-8-sig"), object_pairs_hook=unique)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8: {error}") from error
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: must hold a JSON object. Received: {type(content).__name__}")
    return content


def text_field(entry: Any, name: str) -> str:
    """Returns a non-empty string of an object. Raises FieldError for another value."""
    value = object_of(entry).get(name)
    if not isinstance(value, str) or not value.strip():
        raise FieldError(f"`{name}` must be a non-empty string. Received: {shown(value)}")
    return value


def list_field(entry: Any, name: str) -> list[Any]:
    """Returns a list of an object. Raises FieldError for another value."""
    value = object_of(entry).get(name)
    if not isinstance(value, list):
        raise FieldError(f"`{name}` must be a list. Received: {shown(value)}")
    return value


def object_of(entry: Any) -> Mapping[str, Any]:
    """Returns an entry that is an object. Raises FieldError for another value."""
    if not isinstance(entry, dict):
        raise FieldError(f"must be an object. Received: {shown(entry)}")
    return entry


def shown(value: Any) -> str:
    """Returns a value for a message, shortened."""
    text = repr(value)
    return text if len(text) <= 2 * SHOWN else f"{text[: 2 * SHOWN]}..."

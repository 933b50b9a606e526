"""Describes the fields of configurations: names, types and defaults, with the meanings in their docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FieldDescription:
    """Description of a field.

    Args:
        name: name of the field.
        type: type annotation.
        default: default value, as in Python.
        text: meaning and unit; empty if the docstring lacks the field.
    """

    name: str
    type: str
    default: str
    text: str


def describe_fields(config: Any) -> list[FieldDescription]:
    """Describes the fields of a configuration.

    Args:
        config: a dataclass, or an instance whose values are the defaults.

    Example:
        >>> from bert_tf.config.describe import describe_fields
        >>> fields = {field.name: field for field in describe_fields(bert_tf.TrainingConfig)}
        >>> fields["steps"].default, fields["steps"].text
        ('1000', 'total number of optimizer steps (pre-training).')
    """
    entries = descriptions(inspect.getdoc(config) or "")
    return [
        FieldDescription(field.name, str(field.type), _default(config, field), entries.get(field.name, ""))
        for field in dataclasses.fields(config)
    ]


def descriptions(docstring: str) -> dict[str, str]:
    """Returns the entries of a docstring's Args section, on one line each.

    Args:
        docstring: in Google style; an entry may describe several names, separated by commas.
    """
    section = re.search(r"^Args:\n((?:[ ]{4,}.*\n|\n)*)", docstring + "\n", re.MULTILINE)
    entries: dict[str, str] = {}
    for entry in re.split(r"\n(?=[ ]{4}\w)", section[1].rstrip() if section else ""):
        names, _, text = entry.strip().partition(": ")
        for name in re.sub(r"\s*\(.*\)", "", names).split(", "):
            entries[name] = " ".join(text.split())
    return entries


def _default(config: Any, field: dataclasses.Field[Any]) -> str:
    if not isinstance(config, type):
        return repr(getattr(config, field.name))
    factory = field.default_factory
    return factory.__name__ if isinstance(factory, type) else repr(field.default)

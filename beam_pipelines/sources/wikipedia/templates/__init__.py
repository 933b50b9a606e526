"""Texts of templates by language of the wiki; names are in lower case, with words separated by one space."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

from beam_pipelines.sources.wikipedia.templates.renderers import Renderer, names_of, renderer
from beam_pipelines.sources.wikipedia.templates.tables import TABLES

LANGUAGES = tuple(filter(None, TABLES))


class TemplateTables(NamedTuple):
    """The templates of one wiki: renderers by name, and by patterns of all other names."""

    templates: dict[str, Renderer]
    patterns: Sequence[tuple[re.Pattern[str], Renderer]]

    def find(self, title: str) -> Renderer | None:
        """Returns the renderer of a template, or None if it is unknown."""
        name = title.lower()
        if render := self.templates.get(name):
            return render
        return next((render for pattern, render in self.patterns if pattern.fullmatch(name)), None)


def tables_of(language: str) -> TemplateTables:
    """Returns the tables of a language code; of a code with subtags (`zh-yue`, `pt-BR`) the first part is used.

    The tables of a language extend those of all wikis and replace equal entries.
    """
    primary = language.lower().partition("-")[0]
    return _tables(primary if primary in TABLES else "")


@functools.cache
def _tables(language: str) -> TemplateTables:
    entries, patterns = TABLES[language]
    own = TemplateTables({}, [(re.compile(pattern), renderer(rule)) for pattern, rule in patterns.items()])
    for rule, names in entries.items():
        own.templates.update(dict.fromkeys(names_of(names), renderer(rule)))
    if not language:
        return own
    shared = _tables("")
    return TemplateTables(shared.templates | own.templates, [*own.patterns, *shared.patterns])

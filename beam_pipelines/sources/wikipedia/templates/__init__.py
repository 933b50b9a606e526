"""Tables of the text that templates show, by the language of the wiki.

The tables of a language extend, and where they differ replace, those of `core`. Sources: the documentation pages of
the templates on the wikis, and the uses in their articles. Names are in lower case, words separated by one space.
"""

from __future__ import annotations

import functools
import importlib
from typing import NamedTuple

from beam_pipelines.sources.wikipedia.templates import core
from beam_pipelines.sources.wikipedia.templates.renderers import Patterns, Renderer, Templates

# Languages that have a module of their own, by the codes that dumps give.
LANGUAGES = ("ar", "de", "en", "es", "fr", "it", "ja", "ltg", "nl", "pl", "pt", "ru", "zh")


class TemplateTables(NamedTuple):
    """The templates of one wiki: entries by name, and patterns for names that have none."""

    templates: Templates
    patterns: Patterns

    def find(self, title: str) -> Renderer | None:
        """Returns the renderer of a template, or None for one that the tables do not know."""
        name = title.lower()
        if found := self.templates.get(name):
            return found
        return next((render for pattern, render in self.patterns if pattern.fullmatch(name)), None)


@functools.cache
def tables_of(language: str) -> TemplateTables:
    """Returns the tables of a language, those of `core` alone for a language that has none.

    Args:
        language: code of a language; of one with subtags (`zh-yue`, `pt-BR`) the first part counts.
    """
    primary = language.lower().partition("-")[0]
    if primary not in LANGUAGES:
        return TemplateTables(core.TEMPLATES, core.PATTERNS)
    own = importlib.import_module(f"{__name__}.{primary}")
    return TemplateTables(core.TEMPLATES | own.TEMPLATES, own.PATTERNS + core.PATTERNS)

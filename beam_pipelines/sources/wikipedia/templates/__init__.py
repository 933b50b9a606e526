"""Tables of template texts by language of the wiki.

The tables of a language extend those of `core` and replace equal entries. Sources: the documentation pages of the
templates on the wikis, and their use in articles. Names are in lower case, with words separated by one space.
"""

from __future__ import annotations

import functools
import importlib
from typing import NamedTuple

from beam_pipelines.sources.wikipedia.templates import core
from beam_pipelines.sources.wikipedia.templates.renderers import Patterns, Renderer, Templates

# Languages with a module, by their codes in dumps.
LANGUAGES = ("ar", "de", "en", "es", "fr", "it", "ja", "ltg", "nl", "pl", "pt", "ru", "zh")


class TemplateTables(NamedTuple):
    """The templates of one wiki: entries by name, and patterns for all other names."""

    templates: Templates
    patterns: Patterns

    def find(self, title: str) -> Renderer | None:
        """Returns the renderer of a template, or None if it is unknown."""
        name = title.lower()
        if renderer := self.templates.get(name):
            return renderer
        return next((render for pattern, render in self.patterns if pattern.fullmatch(name)), None)


@functools.cache
def tables_of(language: str) -> TemplateTables:
    """Returns the tables of a language, or only those of `core` if it has none.

    Args:
        language: language code; of a code with subtags (`zh-yue`, `pt-BR`) the first part is used.
    """
    primary = language.lower().partition("-")[0]
    if primary not in LANGUAGES:
        return TemplateTables(core.TEMPLATES, core.PATTERNS)
    module = importlib.import_module(f"{__name__}.{primary}")
    return TemplateTables(core.TEMPLATES | module.TEMPLATES, module.PATTERNS + core.PATTERNS)

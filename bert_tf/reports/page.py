"""Renders self-contained HTML pages from the templates and assets of this package."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bert_tf.config.files import staged_file
from bert_tf.entry.amounts import plural
from bert_tf.reports import text

# Maximum characters of the articles of one section.
_MOST_CHARACTERS = 1_500_000


def render(template: str, **context: Any) -> str:
    """Renders a template of `templates/`. Every text is escaped; a missing variable is an error."""
    return _environment().get_template(template).render(context)


def write_page(path: str | Path, page: str) -> None:
    """Writes a page atomically to `path`."""
    with staged_file(path) as file:
        file.write(page.encode())


def asset(name: str) -> str:
    """Returns a file of `assets/`, for a page without escaping. Raises ValueError if it would end its own element."""
    content = resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
    if "</" in content:
        raise ValueError(f"assets/{name} must not contain an end tag. Received: {content!r}")
    return content


def bounded(rows: Sequence[Any], article: Callable[[int, Any], str]) -> tuple[list[str], int]:
    """Renders rows, with their numbers from 1, as articles up to a total size; returns also the number left out."""
    articles: list[str] = []
    size = 0
    for number, row in enumerate(rows, start=1):
        rendered = article(number, row)
        size += len(rendered)
        if size > _MOST_CHARACTERS:
            break
        articles.append(rendered)
    return articles, len(rows) - len(articles)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("bert_tf.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    names = ("cut", "format_metric", "in_bytes", "named", "percent", "piece", "share")
    environment.filters.update({name: getattr(text, name) for name in names}, plural=plural, comma="{:,}".format)
    environment.globals.update(asset=asset, bounded=bounded)
    return environment

"""The page at `/`, on which the served models can be tried."""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def page() -> str:
    """Returns the page: one HTML file that needs nothing from elsewhere."""
    return resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")

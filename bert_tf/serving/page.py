"""The page at `/`, on which the served models can be tried."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from importlib import resources


@functools.cache
def page() -> str:
    """Returns the page: one HTML file that needs nothing from elsewhere."""
    return resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")


@functools.cache
def page_headers() -> dict[str, str]:
    """Returns the headers of the page: a policy that allows its own script, style and requests, and nothing else."""
    script, style = (_hash(element) for element in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src {script}; style-src {style}; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {"content-security-policy": policy}


def _hash(element: str) -> str:
    """Returns the source of an inline element, as a policy names it."""
    (content,) = re.findall(f"<{element}>(.*?)</{element}>", page(), re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"

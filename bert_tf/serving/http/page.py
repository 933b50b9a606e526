"""The web page at `/`, for trying the served models."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from importlib import resources


@functools.cache
def page() -> str:
    """Returns the page as one HTML file without external resources."""
    return resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")


@functools.cache
def page_headers() -> dict[str, str]:
    """Returns the page's headers: a policy that allows only its own script, style and requests."""
    script, style = (_hash(element) for element in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src {script}; style-src {style}; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {"content-security-policy": policy}


def _hash(element: str) -> str:
    """Returns the hash of an inline element in the form of a content security policy."""
    (content,) = re.findall(f"<{element}>(.*?)</{element}>", page(), re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"

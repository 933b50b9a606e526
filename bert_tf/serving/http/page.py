"""The web page for trying the served models: one HTML file without external resources, and its security policy."""

from __future__ import annotations

import base64
import functools
import hashlib
import re

from bert_tf.reports.page import render


@functools.cache
def page(metrics_path: str | None = None) -> str:
    """Returns the page. It holds nothing about the models: its script reads that with the user's token.

    Args:
        metrics_path: path of the metrics to link to; None for no link.
    """
    return render("try.html.jinja", heading="Try a model", metrics_path=metrics_path)


@functools.cache
def page_headers(content: str) -> dict[str, str]:
    """Returns the headers of a page: a policy that allows only its own script, style and requests to this server.

    Args:
        content: the page, with one script and one style element.
    """
    hashes = {}
    for element in ("script", "style"):
        (source,) = re.findall(f"<{element}>(.*?)</{element}>", content, re.DOTALL)
        hashes[element] = f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
    policy = (
        f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {"content-security-policy": policy}

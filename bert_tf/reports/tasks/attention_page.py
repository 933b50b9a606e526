"""HTML page of attention weights: an overview of all heads, and each head token by token.

Square roots of the weights are quantized to one byte each, so that small weights remain distinguishable.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from bert_tf.config.files import staged_file
from bert_tf.reports.data.facts import plural
from bert_tf.reports.html import element, extended
from bert_tf.reports.parts import heading, warning
from bert_tf.reports.style import styled_page
from bert_tf.reports.tasks.attention import AttentionView
from bert_tf.reports.tasks.attention_script import ATTENTION_SCRIPT, ATTENTION_STYLE
from bert_tf.reports.tasks.style import PAGE_STYLE
from bert_tf.reports.text import cut, shown
from bert_tf.text.vocabulary import SPECIAL_TOKENS


def write_attention_page(path: str | Path, view: AttentionView, model: str) -> None:
    """Writes the page atomically.

    Args:
        path: destination of the page.
        view: weights to show.
        model: name of the model.
    """
    with staged_file(path) as file:
        file.write(attention_page(view, model).encode())


def attention_page(view: AttentionView, model: str) -> str:
    """Renders the page of `write_attention_page`."""
    layers, heads, length, _ = view.weights.shape
    title = cut(" ".join(token for token in view.tokens if token not in SPECIAL_TOKENS).replace(" ##", ""), 120)
    lead = f"{model}: {plural(layers, 'layer')} of {plural(heads, 'head')}, {plural(length, 'token')}."
    main = extended(element("main"), heading("bert_tf attention", title, cut(lead)))
    if view.left_out:
        extended(main, warning(f"Truncated: {plural(view.left_out, 'token')} left out"))
    extended(main, _sections())
    main.append(element("script", _data(view), type="application/json", id="data"))
    main.append(element("script", ATTENTION_SCRIPT))
    return styled_page(f"Attention: {title}", main, PAGE_STYLE + ATTENTION_STYLE)


def quantized(weights: np.ndarray) -> np.ndarray:
    """Quantizes weights in [0, 1] to uint8; `(value / 255)²` restores them with an error of at most 0.004."""
    return np.rint(255 * np.sqrt(np.clip(weights, 0, 1))).astype(np.uint8)


def _data(view: AttentionView) -> str:
    layers, heads = view.weights.shape[:2]
    values = {
        "tokens": [shown(token) for token in view.tokens],
        "special": [token in SPECIAL_TOKENS for token in view.tokens],
        "segments": view.segments,
        "layers": layers,
        "heads": heads,
        "weights": base64.b64encode(quantized(view.weights).tobytes()).decode(),
    }
    # Texts must not be able to close the script element.
    return json.dumps(values).replace("<", "\\u003c")


def _sections() -> Iterator[Element]:
    yield element(
        "noscript",
        element("p", "This page requires JavaScript, which is disabled.", class_="verdict warn"),
    )
    yield element("h2", "All heads")
    yield element(
        "p",
        "Each row is a layer, the lowest first; each column is a head. In each matrix a row is a token, and stronger "
        "colours mean larger weights on the token of the column. Click the number of a layer for the mean of its "
        "heads. Use the arrow keys to move between heads.",
        class_="note",
    )
    looks = (
        element("h3", "", id="chosen", aria_live="polite"),
        element("p", "", id="said", class_="note"),
        element("p", id="text", dir="auto"),
        element("dl", id="habits"),
    )
    heads = element("div", element("div", id="heads", role="group", aria_label="Heads"), class_="card heads")
    yield element("div", heads, element("section", *looks, class_="card looks"), class_="sight")
    lines = element("section", element("h3", "Token by token"),
                    element("p", "Left: attending tokens. Right: attended tokens.", class_="note"),
                    element("div", id="lines"), class_="card")  # fmt: skip
    matrix = element("section", element("h3", "Matrix"),
                     element("p", "Rows: attending tokens. Columns: attended tokens.", class_="note"),
                     element("canvas", id="matrix"), element("p", id="cell", class_="note"), class_="card")  # fmt: skip
    yield element("div", lines, matrix, class_="pair")

"""HTML and SVG elements. All text and attributes are escaped, except the content of `<style>` and `<script>`."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from xml.etree.ElementTree import Element

Content = Element | str
# Elements without an end tag.
_VOID = frozenset({"meta"})
# Elements whose content browsers do not unescape.
_RAW = frozenset({"style", "script"})


def element(tag: str, *content: Content, **attributes: object) -> Element:
    """Builds an element.

    Args:
        tag: tag name.
        *content: texts and child elements, in order.
        **attributes: attributes; a trailing underscore is dropped (`class_`), others become hyphens (`aria_label`).

    Returns:
        The element.
    """
    names = {name.rstrip("_").replace("_", "-"): str(value) for name, value in attributes.items()}
    return extended(Element(tag, names), content)


def extended(parent: Element, content: Iterable[Content]) -> Element:
    """Appends texts and elements to `parent` and returns it."""
    for item in content:
        if not isinstance(item, str):
            parent.append(item)
        elif len(parent):
            parent[-1].tail = (parent[-1].tail or "") + item
        else:
            parent.text = (parent.text or "") + item
    return parent


def to_html(root: Element) -> str:
    """Renders `root` as an HTML document.

    Unlike ElementTree's writer this also escapes `<` in attributes, so that a search for `<script` finds only scripts.

    Args:
        root: the `html` element.

    Returns:
        The document.

    Raises:
        ValueError: if a style sheet or a script contains an end tag.
    """
    return f"<!DOCTYPE html>\n{_written(root)}\n"


def _written(node: Element) -> str:
    attributes = "".join(f' {name}="{escape(value)}"' for name, value in node.items())
    text, tail = node.text or "", escape(node.tail or "", quote=False)
    if node.tag in _VOID:
        return f"<{node.tag}{attributes}>{tail}"
    if node.tag in _RAW and "</" in text:
        raise ValueError(f"the content of <{node.tag}> must not contain an end tag. Received: {text!r}")
    inside = text if node.tag in _RAW else escape(text, quote=False)
    return f"<{node.tag}{attributes}>{inside}{''.join(map(_written, node))}</{node.tag}>{tail}"

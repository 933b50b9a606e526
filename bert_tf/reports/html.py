"""HTML and SVG elements. Every text and attribute is escaped, the content of `<style>` and `<script>` alone is not."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from xml.etree.ElementTree import Element

Content = Element | str
# Elements without an end tag, of those that are used here.
_VOID = frozenset({"meta"})
# Elements whose content a browser takes as it stands, up to their end tag.
_RAW = frozenset({"style", "script"})


def element(tag: str, *content: Content, **attributes: object) -> Element:
    """Returns an element.

    Args:
        tag: its name.
        *content: texts and elements, in order.
        **attributes: a trailing underscore is dropped (`class_`), others become hyphens (`aria_label`).
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
    """Returns `root` as an HTML document.

    Unlike ElementTree's own writer it also escapes `<` in attributes: a reader may search the page for `<script`.

    Raises:
        ValueError: for a style sheet or a script that an end tag would cut short.
    """
    return f"<!DOCTYPE html>\n{_written(root)}\n"


def _written(node: Element) -> str:
    attributes = "".join(f' {name}="{escape(value)}"' for name, value in node.items())
    text, tail = node.text or "", escape(node.tail or "", quote=False)
    if node.tag in _VOID:
        return f"<{node.tag}{attributes}>{tail}"
    if node.tag in _RAW and "</" in text:
        raise ValueError(f"the content of <{node.tag}> must not hold an end tag. Received: {text!r}")
    inside = text if node.tag in _RAW else escape(text, quote=False)
    return f"<{node.tag}{attributes}>{inside}{''.join(map(_written, node))}</{node.tag}>{tail}"

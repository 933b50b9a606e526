"""Reads pages with an independent parser."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta"}


class Page(HTMLParser):
    """Elements as (tag, attributes, text with inner elements); rejects unbalanced tags and duplicate names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str], list[str], tuple[int, ...]]] = []
        self._open: list[int] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attributes) -> None:
        assert len(attributes) == len(dict(attributes))
        self.elements.append((tag, dict(attributes), [], tuple(self._open)))
        if tag not in VOID:
            self._open.append(len(self.elements) - 1)

    def handle_endtag(self, tag) -> None:
        assert self.elements[self._open.pop()][0] == tag

    def handle_data(self, data) -> None:
        for index in self._open:
            self.elements[index][2].append(data)

    def all(self, tag: str, class_: str = "", within: str = "") -> list[tuple[dict[str, str], str]]:
        """Returns attributes and text of the elements with a tag and a class, inside an element of another class."""
        return [
            (attributes, "".join(text))
            for name, attributes, text, path in self.elements
            if name == tag
            and (not class_ or class_ in attributes.get("class", "").split())
            and (not within or any(within in self.elements[index][1].get("class", "").split() for index in path))
        ]

    def texts(self, tag: str, class_: str = "", within: str = "") -> list[str]:
        return [text for _, text in self.all(tag, class_, within)]

    def refuse_foreign(self) -> None:
        """Checks that nothing is fetched, and that no text became an element or a handler."""
        assert not [name for _, attributes, _, _ in self.elements for name in attributes
                    if name in ("src", "href") or name.startswith("on")]  # fmt: skip
        (style,) = self.texts("style")
        assert "url(" not in style and "@import" not in style

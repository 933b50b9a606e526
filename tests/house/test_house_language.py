"""Docstrings begin with a verb or a noun, in the style of keras.io; ruff checks their form."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
FOLDERS = ("bert_tf", "beam_pipelines", "benchmarks", "tests", "docs")
BEGINS = re.compile(r"(What|How|Which|Where|Whether|Tells whether|Returns (what|how|which|where))\b")


def first_lines(source: str) -> Iterator[tuple[int, str]]:
    """Yields the line number and the first line of each docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text.split("\n")[0]


def test_docstrings_begin_with_the_action_or_the_thing() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{line}: {text}"
        for folder in FOLDERS
        for path in (REPOSITORY / folder).rglob("*.py")
        for line, text in first_lines(path.read_text(encoding="utf-8"))
        if BEGINS.match(text)
    ]
    assert found == []


def test_other_beginnings_are_seen() -> None:
    source = '"""What it is."""\nclass A:\n    """A thing."""\n    def f(self):\n        """Returns how it goes."""\n'
    assert [text for _, text in first_lines(source) if BEGINS.match(text)] == ["What it is.", "Returns how it goes."]

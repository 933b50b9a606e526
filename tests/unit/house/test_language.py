"""Plain English, as on keras.io: docstrings begin with a verb or a noun; ruff checks their form."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.support.paths import REPOSITORY

FOLDERS = ("bert_tf", "beam_pipelines", "benchmarks", "tests", "docs", "notebooks", "saved_models", "deployment")
SUFFIXES = {".config", ".html", ".ipynb", ".j2", ".json", ".md", ".py", ".txt", ".yaml", ".yml"}
BEGINS = re.compile(r"(What|How|Which|Where|Whether|Tells (?:)whether|Returns (what|how|which|where|whether))\b")
# Phrases in docstrings, comments, messages and documents. The groups keep this file from matching itself.
PHRASES = re.compile(r"\b(?:tells (?:)whether|is (?:)none of|there is (?:)none)\b", re.IGNORECASE)


def first_lines(source: str) -> Iterator[tuple[int, str]]:
    """Yields the line number and the first line of each docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text.split("\n")[0]


def texts() -> Iterator[tuple[str, str]]:
    """Yields the names and contents of all files with text for people."""
    paths = [path for folder in FOLDERS for path in sorted((REPOSITORY / folder).rglob("*"))]
    for path in [*REPOSITORY.glob("*.md"), REPOSITORY / "Makefile", REPOSITORY / "pyproject.toml", *paths]:
        name = path.relative_to(REPOSITORY).as_posix()
        if not name.startswith("tests/testdata/") and (path.suffix in SUFFIXES or path.name == "Makefile"):
            yield name, path.read_text(encoding="utf-8")


def test_docstrings_begin_with_a_verb_or_noun() -> None:
    found = [
        f"{name}:{line}: {text}"
        for name, source in texts()
        if name.endswith(".py")
        for line, text in first_lines(source)
        if BEGINS.match(text)
    ]
    assert found == []


def test_no_unclear_phrases() -> None:
    files = dict(texts())
    assert len(files) > 600
    found = [
        f"{name}: {line.strip()}" for name, text in files.items() for line in text.split("\n") if PHRASES.search(line)
    ]
    assert found == []


def test_unclear_beginnings_and_phrases_are_detected() -> None:
    source = '"""What it is."""\nclass A:\n    """A thing."""\n    def f(self):\n        """Returns how it goes."""\n'
    assert [text for _, text in first_lines(source) if BEGINS.match(text)] == ["What it is.", "Returns how it goes."]
    assert PHRASES.search("Tells " + "whether it rains.")
    assert PHRASES.search("If there is " + "none, it ends.")
    assert PHRASES.search("x is " + "none of them") and not PHRASES.search("None if there are none")

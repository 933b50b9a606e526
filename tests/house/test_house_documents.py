"""Rules of the Markdown documents: links, the tables of settings, the length of the README."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
FOLDERS = ("docs", "saved_models", "deployment", "benchmarks", "bert_tf", "beam_pipelines", "tests")
SETTINGS = REPOSITORY / "docs" / "settings.py"


def documents() -> list[Path]:
    """Returns all Markdown files of the repository."""
    return [*REPOSITORY.glob("*.md"), *(path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*.md"))]


def prose(text: str) -> str:
    """Returns a document without its code."""
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """Returns the anchors of a document's headings, as GitHub forms them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(document: Path) -> Iterator[str]:
    """Yields the relative links of a document whose file or heading does not exist."""
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(document.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"{document.name}: {link}"


def test_relative_links_point_to_files_and_headings() -> None:
    assert len(documents()) > 8
    assert [link for document in documents() for link in broken_links(document)] == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("# One (two)\n[a](page.md#one-two) [b](#one-two) [c](no.md) [d](page.md#two) `[e](no.md)`\n")
    assert list(broken_links(document)) == ["page.md: no.md", "page.md: page.md#two"]


def test_readme_fits_on_150_lines() -> None:
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_tables_of_settings_are_up_to_date() -> None:
    result = subprocess.run([sys.executable, SETTINGS, "--check"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_settings_are_written_between_the_markers() -> None:
    script = runpy.run_path(str(SETTINGS))
    text = (REPOSITORY / "docs" / "training.md").read_text(encoding="utf-8")
    changed = text.replace("| `batch_size` |", "| `size` |")
    assert changed != text
    assert script["updated"](changed) == text
    with pytest.raises(ValueError, match="settings: begin"):
        script["updated"]("no markers")


def test_descriptions_come_from_the_args_section() -> None:
    descriptions = runpy.run_path(str(SETTINGS))["descriptions"]
    docstring = (
        "Title.\n\nArgs:\n    a, b: two\n        lines: of text.\n    c (int, optional): one.\n\nRaises:\n    E: d.\n"
    )
    assert descriptions(docstring) == {"a": "two lines: of text.", "b": "two lines: of text.", "c": "one."}

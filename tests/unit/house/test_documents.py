"""Rules of the Markdown documents: links, settings, flags, the length of the README."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import bert_tf
from tests.support.paths import REPOSITORY

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


def test_broken_link_is_detected(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("# One (two)\n[a](page.md#one-two) [b](#one-two) [c](no.md) [d](page.md#two) `[e](no.md)`\n")
    assert list(broken_links(document)) == ["page.md: no.md", "page.md: page.md#two"]


def test_reference_contains_all_public_names() -> None:
    pages = runpy.run_path(str(REPOSITORY / "docs" / "site.py"))["reference_pages"]()
    names = re.findall(r"^::: \S+\.(\w+)$", "\n".join(pages.values()), flags=re.MULTILINE)
    assert set(bert_tf.__all__) <= set(names)
    assert len(names) == len(set(names))


def test_links_of_the_site_are_valid() -> None:
    page_link = runpy.run_path(str(REPOSITORY / "docs" / "site.py"))["page_link"]
    assert page_link("../saved_models/README.md#start", "docs", "keras.md") == "serving.md#start"
    assert page_link("docs/data.md", "", "index.md") == "data.md"
    assert page_link("https://a.b/c.md", "docs", "data.md") == "https://a.b/c.md"
    assert page_link("../bert_tf/cli.py", "docs", "architecture.md") is None


def test_readme_has_at_most_150_lines() -> None:
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_tables_of_settings_and_lists_of_flags_are_up_to_date() -> None:
    result = subprocess.run([sys.executable, SETTINGS, "--check"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_content_is_replaced_between_the_markers() -> None:
    script = runpy.run_path(str(SETTINGS))
    text = "# Page\n\n<!-- flags: begin, written by docs/settings.py -->\nold\n<!-- flags: end -->\nafter\n"
    changed = script["updated"](text, "flags", "new")
    assert changed == text.replace("\nold\n", "\n\nnew\n\n")
    with pytest.raises(ValueError, match="settings: begin"):
        script["updated"](text, "settings", "new")


def test_install_commands_name_existing_extras() -> None:
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    named = {
        extra
        for document in documents()
        for group in re.findall(r"(?:'\.|bert-tf)\[([\w,-]+)\]", document.read_text(encoding="utf-8"))
        for extra in group.split(",")
    }
    assert {"cuda", "jax-cuda", "tpu"} <= named <= extras.keys()


def missing_names(document: Path, section: str) -> list[str]:
    """Returns the links of a numbered list whose file does not define the function or method that they name."""
    text = document.read_text(encoding="utf-8").partition(f"\n## {section}")[2].partition("\n## ")[0]
    items = re.findall(r"^(\d+)\. (.*)$", text, re.MULTILINE)
    links = [re.match(r"\[`([\w.]+)`\]\(([\w./]+)\) \S", item) for _, item in items]
    assert [int(number) for number, _ in items] == list(range(1, len(items) + 1))
    assert f"{len(items)} functions in {len({link[2] for link in links if link})} files" in text
    return [
        item for (_, item), link in zip(items, links, strict=True)
        if not link or link[1] not in defined_in(document.parent / link[2])
    ]  # fmt: skip


def defined_in(path: Path) -> set[str]:
    """Returns the functions of a module, and the methods of its classes as `Class.method`."""
    if not path.is_file():
        return set()
    body = ast.parse(path.read_text(encoding="utf-8")).body
    scopes = [("", body), *((f"{node.name}.", node.body) for node in body if isinstance(node, ast.ClassDef))]
    return {f"{scope}{node.name}" for scope, nodes in scopes for node in nodes if isinstance(node, ast.FunctionDef)}


def test_the_walk_of_a_token_id_names_functions_that_exist(tmp_path: Path) -> None:
    assert missing_names(REPOSITORY / "docs" / "architecture.md", "From a raw file to the MLM logits") == []
    (tmp_path / "code.py").write_text("def one(): ...\nclass A:\n    def two(self): ...\n")
    document = tmp_path / "page.md"
    items = ["[`one`](code.py) a", "[`A.two`](code.py) b", "[`two`](code.py) c", "[`one`](no.py) d"]
    lines = "\n".join(f"{number}. {item}" for number, item in enumerate(items, start=1))
    document.write_text(f"# Page\n\n## Walk\n\n4 functions in 2 files\n\n{lines}\n\n## Next\n")
    assert missing_names(document, "Walk") == items[2:]

"""Sizes of files and functions, and what must stand in the tree."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
FOLDERS = ("bert_tf", "beam_pipelines", "benchmarks", "tests")
SOURCES = sorted(path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*.py"))
LONGEST_FILE, LONGEST_FUNCTION = 400, 50


def long_functions(source: str) -> list[str]:
    return [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_files_and_functions_are_short(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.count("\n") <= LONGEST_FILE
    assert long_functions(source) == []


def test_a_long_function_is_seen() -> None:
    assert long_functions("def f():\n" + "    x = 1\n" * 60) == ["f: 61 lines"]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_no_catch_all_modules(path: Path) -> None:
    assert path.stem not in {"utils", "util", "common", "helpers", "misc"}


@pytest.mark.parametrize(
    "name",
    ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "setup.py", "pyproject.toml",
     "constraints.txt", "docs/architecture.md", "saved_models/README.md", ".github/workflows/ci.yml"],
)  # fmt: skip
def test_the_house_is_furnished(name: str) -> None:
    assert (REPOSITORY / name).stat().st_size > 0


def project() -> dict[str, Any]:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def test_workers_of_dataflow_get_the_packages_of_data() -> None:
    lines = (REPOSITORY / "deployment/dataflow/requirements.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == project()["optional-dependencies"]["data"]


def test_constraints_pin_every_dependency() -> None:
    extras = project()["optional-dependencies"].values()
    wanted = [*project()["dependencies"], *(line for extra in extras for line in extra)]
    pinned = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (REPOSITORY / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    names = {spec.split(">")[0].split("[")[0].strip() for spec in wanted} - {"bert-tf"}
    assert names <= pinned

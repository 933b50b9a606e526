"""Repository rules that ruff does not check: file names and pinned dependencies."""

from __future__ import annotations

import tomllib
from typing import Any

from tests.support.paths import REPOSITORY

FOLDERS = ("bert_tf", "beam_pipelines", "benchmarks", "tests")


def test_no_catch_all_modules() -> None:
    catch_all = {"utils", "util", "common", "helpers", "misc"}
    paths = [path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*.py")]
    assert len(paths) > 600
    assert [path for path in paths if path.stem in catch_all or path.parent.name in catch_all] == []


def project() -> dict[str, Any]:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def test_the_package_has_the_version_of_the_project() -> None:
    import bert_tf

    assert bert_tf.__version__ == project()["version"]
    assert f"\n## {bert_tf.__version__} (" in (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")


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

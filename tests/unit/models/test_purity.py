from __future__ import annotations

import ast

import pytest

from tests.support.paths import REPOSITORY

SOURCES = sorted([*REPOSITORY.glob("bert_tf/layers/*.py"), *REPOSITORY.glob("bert_tf/models/*.py")])


def test_sources_exist():
    assert len(SOURCES) > 8


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_source_names_tensorflow(path):
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Name):
            assert node.id != "tf", f"{path}:{node.lineno}"
    assert not imported & {"tensorflow", "tensorflow_text", "jax", "torch"}

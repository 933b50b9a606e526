"""The import order of docs/architecture.md, read from the sources."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCES = sorted([*REPOSITORY.glob("bert_tf/**/*.py"), *REPOSITORY.glob("beam_pipelines/**/*.py")])

BELOW_MODELS = {"config", "text", "data", "layers"}
ALLOWED = {
    "entry": set(),
    "config": set(),
    "text": {"config"},
    "data": {"entry", "config", "text"},
    "layers": {"config", "text", "data"},
    "models": BELOW_MODELS,
    "training": BELOW_MODELS,
    "beam_pipelines": {"entry", "config", "text", "data"},
    "tasks": BELOW_MODELS | {"models", "training"},
    "export": BELOW_MODELS | {"entry", "models", "training"},
    "conversion": BELOW_MODELS | {"models", "training"},
    "recipes": {"config"},
    "commands": BELOW_MODELS | {"entry", "models", "training", "tasks", "export", "conversion", "recipes"},
    "cli": {"commands", "entry"},
    "root": {"cli"},
}
PURE = {"layers", "models"}
# What layers and models may use of the packages below them: the modules that are free of TensorFlow.
PURE_MODULES = {"bert_tf.text.vocabulary", "bert_tf.data.schema"}


def package_of(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).parts
    if parts[0] == "beam_pipelines":
        return "beam_pipelines"
    if len(parts) > 2:
        return parts[1]
    return "cli" if parts[1] == "cli.py" else "root"


def imported_modules(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def breaches(path: Path) -> list[str]:
    package, found = package_of(path), []
    for name in imported_modules(path):
        top, _, rest = name.partition(".")
        if top == "bert_tf":
            target = rest.partition(".")[0]
            if target not in ALLOWED:
                target = "root"
            if target != package and target not in ALLOWED[package]:
                found.append(name)
            if (
                package in PURE
                and target in {"text", "data"}
                and not any(name.startswith(module) for module in PURE_MODULES)
            ):
                found.append(name)
            if package == "beam_pipelines" and name.startswith("bert_tf.data.input.tf"):
                found.append(name)
        if top in {"apache_beam", "beam_pipelines"} and package != "beam_pipelines":
            found.append(name)
        if top in {"tensorflow", "tensorflow_text", "tf_keras"} and package in PURE | {"config"}:
            found.append(name)
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_imports_go_one_way(path: Path) -> None:
    assert breaches(path) == []


def test_a_breach_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bert_tf" / "training").mkdir(parents=True)
    path = tmp_path / "bert_tf" / "training" / "bad.py"
    path.write_text("from bert_tf.models import BertBackbone\nimport apache_beam\n")
    monkeypatch.setattr("test_house_imports.REPOSITORY", tmp_path)
    assert breaches(path) == ["bert_tf.models.BertBackbone", "apache_beam"]

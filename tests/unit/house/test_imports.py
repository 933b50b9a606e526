"""The import order of docs/architecture.md, read from the sources, imports inside functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.paths import REPOSITORY

BELOW_MODELS = {"entry", "config", "storage", "text", "data", "layers", "optim"}
BELOW_TASKS = BELOW_MODELS | {"encoding", "models", "training"}
# Package -> packages that it may import.
ALLOWED = {
    "entry": set(),
    "config": set(),
    "text": {"config"},
    "storage": {"config"},
    "data": {"entry", "config", "storage", "text"},
    "layers": {"config", "text", "data"},
    "encoding": {"entry", "config", "text", "data"},
    "optim": {"entry", "config", "data", "layers"},
    "models": BELOW_MODELS | {"preprocessors"},
    # A folder of `models`, which imports TensorFlow.
    "preprocessors": BELOW_MODELS | {"encoding", "models"},
    "training": BELOW_MODELS | {"encoding"},
    "reports": BELOW_TASKS,
    "beam_pipelines": {"entry", "config", "text", "data", "reports", "storage"},
    "pretraining": BELOW_TASKS | {"reports"},
    "tasks": BELOW_TASKS | {"reports"},
    "experiments": BELOW_TASKS | {"pretraining", "reports", "tasks"},
    "export": BELOW_MODELS | {"encoding", "models"},
    "client": {"export"},
    "serving": {"entry", "config", "storage", "export", "reports"},
    "conversion": BELOW_MODELS | {"models"},
    "commands": BELOW_TASKS
    | {"client", "conversion", "experiments", "export", "pretraining", "reports", "serving", "tasks"},
    "cli": {"commands", "entry", "root"},
    "root": {"cli", "entry"},
}
# Modules that a package may import from a package that is otherwise forbidden.
MODULES = {
    # Beam's workers start without TensorFlow's input pipelines and without Keras.
    ("beam_pipelines", "reports"): {
        "bert_tf.reports.data.facts",
        "bert_tf.reports.data.page",
        "bert_tf.reports.text",
    },
    # Both run without TensorFlow.
    ("layers", "text"): {"bert_tf.text.vocabulary"},
    ("layers", "data"): {"bert_tf.data.schema"},
    ("optim", "data"): {"bert_tf.data.schema"},
    ("models", "text"): {"bert_tf.text.vocabulary", "bert_tf.text.byte_pair_vocabulary"},
    ("models", "data"): {"bert_tf.data.schema"},
    # A server loads SavedModels without Keras.
    ("serving", "export"): {
        "bert_tf.export.digests",
        "bert_tf.export.graphs",
        "bert_tf.export.json_values",
        "bert_tf.export.metadata",
        "bert_tf.export.runtime",
        "bert_tf.export.versions",
        "bert_tf.export.warmup",
    },
    ("serving", "reports"): {"bert_tf.reports.page"},
    ("client", "export"): {"bert_tf.export.json_values"},
    # The version.
    ("cli", "root"): {"bert_tf"},
}
# Rooms of the server; none imports a later one, and neither protocol imports the other.
SERVING_ROOMS = {"requests": 0, "models": 1, "service": 2, "http": 3, "grpc": 3}
NO_TENSORFLOW = {"config", "storage", "layers", "models"}
NO_KERAS = {"client", "serving"}
# Their input pipelines are TensorFlow graphs.
NOT_FOR_BEAM = ("bert_tf.data.input.tf", "bert_tf.data.masking.tf", "bert_tf.data.verification")


def sources(root: Path) -> dict[str, Path]:
    """Returns the files of the packages by module name."""
    found = {}
    for top in ("bert_tf", "beam_pipelines"):
        for path in sorted((root / top).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imported_by(path: Path, modules: Mapping[str, Path]) -> set[str]:
    """Returns the modules that a file imports, as `package.module`."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            names.update(name if name in modules else node.module for name in full)
    return names


def package_of(module: str) -> str:
    """Returns the package of a module, `cli` and `root` for the modules outside of packages."""
    parts = module.split(".")
    if parts[0] == "beam_pipelines":
        return "beam_pipelines"
    if parts[1:3] == ["models", "preprocessors"]:
        return "preprocessors"
    return parts[1] if len(parts) > 1 and parts[1] in ALLOWED else "root"


def serving_room(module: str) -> str:
    """Returns the room of a module of the server; empty for other modules."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["bert_tf", "serving"] and len(parts) > 2 and parts[2] in SERVING_ROOMS else ""


def breaches(module: str, imports: set[str]) -> Iterator[str]:
    """Yields the forbidden imports of a module."""
    package = package_of(module)
    for name in sorted(imports):
        top = name.partition(".")[0]
        target = package_of(name)
        if top in {"bert_tf", "beam_pipelines"} and target != package:
            only = MODULES.get((package, target), {name})
            if target not in ALLOWED[package] or name not in only:
                yield name
        room, imported = serving_room(module), serving_room(name)
        if room and imported not in ("", room) and SERVING_ROOMS[imported] >= SERVING_ROOMS[room]:
            yield name
        if package == "beam_pipelines" and name.startswith(NOT_FOR_BEAM):
            yield name
        if top == "apache_beam" and package != "beam_pipelines":
            yield name
        if top in {"tensorflow", "tensorflow_text", "tf_keras"} and package in NO_TENSORFLOW:
            yield name
        if top in {"keras", "keras_hub", "tf_keras"} and package in NO_KERAS:
            yield name


def cycles(imports: Mapping[str, set[str]]) -> list[set[str]]:
    """Returns the groups of modules that import one another, directly or through others."""
    reached: dict[str, set[str]] = {}
    for start in imports:
        found, waiting = set(), [start]
        while waiting:
            for name in imports.get(waiting.pop(), set()):
                if name in imports and name not in found:
                    found.add(name)
                    waiting.append(name)
        reached[start] = found
    groups = {frozenset(m for m in reached if m in reached[n] and n in reached[m]) for n in reached}
    # A program may import itself, so that workers can import the module of pickled objects.
    return [set(group) for group in groups if len(group) > 1]


def all_imports(root: Path) -> dict[str, set[str]]:
    """Returns the imports of each module."""
    modules = sources(root)
    return {name: imported_by(path, modules) for name, path in modules.items()}


def test_imports_follow_the_order() -> None:
    found = {name: list(breaches(name, imports)) for name, imports in all_imports(REPOSITORY).items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_there_are_no_import_cycles() -> None:
    imports = all_imports(REPOSITORY)
    assert len(imports) > 300
    assert cycles(imports) == []


def test_violations_and_cycles_are_detected(tmp_path: Path) -> None:
    for name, text in {
        "bert_tf/training/bad.py": "from bert_tf.models import BertBackbone\nimport apache_beam\n",
        "bert_tf/models/__init__.py": "import tensorflow\nfrom bert_tf.text.tokenizer import BertTokenizer\n",
        "bert_tf/text/tokenizer.py": "def late():\n    from bert_tf.text import casing\n",
        "bert_tf/text/casing.py": "import bert_tf.text.tokenizer\n",
        "bert_tf/reports/page.py": "from bert_tf.tasks.squad.task import Squad\n",
        "bert_tf/serving/http/app.py": "import keras\nfrom bert_tf.models import BertBackbone\n",
        "bert_tf/serving/models/late.py": "def load():\n    from bert_tf.export.saved_model import export_preset\n",
        "bert_tf/serving/grpc/reader.py": "from bert_tf.serving.http import app\n",
        "bert_tf/serving/service.py": "from bert_tf.serving.grpc.reader import RequestReader\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    imports = all_imports(tmp_path)
    assert list(breaches("bert_tf.training.bad", imports["bert_tf.training.bad"])) == ["apache_beam", "bert_tf.models"]
    assert list(breaches("bert_tf.models", imports["bert_tf.models"])) == ["bert_tf.text.tokenizer", "tensorflow"]
    assert list(breaches("bert_tf.reports.page", imports["bert_tf.reports.page"])) == ["bert_tf.tasks.squad.task"]
    assert list(breaches("bert_tf.serving.http.app", imports["bert_tf.serving.http.app"])) == [
        "bert_tf.models",
        "keras",
    ]
    late = "bert_tf.serving.models.late"
    assert list(breaches(late, imports[late])) == ["bert_tf.export.saved_model"]
    assert list(breaches("bert_tf.serving.grpc.reader", imports["bert_tf.serving.grpc.reader"])) == [
        "bert_tf.serving.http.app"
    ]
    assert list(breaches("bert_tf.serving.service", imports["bert_tf.serving.service"])) == [
        "bert_tf.serving.grpc.reader"
    ]
    assert cycles(imports) == [{"bert_tf.text.tokenizer", "bert_tf.text.casing"}]


# Modules that import others by name: the registries, whose entries start quickly, and what may not be installed.
BY_NAME = {
    "bert_tf",
    "bert_tf.cli",
    "bert_tf.commands.experiments.in_process",
    "bert_tf.commands.pipelines",
    "bert_tf.conversion.formats.registry",
    "bert_tf.conversion.verify.programs.google_tf1",
    "bert_tf.entry.keras_classes",
    "bert_tf.experiments.registry",
    "bert_tf.export.descriptors",
    # Checkpoints of runs and of other programs, whose readers import models.
    "bert_tf.models.preset_sources",
    "bert_tf.tasks.entry",
    "bert_tf.tasks.registry",
}


def test_imports_by_name_are_in_registries() -> None:
    found = {
        name
        for name, path in sources(REPOSITORY).items()
        if "import_module(" in path.read_text(encoding="utf-8") and name.startswith("bert_tf")
    }
    assert found == BY_NAME

"""Runs the Example section of every public class and function, and the Python code of the README.

Examples use `bert_tf`, `keras`, `np` and `tf` without importing them, and import whatever else they use: each runs in a
new process (see `tests.support.examples`). They run in a directory with these files, named as in the README:

    corpus.txt, vocab.txt           60 documents and a vocabulary of 100 pieces
    data/                           pre-training data of `bert-tf data`
    my_task/train.tsv, dev.tsv      labelled texts
    runs/laptop/, runs/bert/         presets with random weights: pre-trained models
    runs/my_task/                    a text classifier
    saved_models/my_task/1/         export of runs/my_task, served at port 8501
"""

from __future__ import annotations

import ast
import dataclasses
import multiprocessing
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.examples import imported_modules, new_processes, run_code, run_example
from tests.support.paths import REPOSITORY

# Packages whose public names, and modules whose public classes, have an example.
PACKAGES = ("bert_tf.client", "bert_tf.config", "bert_tf.layers", "bert_tf.models", "bert_tf.storage")
CLASSES = ("bert_tf.text.tokenizer", "bert_tf.text.vocabulary")
FUNCTIONS = (
    "beam_pipelines.build_vocabulary.run",
    "beam_pipelines.create_pretraining_data.run",
    "bert_tf.experiments.fingerprints.fingerprint",
    "bert_tf.experiments.runs.Run",
    "bert_tf.experiments.runs.Runs",
    "bert_tf.experiments.runs.duration",
    "bert_tf.experiments.statistics.mcnemar",
    "bert_tf.experiments.statistics.paired_bootstrap",
    "bert_tf.experiments.statistics.spread",
    "bert_tf.storage.local.LocalStore",
)
# Examples that train, export, serve, or read pre-training data.
LONG = {
    "beam_pipelines.build_vocabulary.run", "beam_pipelines.create_pretraining_data.run", "bert_tf.BertMaskedLM",
    "bert_tf.BertTextClassifier", "bert_tf.Manifest",
    "bert_tf.TrainResult", "bert_tf.client.ModelClient", "bert_tf.client.PredictError",
    "bert_tf.client.connect", "bert_tf.client.predict", "bert_tf.convert", "bert_tf.evaluate_pretraining",
    "bert_tf.export_preset", "bert_tf.finetune_task", "bert_tf.fit", "bert_tf.TrainingData",
    "bert_tf.pretraining_dataset", "bert_tf.read_manifest", "bert_tf.serve", "bert_tf.storage.data_path",
}  # fmt: skip
CLASS_NAMES = ("negative", "positive")
WORDS = """
the a this that film story book actor music scene good bad great dull long short old new is was very not and of in to
with for we saw liked ending plot first last one two day night by
""".split()  # noqa: SIM905


def source_of(module: str) -> ast.Module:
    """Returns the syntax tree of a module, without importing it."""
    path = REPOSITORY / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def docstring_of(module: str, name: str) -> str | None:
    """Returns the docstring of a class or function that a module defines or imports."""
    for node in source_of(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return ast.get_docstring(node)
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return docstring_of(str(node.module), name)
    raise AttributeError(f"{module} has no {name}")


def public_names() -> dict[str, tuple[str, str]]:
    """Returns module and name of each public class and function, once each; constants have no docstring."""
    import bert_tf

    names = {f"bert_tf.{name}": (home, name) for name, home in bert_tf._HOMES.items()}
    for package in PACKAGES:
        (listed,) = (
            ast.literal_eval(node.value)
            for node in source_of(package).body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        )
        names |= {
            f"{package}.{name}": (package, name)
            for name in listed
            if f"bert_tf.{name}" not in names and not name.isupper()
        }
    for module in CLASSES:
        classes = [node.name for node in source_of(module).body if isinstance(node, ast.ClassDef)]
        names |= {
            f"{module}.{name}": (module, name)
            for name in classes
            if not name.startswith("_") and f"bert_tf.{name}" not in names
        }
    return names | {name: (name.rpartition(".")[0], name.rpartition(".")[2]) for name in FUNCTIONS}


PUBLIC = public_names()


def examples_of(name: str) -> str:
    """Returns the Example section of a public name; empty if it has none."""
    section = re.search(r"^Example:\n((?:    .*\n|\n)+)", (docstring_of(*PUBLIC[name]) or "") + "\n", re.MULTILINE)
    return section[1] if section else ""


def free_port() -> int:
    """Returns a TCP port that no program uses."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def in_new_process() -> Iterator[Callable[..., Any]]:
    with new_processes() as call:
        yield call


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the examples without `data` and `saved_models`."""
    import bert_tf

    folder = tmp_path_factory.mktemp("examples")
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = (
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        ".",
        ",",
        "!",
        "?",
        *letters[1:],
        *(f"##{c}" for c in letters),
    )
    vocabulary = bert_tf.Vocabulary((*pieces, *WORDS))
    bert_tf.save_vocabulary(vocabulary, folder / "vocab.txt")
    sentences = [
        f"The {WORDS[4 + i % 6]} was {WORDS[10 + i % 8]} and we liked the {WORDS[4 + i // 6]}." for i in range(36)
    ]
    documents = ["\n".join(sentences[(start + 5 * step) % 36] for step in range(6)) for start in range(36)]
    documents += ["\n".join(sentences[(start + 7 * step) % 36] for step in range(5)) for start in range(24)]
    (folder / "corpus.txt").write_text("\n\n".join(documents) + "\n")
    rows = "label\ttext\n" + "positive\ta good film\nnegative\ta dull film\n" * 2
    (folder / "my_task").mkdir()
    for name in ("train.tsv", "dev.tsv"):
        (folder / "my_task" / name).write_text(rows)
    config = bert_tf.BertConfig.from_size("tiny", vocabulary_size=len(vocabulary))
    # As the recipe `laptop`, and the body of the published BERT, which other projects read.
    for name, positions in (("laptop", "rotary"), ("bert", "learned")):
        model = bert_tf.BertPretrainer(bert_tf.BertBackbone(dataclasses.replace(config, positions=positions)))
        bert_tf.save_preset(model, folder / "runs" / name, vocabulary, True)
    classifier = bert_tf.BertTextClassifier(bert_tf.BertBackbone(config), num_classes=len(CLASS_NAMES))
    task = {"task": "classify", "labels": list(CLASS_NAMES)}
    bert_tf.save_preset(classifier, folder / "runs/my_task", vocabulary, True, task=task)
    return folder


@pytest.fixture(scope="module")
def all_files(files: Path) -> Path:
    """The directory of the examples, with pre-training data and an exported model."""
    import bert_tf
    from beam_pipelines import create_pretraining_data

    create_pretraining_data.run(
        [
            f"--input={files}/corpus.txt",
            "--format=text",
            f"--vocabulary={files}/vocab.txt",
            f"--output={files}/data",
            "--max_seq_length=32",
            "--validation_fraction=0.2",
        ]
    )
    bert_tf.export_preset(files / "runs/my_task", files / "saved_models/my_task")
    return files


@pytest.fixture(scope="module")
def server_port(all_files: Path) -> Iterator[int]:
    """The REST port of a server of the exported model."""
    import bert_tf
    from bert_tf.client import connect
    from bert_tf.serving.server import ServerOptions

    port = free_port()
    arguments: Any = (all_files / "saved_models/my_task", ServerOptions(port=port, grpc_port=None))
    server = multiprocessing.get_context("spawn").Process(target=bert_tf.serve, args=arguments)
    server.start()
    try:
        connect(f"http://127.0.0.1:{port}/v1/models/my_task", retries=9).predict(["a good film"])
        yield port
    finally:
        server.terminate()
        server.join()


def test_every_public_name_has_an_example() -> None:
    assert len(PUBLIC) > 60
    assert set(PUBLIC) >= LONG
    assert [name for name in PUBLIC if ">>> " not in examples_of(name)] == []


def test_missing_example_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PUBLIC, "bert_tf.config.parse_json", ("bert_tf.config.base", "parse_json"))
    assert examples_of("bert_tf.config.parse_json") == ""


def test_wrong_output_and_missing_imports_are_detected(in_new_process: Callable[..., Any], tmp_path: Path) -> None:
    assert in_new_process(run_example, tmp_path, ">>> 8501\n8501\n") == ""
    assert "Expected:\n    3" in in_new_process(run_example, tmp_path, ">>> 1 + 1\n3\n")
    assert "NameError" in in_new_process(run_example, tmp_path, ">>> set_computation\n3\n")
    missing = ">>> bert_tf.layers.computation.set_computation(keras.Sequential())\n"
    assert "has no attribute 'computation'" in in_new_process(run_example, tmp_path, missing)


def test_processes_of_examples_are_new(in_new_process: Callable[..., Any], tmp_path: Path) -> None:
    for _ in range(2):
        assert in_new_process(run_example, tmp_path, ">>> bert_tf.text.tokenizer = 1") == ""
        found = in_new_process(imported_modules, tmp_path)
        assert found == ["bert_tf", "bert_tf.entry", "bert_tf.entry.keras_classes"]


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - LONG))
def test_example(name: str, files: Path, tmp_path: Path, in_new_process: Callable[..., Any]) -> None:
    differences = in_new_process(run_example, shutil.copytree(files, tmp_path / "files"), examples_of(name))
    assert not differences, differences


@pytest.mark.parametrize("name", sorted(LONG))
def test_long_example(
    name: str, all_files: Path, tmp_path: Path, in_new_process: Callable[..., Any], request: pytest.FixtureRequest
) -> None:
    port = request.getfixturevalue("server_port") if name.startswith("bert_tf.client.") else free_port()
    text = examples_of(name).replace("8501", str(port))
    differences = in_new_process(run_example, shutil.copytree(all_files, tmp_path / "files"), text)
    assert not differences, differences


def test_code_of_the_readme_runs(files: Path, tmp_path: Path, in_new_process: Callable[..., Any]) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", (REPOSITORY / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(code.splitlines()) <= 12
    code += """
assert loaded.predict(["a good film"], verbose=0).shape == (1, 2)
assert outputs["pooled_output"].shape == (1, 128)
"""
    in_new_process(run_code, shutil.copytree(files, tmp_path / "files"), code)


def test_code_of_the_keras_guide_runs(files: Path, tmp_path: Path, in_new_process: Callable[..., Any]) -> None:
    text = (REPOSITORY / "docs/keras.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 8
    code = "\n".join([*blocks, 'assert len(again.predict_labels(["a good film"])) == 1'])
    in_new_process(run_code, shutil.copytree(files, tmp_path / "files"), code)

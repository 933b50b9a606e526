"""Programs import TensorFlow without its startup messages."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bert_tf.entry import quiet

EXPORT = Path(__file__).parents[2] / "bert_tf" / "export"


def test_a_program_prints_nothing_but_its_own_lines() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    command = [sys.executable, "-m", "bert_tf.export.verify", "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: SavedModel file does not exist at: nowhere")
    assert done.returncode == 1


@pytest.mark.parametrize("name", ["conformance/__main__", "descriptors", "verify/__main__"])
def test_programs_begin_with_tensorflow_in_quiet(name: str) -> None:
    body = ast.parse((EXPORT / f"{name}.py").read_text(encoding="utf-8")).body
    imports = [node for node in body[1:] if getattr(node, "module", "") != "__future__"]
    if isinstance(imports[0], ast.If):
        assert "__main__" in ast.unparse(imports[0].test)
        imports = imports[0].body
    assert [ast.unparse(node) for node in imports[:2]] == [
        "from bert_tf.entry.quiet import import_tensorflow",
        "import_tensorflow()",
    ]


@pytest.mark.parametrize(
    ("cuda", "found", "hidden", "warned"),
    [(True, [], None, True), (True, ["GPU:0"], None, False), (True, [], "-1", False), (False, [], None, False)],
    ids=["unused", "used", "hidden", "without CUDA"],
)
def test_a_gpu_that_tensorflow_does_not_find_is_named(
    cuda: bool,
    found: list[str],
    hidden: str | None,
    warned: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    tensorflow = SimpleNamespace(
        test=SimpleNamespace(is_built_with_cuda=lambda: cuda),
        config=SimpleNamespace(list_physical_devices=lambda _: found),
    )
    quiet.warn_of_unused_gpu(tensorflow)
    assert ("TensorFlow finds none" in capsys.readouterr().err) == warned

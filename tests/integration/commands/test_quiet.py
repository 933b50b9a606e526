"""A command imports TensorFlow with its dependencies, and without its start-up messages."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

ASKED = """
import importlib, os, sys
from bert_tf import cli
command = importlib.import_module(cli.COMMANDS[sys.argv[1]].module)
def run(args):
    import tensorflow
    # This call searches for devices.
    tensorflow.constant(1) + 1
    found = sorted({"keras", "tensorflow"} & sys.modules.keys())
    return {"found": found, "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS")}
command.check, command.run = lambda args: None, run
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("arguments", "found", "onednn"),
    [
        (("serve", "--model", "folder"), ["tensorflow"], "1"),
        (("inspect", "folder"), ["keras", "tensorflow"], None),
    ],
    ids=["serve", "inspect"],
)
def test_only_commands_that_need_keras_import_it_and_only_serve_prefers_onednn(
    arguments: tuple[str, ...], found: list[str], onednn: str | None
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    command = [sys.executable, "-c", ASKED, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["found"], summary["onednn"]) == (found, onednn)
    assert done.stderr == ""


def test_public_names_import_keras_without_messages() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    code = "import gc, bert_tf; bert_tf.BertBackbone; print(gc.get_freeze_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")

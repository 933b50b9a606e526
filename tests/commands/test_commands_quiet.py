"""A command imports TensorFlow with what it needs, and without its notices."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

ASKED = """
import importlib, sys
from bert_tf import cli
command = importlib.import_module(cli.COMMANDS[sys.argv[1]].module)
command.run = lambda args: {"found": sorted({"keras", "tensorflow"} & sys.modules.keys())}
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("serve", "--model", "folder"), ["tensorflow"]),
        (("inspect", "folder"), ["keras", "tensorflow"]),
    ],
    ids=["serve", "inspect"],
)
def test_only_commands_that_need_keras_import_it(arguments: tuple[str, ...], found: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", ASKED, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["found"] == found
    assert done.stderr == ""

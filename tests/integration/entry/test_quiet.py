"""Programs import TensorFlow without its startup messages."""

from __future__ import annotations

import os
import subprocess
import sys


def test_program_prints_only_its_own_lines() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    command = [sys.executable, "-m", "bert_tf.export.verify", "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: SavedModel file does not exist at: nowhere")
    assert done.returncode == 1

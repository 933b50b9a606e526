"""Tests the benchmark of serving: lengths of texts, and the names of sides that are missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import serving
from tests.support.paths import REPOSITORY

ROOT = REPOSITORY


@pytest.mark.slow
def test_latency_of_an_exported_encoder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.serving", "--size=tiny", "--length=16", "--rounds=1", "--seconds=0.1"]
    command += ["--settle=0", "--threads=2", "--precisions=float32", f"--output={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("skipped: ") == len(serving.PEERS)
    (path,) = tmp_path.iterdir()
    one, eight = json.loads(path.read_text("utf-8"))["results"]
    assert one["outputs"] == {"pooled_output": [1, 128], "mean_output": [1, 128]}
    assert eight["outputs"] == {name: [8, 128] for name in one["outputs"]}
    assert one["times_milliseconds"] == 1 and np.isfinite(eight["milliseconds"])

"""Runs a row of the benchmark of accelerators on JAX, without TensorFlow and other packages of the commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.paths import REPOSITORY

pytest.importorskip("jax")

PROGRAM = """
import sys
blocked = ("tensorflow", "tensorflow_text", "tensorboard", "google_crc32c", "fsspec", "jinja2", "tokenizers")
sys.modules.update(dict.fromkeys(blocked))
import json
from benchmarks import step_row
small = {"size": "tiny", "length": 16, "batch": 4, "padding": "pack", "repetitions": 2, "steps": 1}
rows = [step_row.Row(**small), step_row.Row(**small, attention="fused", rematerialize=True, pad_vocabulary="true")]
rows.append(step_row.Row(**small, normalization="compute"))
step_row._ELEMENTS = 1 << 20
found = [step_row.measure_row(rows[0]), *map(step_row.compile_row, rows)]
assert not [name for name in blocked if sys.modules[name]]
print(json.dumps(found))
"""


def test_rows_run_on_jax_with_nothing_but_keras_and_numpy() -> None:
    environment = {"KERAS_BACKEND": "jax", "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=REPOSITORY, env=os.environ | environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    measured, plain, lean, low = json.loads(done.stdout.splitlines()[-1])
    # Word pieces and labels are guessed at random.
    assert 10.5 < measured["loss"] < 11.5
    assert measured["seconds"] > 0 and measured["mfu"] > 0 and measured["peak_bytes"] > 1e8
    # Weights and both moments; XLA counts the operations of the same program.
    assert plain["state_bytes"] == pytest.approx(3 * 4 * measured["parameters"], rel=0.01)
    assert plain["xla_flops"] == measured["xla_flops"] and plain["xla_flops"] > 0.9 * measured["flops"]
    assert lean["kept_bytes"] < plain["kept_bytes"]
    # Two layers of normalization in each of two layers, and the head's, keep 2 instead of 4 bytes of 128 units.
    assert plain["kept_bytes"] - low["kept_bytes"] > 4 * 16 * measured["rows"] * 128 * 2

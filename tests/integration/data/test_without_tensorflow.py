"""The command line on JAX produces the same run with and without TensorFlow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bert_tf.config import DataConfig
from tests.support.data.samples import make_vocabulary, write_directory

pytest.importorskip("jax")
MODEL = {"hidden_dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32, "max_sequence_length": 32}
PROGRAM = """
import sys
if sys.argv[1] == "without":
    # Blocked, because keras-hub imports TensorFlow if it is installed.
    sys.modules["tensorflow"] = sys.modules["tensorflow_text"] = None
from bert_tf.cli import main
data, model, output = sys.argv[2:]
settings = ["training.batch_size=8", "training.evaluate_every=4", "training.average=0.5", "training.checkpoint_every=5"]
pretrain = ["pretrain", "--data", data, "--model", model, "--output", output, "--steps", "8", "--set", *settings]
assert main(pretrain) == 0
assert main(["evaluate", "--preset", output, "--data", data, "--batch_size", "8"]) == 0
if sys.argv[1] == "with":
    assert main(["predict", "--preset", output, "--input", model, "--output", f"{output}.jsonl"]) == 1
has_tensorflow = any(name.startswith("tensorflow.") for name in sys.modules)
assert has_tensorflow == (sys.argv[1] == "with")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    (folder / "data").mkdir()
    (folder / "model.json").write_text(json.dumps(MODEL))
    config = DataConfig(max_seq_length=32, max_predictions_per_seq=5, mask_unit="whole_word")
    write_directory(folder / "data", config, make_vocabulary(), {"train": [23, 17], "validation": [11]})
    return folder


def run(folder: Path, name: str) -> list[dict]:
    """Returns the summaries of `pretrain` and `evaluate`, and the run's history."""
    arguments = [name, folder / "data", folder / "model.json", folder / name]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        env=os.environ | {"KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert ("need the Keras backend tensorflow. Received: jax" in done.stderr) == (name == "with")
    history = (folder / name / "history.jsonl").read_text()
    timed = {"output", "preset", "seconds", "tokens_per_second", "seconds_per_step", "input_wait", "mfu"}
    lines = [json.loads(line) for line in (done.stdout + history).splitlines() if line.startswith("{")]
    return [{key: value for key, value in line.items() if key not in timed} for line in lines]


@pytest.mark.slow
def test_run_without_tensorflow_equals_the_run_with_it(folder):
    without = run(folder, "without")
    assert [line.get("step") for line in without] == [8, None, 4, 4, 5, 8, 8]
    assert without[1]["loss"] == pytest.approx(without[0]["loss"], rel=1e-5)
    assert sorted(path.name for path in (folder / "without").iterdir()) == [
        "checkpoints", "history.jsonl", "preset", "report.html", "status.json", "tensorboard",
    ]  # fmt: skip
    assert run(folder, "with") == without

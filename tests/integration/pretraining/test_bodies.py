"""The path of an encoder of another body: pre-training, resumption, fine-tuning, export."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_tf.cli import main
from bert_tf.config import ConfigError
from bert_tf.models import load_preset
from bert_tf.tasks.predictor import TaskPredictor
from tests.support.training.data_directory import write_small_data

SETTINGS = (
    "training.batch_size=8",
    "training.checkpoint_every=4",
    "training.optimizer=muon",
    "training.learning_rate=1e-2",
    "training.padding=pack",
    "model.body=modern",
    "model.local_attention=8",
)
TEXTS = ["w1 w2 w3", "w7 w8 w9"]
# Plain TensorFlow with the operations of the tokenizer.
ASK = """
import json, sys
import tensorflow as tf, tensorflow_text
function = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
found = function(text=tf.constant(json.loads(sys.argv[2])))
print(json.dumps({name: value.numpy().tolist() for name, value in found.items() if value.dtype == tf.float32}))
"""


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> dict[str, Any]:
    assert main([str(argument) for argument in argv]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three layers, of which the second one sees a window."""
    folder = tmp_path_factory.mktemp("bodies")
    write_small_data(folder)
    model = json.loads((folder / "model.json").read_text()) | {"num_layers": 3, "global_attention_every": 2}
    (folder / "model.json").write_text(json.dumps(model))
    assert main(command(folder, "run")) == 0
    return folder


def command(home: Path, output: str, *settings: str) -> list[str]:
    paths = ["--data", home / "data", "--model", home / "model.json", "--output", home / output, "--steps", 8]
    return [str(argument) for argument in ("pretrain", *paths, "--set", *SETTINGS, *settings)]


def test_the_preset_has_the_resolved_body(home: Path) -> None:
    config = load_preset(home / "run").config
    assert (config.body, config.positions, config.biases, config.final_norm) == ("modern", "rotary", False, True)
    stored = json.loads((home / "run/preset/config.json").read_text())["model"]["config"]["backbone"]["config"][
        "config"
    ]
    assert stored["normalization_order"] == "pre"
    assert None not in [stored[name] for name in ("positions", "rotary_theta", "activation")]


def test_a_stopped_run_has_the_same_weights(home: Path) -> None:
    shutil.copytree(home / "run", home / "stopped")
    shutil.rmtree(home / "stopped/checkpoints/step-00000008")
    assert main(command(home, "stopped")) == 0
    states = [
        json.loads((home / name / "checkpoints/step-00000008/state.json").read_text()) for name in ("run", "stopped")
    ]
    assert states[0]["files"] == states[1]["files"]


@pytest.mark.parametrize("setting", ["model.body=bert", "model.positions=learned", "model.biases=true"])
def test_weights_of_another_body_are_refused(home: Path, setting: str) -> None:
    name = setting.removeprefix("model.").partition("=")[0]
    arguments = ["pretrain", "--data", home / "data", "--init", home / "run", "--output", home / "other", "--steps", 1]
    with pytest.raises(ConfigError, match=f"`model.({name}|activation)` must be that of the preset"):
        _run_raising([*map(str, arguments), "--set", setting])


def _run_raising(argv: list[str]) -> None:
    """Runs `pretrain`; its errors are raised."""
    from bert_tf.cli import build_parser
    from bert_tf.commands import pretrain

    args = build_parser().parse_args(argv)
    pretrain.run(args)


def test_longer_texts_need_no_new_weights(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = run(
        capsys, "pretrain", "--data", home / "data", "--init", home / "run", "--output", home / "longer", "--steps", 1,
        "--set", "training.batch_size=8", "model.max_sequence_length=512", "model.rotary_theta=1e6",
    )  # fmt: skip
    assert summary["step"] == 1
    config = load_preset(home / "longer").config
    assert (config.max_sequence_length, config.rotary_theta) == (512, 1e6)


def test_a_fine_tuned_classifier_is_exported(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{label}\tw{first} w{first + 1} w{first + 2}" for first in (1, 4) for label in ("a", "b")] * 6
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text("\n".join(["label\ttext", *rows]) + "\n")
    run(capsys, "finetune", "classify", "--preset", home / "run", "--data", tmp_path, "--output", home / "tuned",
        "--set", "training.epochs=1")  # fmt: skip
    model = load_preset(home / "tuned").model
    assert not model.backbone.config.pooler
    assert model.get_layer("head_layer_norm").beta is None
    exported = run(capsys, "export", "--preset", home / "tuned", "--output", tmp_path / "saved")["output"]
    done = subprocess.run(
        [sys.executable, "-c", ASK, exported, json.dumps(TEXTS)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])["probabilities"]
    expected = TaskPredictor(home / "tuned").predict(TEXTS)
    np.testing.assert_allclose(found, [list(row["probabilities"].values()) for row in expected], atol=1e-5)

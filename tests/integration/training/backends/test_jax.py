"""Training on JAX: the same steps as on TensorFlow, and bit-identical resumption."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.paths import REPOSITORY
from tests.support.training.backend_runs import causal, trained_case
from tests.support.training.tiny_run import CONFIG, build_model
from tests.support.training.workers import PROGRAM

pytest.importorskip("jax")


def on_jax(*arguments, **environment) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=REPOSITORY,
        env=os.environ | {"KERAS_BACKEND": "jax"} | environment,
        capture_output=True,
        text=True,
        timeout=600,
    )


def last_line(done: subprocess.CompletedProcess):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def runs_on_jax(folder: Path, name: str):
    found = last_line(on_jax("-m", "tests.support.training.backend_runs", folder, name))
    assert found.pop("backend") == "jax"
    return found


def with_weights(folder: Path, case: str = "") -> Path:
    """Directory with initial weights."""
    folder.mkdir()
    random = np.random.default_rng(3)
    model = build_model(body="modern" if case == "modern" else "")
    weights = [random.normal(0, 0.1, variable.shape) for variable in model.trainable_variables]
    np.savez(folder / "weights.npz", *weights)
    return folder


@pytest.mark.parametrize(
    ("case", "tolerance"),
    [
        ("adamw", 1e-5),
        ("muon", 1e-5),
        ("modern", 1e-5),
        pytest.param("lamb", 1e-5, marks=pytest.mark.slow),
        pytest.param("parts_and_average", 1e-5, marks=pytest.mark.slow),
        pytest.param("half", 1e-2, marks=pytest.mark.slow),
        pytest.param("bfloat16", 1e-2, marks=pytest.mark.slow),
    ],
)
def test_twenty_steps_equal_those_of_tensorflow(tmp_path, case, tolerance):
    mine = runs_on_jax(with_weights(tmp_path / "jax", case), case)
    theirs = trained_case(with_weights(tmp_path / "tensorflow", case), case)
    assert len(mine["curves"]["loss"]) == 20
    for name, curve in theirs["curves"].items():
        if name != "mlm_accuracy" or tolerance == 1e-5:
            assert mine["curves"][name] == pytest.approx(curve, rel=max(tolerance, 1e-3)), name
    assert mine["curves"]["loss"] == pytest.approx(theirs["curves"]["loss"], rel=tolerance)
    assert mine["evaluation"]["loss"] == pytest.approx(theirs["evaluation"]["loss"], rel=tolerance)
    assert mine["again"] == pytest.approx(mine["evaluation"], rel=max(tolerance, 1e-5))
    assert mine["files"] == theirs["files"]


def test_left_to_right_language_model_takes_the_steps_of_tensorflow(tmp_path):
    for name in ("jax", "tensorflow"):
        (tmp_path / name).mkdir()
    mine, theirs = runs_on_jax(tmp_path / "jax", "causal"), causal(tmp_path / "tensorflow")
    assert mine["curve"] == pytest.approx(theirs["curve"], rel=1e-4)
    assert mine["evaluation"] == pytest.approx(theirs["evaluation"], rel=1e-3)
    assert theirs["curve"][0] - theirs["curve"][-1] > 0.01


def test_kernels_and_rematerialization_compute_as_the_plain_layers():
    """Differences of float32 rounding, relative to the largest output and gradient, over two layers."""
    quick = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
    found = last_line(on_jax("-m", "tests.support.layers.computation", **quick))
    assert found.pop("computed_again") == [0, 2]
    assert all(difference < 1e-5 for difference in found.values()), found


@pytest.mark.slow
def test_stopped_run_resumes_bit_for_bit(tmp_path):
    figures = runs_on_jax(tmp_path, "resumed")
    assert figures["status"] == 143
    # tf.data builds one or two batches in advance, so the signal arrives in steps 6 to 9, between two checkpoints.
    first, last = (int(name.removeprefix("step-")) for name in figures["saved"])
    assert first == 5 < last < 10
    assert figures["resumed"] == figures["whole"]


@pytest.mark.slow
def test_growing_batches_and_changing_masks_resume_bit_for_bit(tmp_path):
    figures = runs_on_jax(tmp_path, "growing")
    assert figures["stopped"] == figures["whole"]
    assert len(figures["whole"][1]) == 13


@pytest.mark.slow
def test_nonfinite_loss_is_detected_in_its_step(tmp_path):
    figures = runs_on_jax(with_weights(tmp_path / "jax"), "with_nan")
    assert figures["detours"] == [{"skipped": [7], "halved": []}, {"skipped": [], "halved": [5]}]
    warmup = max(1, CONFIG.steps // 10)
    full = [min((i + 1) / (warmup + 1), (12 - i) / (12 - warmup), 1.0) * CONFIG.learning_rate for i in range(12)]
    assert figures["rates"] == pytest.approx(full[:5] + [rate / 2 for rate in full[5:]])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ('strategy="tpu"', "tpu needs the Keras backend tensorflow. Received: jax"),
        ("num_replicas=2", "needs `training.strategy` = mirrored. Received: 2"),
    ],
)
def test_features_unsupported_on_jax_are_refused(tmp_path, setting, message):
    done = on_jax(*PROGRAM, tmp_path / "run", setting)
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("parts", "optimizer"), [(1, "adamw"), (2, "muon")])
def test_two_devices_take_the_same_steps_as_one(tmp_path, parts, optimizer):
    settings = ("dropout=0", f"accumulate={parts}", f'optimizer="{optimizer}"')
    one = last_line(on_jax(*PROGRAM, tmp_path / "one", *settings))
    devices = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    mirrored = (*settings, 'strategy="mirrored"')
    two = last_line(on_jax(*PROGRAM, tmp_path / "two", *mirrored, **devices))
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
    assert two["evaluation"] == pytest.approx(one["evaluation"], rel=1e-5)
    again = last_line(on_jax(*PROGRAM, tmp_path / "two", *mirrored, **devices))
    assert again["weights_sha256"] == two["weights_sha256"]
    more = on_jax(*PROGRAM, tmp_path / "three", *mirrored, "num_replicas=4", **devices)
    assert "must not exceed the number of devices that JAX sees. Received: 4 and 2" in more.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["test_fit", "loop/test_nan_recovery", "test_averages"])
def test_tensorflow_tests_pass_on_jax(name):
    done = on_jax("-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/integration/training/{name}.py")
    assert done.returncode == 0, done.stdout

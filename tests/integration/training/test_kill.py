"""Runs that are killed repeatedly at random moments end with the results of an uninterrupted run."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import SUPPORT
from tests.support.training.data_directory import write_small_data

SCRIPT = SUPPORT / "training/at_moment.py"
TIMED = {"tokens_per_second", "seconds_per_step", "input_wait", "mfu"}
STEPS, CHECKPOINTS, EVALUATIONS = 60, 4, 15
SETTINGS = (
    "training.batch_size=8",
    f"training.checkpoint_every={CHECKPOINTS}",
    f"training.evaluate_every={EVALUATIONS}",
    "training.log_every=5",
    "training.learning_rate=1e-3",
)
VARIANTS = {
    "float32": (),
    "float16": (
        "training.precision=float16",
        "training.accumulate=2",
        "training.average=0.9",
        "training.optimizer=muon",
        "training.schedule=trapezoidal",
        "training.batch_size=4:8",
        "training.masked_lm_prob=0.15:0.06",
    ),
}


def kill_moments(variant: str) -> list[tuple[str, int]]:
    """Returns moments: an event, and the number of further events before the process is killed.

    float16 has those at which its weights, averages and optimizer state are written, or have been read again.
    """
    chooser = random.Random(variant)
    every = [
        ("import tensorflow", chooser.randint(1, 3000), False),
        # Between writing the new history and the end of the first step, which is traced.
        (r"os.rename .*\.history\.jsonl", chooser.randint(1, 4000), False),
        (r"os.mkdir .*staging-step-00000004", 1, False),
        (r"open .*staging-step-.*optimizer\.npz", chooser.randint(2, 150), True),
        (r"open .*staging-step-.*state\.json", 1, False),
        (r"open .*staging-step-.*model\.npz", chooser.randint(1, 600), True),
        # Older checkpoints are removed, and the evaluation of step 30 is traced.
        (r"os.rename .*staging-step-00000024", chooser.randint(2, 20), True),
        (r"os.rename .*staging-step-00000028", chooser.randint(300, 1500), True),
        # The last evaluation is followed by the report and the preset.
        (r"os.rename .*staging-step-00000060", chooser.randint(5, 1500), True),
        (r"os.mkdir .*\.preset\.staging", chooser.randint(1, 1500), True),
    ]
    return [(event, later) for event, later, of_float16 in every if of_float16 or variant == "float32"]


def pretrain(folder: Path, output: Path, variant: str) -> list[str]:
    paths = ["--data", folder / "data", "--model", folder / "model.json", "--output", output]
    return [str(part) for part in ("pretrain", *paths, "--steps", STEPS, "--set", *SETTINGS, *VARIANTS[variant])]


def started(arguments: list[str], moment: tuple[str, int] = ("never", 0)) -> subprocess.CompletedProcess:
    command = [sys.executable, str(SCRIPT), moment[0], str(moment[1]), "SIGKILL", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def untimed(record: dict) -> dict:
    return {name: value for name, value in record.items() if name not in TIMED}


def results_of(output: Path) -> dict[str, object]:
    """Returns all results of a run that do not depend on the clock."""
    last = output / f"checkpoints/step-{STEPS:08d}"
    state = json.loads((last / "state.json").read_bytes())
    return {
        "checkpoints": sorted(path.name for path in (output / "checkpoints").iterdir()),
        "files": {path.name: path.read_bytes() for path in last.iterdir() if path.name != "state.json"},
        "state": state | {"progress": untimed(state["progress"])},
        "history": [untimed(json.loads(line)) for line in (output / "history.jsonl").read_text().splitlines()],
        "preset": sorted((path.name, path.read_bytes()) for path in (output / "preset").iterdir()),
        "names": sorted(path.name for path in output.iterdir()),
    }


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_kills_leave_no_trace(tmp_path, variant):
    write_small_data(tmp_path)
    unbroken = started(pretrain(tmp_path, tmp_path / "unbroken", variant))
    assert unbroken.returncode == 0, unbroken.stderr
    arguments = pretrain(tmp_path, tmp_path / "killed", variant)
    for moment in kill_moments(variant):
        killed = started(arguments, moment)
        assert killed.returncode == -signal.SIGKILL, (moment, killed.stderr)
    ended = started(arguments)
    assert ended.returncode == 0, ended.stderr
    summaries = [json.loads(run.stdout.splitlines()[-1]) for run in (unbroken, ended)]
    assert summaries[0]["weights_sha256"] == summaries[1]["weights_sha256"]
    expected, found = results_of(tmp_path / "unbroken"), results_of(tmp_path / "killed")
    for name, value in expected.items():
        assert found[name] == value, name

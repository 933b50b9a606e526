from __future__ import annotations

import json
from pathlib import Path

import pytest

from bert_tf.training.evaluation.baselines import Evaluation
from bert_tf.training.logging import run_status
from bert_tf.training.logging.run_status import RunStatus, StatusReporter, run_name


class Reports(list):
    """A hook that collects the states of a run, and the evaluations."""

    def __call__(self, output, status, evaluation):
        self.append((status.state, status.step, status.reason, evaluation))


@pytest.fixture
def reports(monkeypatch):
    # No time passes, so that only the first metrics and evaluations are reported.
    monkeypatch.setattr(run_status.time, "monotonic", lambda: 100.0)
    return Reports()


def reporter(output: Path, hook) -> StatusReporter:
    return StatusReporter(output, RunStatus("runs/mine", 10, settings={"seed": 1}), hook)


def saved(output: Path) -> dict:
    return json.loads((output / "status.json").read_text())


def test_a_run_is_reported_from_start_to_end(tmp_path, reports):
    evaluation = Evaluation({"accuracy": 0.5})
    run = reporter(tmp_path, reports)
    with run.watch():
        run.start(0)
        run.update(1, 9.0)
        assert (saved(tmp_path)["state"], saved(tmp_path)["step"], saved(tmp_path)["eta_seconds"]) == (
            "running",
            1,
            9.0,
        )
        run.update(2, 8.0)
        run.update(5, None, evaluation)
        run.update(10, 0.0)
    assert reports == [
        ("running", 0, "", None),
        ("running", 1, "", None),
        ("running", 5, "", evaluation),
        ("finished", 10, "", evaluation),
    ]
    assert saved(tmp_path)["started"] <= saved(tmp_path)["updated"]
    assert "settings" not in saved(tmp_path)


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (KeyboardInterrupt(), "stopped", "SIGINT"),
        (SystemExit(143), "stopped", "SIGTERM"),
        (ValueError("the loss is nan"), "failed", "ValueError: the loss is nan"),
    ],
)
def test_a_run_that_ends_otherwise_says_why(error, state, reason, tmp_path, reports):
    run = reporter(tmp_path, reports)
    with pytest.raises(type(error)), run.watch():
        run.start(3)
        raise error
    assert reports[-1] == (state, 3, reason, None)
    assert (saved(tmp_path)["state"], saved(tmp_path)["reason"]) == (state, reason)


def test_an_error_of_the_report_does_not_hide_that_of_the_run(tmp_path):
    def full_disk(output, status, evaluation):
        if status.state == "failed":
            raise OSError("No space left on device")

    run = reporter(tmp_path, full_disk)
    with pytest.raises(ValueError, match="nan"), run.watch():
        run.start(0)
        raise ValueError("nan")


def test_a_resumed_run_keeps_its_first_start(tmp_path, reports):
    (tmp_path / "status.json").write_text('{"started": "2026-01-02T03:04:05+00:00"}')
    reporter(tmp_path, reports).start(4)
    assert saved(tmp_path)["started"] == "2026-01-02T03:04:05+00:00"


@pytest.mark.parametrize("content", [None, "", "[]", "{}"])
def test_the_start_of_an_old_run_is_unknown(content, tmp_path, reports):
    if content is not None:
        (tmp_path / "status.json").write_text(content)
    reporter(tmp_path, reports).start(4)
    assert saved(tmp_path)["started"] == ""


def test_a_process_that_never_starts_the_run_leaves_its_state(tmp_path, reports):
    with pytest.raises(ValueError, match="another run"), reporter(tmp_path, reports).watch():
        raise ValueError("the checkpoint is of another run")
    assert reports == []
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_without_a_hook(tmp_path):
    run = reporter(tmp_path, None)
    with run.watch():
        run.start(0)
    assert list(tmp_path.iterdir()) == []


def test_a_run_has_the_name_of_its_directory(monkeypatch, tmp_path):
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path / "runs")
    assert run_name(Path("mine")) == "runs/mine"
    assert run_name(Path("/mine")) == "mine"

"""Runs of an experiment: reuse, resuming, failures, dependencies, and several processes in one directory."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bert_tf.config import ConfigError
from bert_tf.experiments.runs import Run, Runs, Status, duration, run_subprocess
from bert_tf.storage.leases import END, LOOK


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "train.tsv"
    path.write_text("label\ttext\n")
    return path


class Commands:
    """Executor that records the names of its runs, and fails for those in `failing`."""

    def __init__(self, failing: dict[str, BaseException] | None = None) -> None:
        self.names: list[str] = []
        self.failing = failing or {}

    def __call__(self, run: Run) -> dict[str, Any]:
        self.names.append(run.name)
        if run.name in self.failing:
            raise self.failing[run.name]
        return {"metrics": {"accuracy": len(self.names) / 10}}


def run_of(name: str, data: Path, **fields: Any) -> Run:
    return replace(Run(name, ("finetune", name), {"training": {"seed": 1}}, {"training file": data}), **fields)


def lease_path(runs: Runs, run: Run) -> Path:
    folder = runs.folder(run)
    return folder.with_name(f".{folder.name}.lease")


def hold(path: Path, **fields: Any) -> None:
    """Writes the lease of a process of another machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"token": "other", "host": "elsewhere", "pid": 7, "renewals": 0} | fields))


def test_finished_runs_are_reused(tmp_path: Path, data: Path) -> None:
    plan = [run_of("sst2/rate_3e-05", data), run_of("sst2/rate_2e-05", data)]
    first, second = Commands(), Commands()
    Runs(tmp_path / "out", plan).execute_all(first)
    runs = Runs(tmp_path / "out", plan)
    runs.execute_all(second)
    assert first.names == ["sst2/rate_3e-05", "sst2/rate_2e-05"] and second.names == []
    assert {name: record.result for name, record in runs.results().items()} == {
        "sst2/rate_3e-05": {"metrics": {"accuracy": 0.1}},
        "sst2/rate_2e-05": {"metrics": {"accuracy": 0.2}},
    }
    assert list(tmp_path.rglob(".*.lease")) == []


def test_other_settings_and_inputs_are_named(tmp_path: Path, data: Path) -> None:
    run, other = run_of("a", data), run_of("b", data)
    Runs(tmp_path / "out", [run, other]).execute_all(Commands())
    changed = Runs(tmp_path / "out", [replace(run, settings={"training": {"seed": 2}}), other])
    state = changed.state(changed.runs[0])
    assert state.status is Status.DIFFERENT and "training.seed 1 (now 2)" in state.reason
    assert changed.state(other).status is Status.FINISHED and changed.pending() == []

    data.write_text("label\ttext\n1\tnew\n")
    executed = Commands()
    runs = Runs(tmp_path / "out", [run, run_of("c", data)])
    runs.execute_all(executed)
    assert "another training file" in runs.state(run).reason
    assert executed.names == ["c"] and set(runs.results()) == {"c"}


def test_an_equal_file_elsewhere_is_the_same_input(tmp_path: Path, data: Path) -> None:
    Runs(tmp_path / "out", [run_of("a", data)]).execute_all(Commands())
    copy = tmp_path / "copy.tsv"
    copy.write_bytes(data.read_bytes())
    runs = Runs(tmp_path / "out", [run_of("a", copy)])
    assert set(runs.results()) == {"a"}


def test_a_failed_run_does_not_stop_the_others(tmp_path: Path, data: Path) -> None:
    plan = [run_of("a", data), run_of("b", data, after=("a",)), run_of("c", data)]
    first = Commands({"a": ValueError("line 3: no label")})
    runs = Runs(tmp_path / "out", plan)
    runs.execute_all(first)
    assert first.names == ["a", "c"]
    assert runs.state(plan[0]).status is Status.FAILED and "line 3: no label" in runs.state(plan[0]).reason
    assert runs.state(plan[1]).status is Status.BLOCKED and "a is failed" in runs.state(plan[1]).reason
    again = Commands()
    Runs(tmp_path / "out", plan).execute_all(again)
    assert again.names == ["a", "b"]


def test_a_fault_of_the_program_stops_all(tmp_path: Path, data: Path) -> None:
    runs = Runs(tmp_path / "out", [run_of("a", data), run_of("b", data)])
    with pytest.raises(KeyError):
        runs.execute_all(Commands({"a": KeyError("x")}))
    assert [run.name for run in runs.pending()] == ["a", "b"]


def test_an_interrupted_run_is_resumed_and_keeps_its_settings(tmp_path: Path, data: Path) -> None:
    run = run_of("a", data)
    with pytest.raises(KeyboardInterrupt):
        Runs(tmp_path / "out", [run]).execute_all(Commands({"a": KeyboardInterrupt()}))
    assert list(tmp_path.rglob(".*.lease")) == []
    other = Runs(tmp_path / "out", [replace(run, settings={})])
    assert other.state(other.runs[0]).status is Status.DIFFERENT
    again = Commands()
    Runs(tmp_path / "out", [run]).execute_all(again)
    assert again.names == ["a"]


def test_runs_wait_for_the_output_of_others(tmp_path: Path, data: Path) -> None:
    preset = tmp_path / "made.txt"
    after = run_of("tuned", data, inputs={"preset": preset}, after=("pretrained",))
    runs = Runs(tmp_path / "out", [after, run_of("pretrained", data)])
    assert runs.state(after).status is Status.WAITING
    names: list[str] = []

    def executor(run: Run) -> dict[str, Any]:
        names.append(run.name)
        preset.write_text("weights")
        return {}

    runs.execute_all(executor)
    assert names == ["pretrained", "tuned"]


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    runs = Runs(tmp_path / "out", [run_of("a", tmp_path / "none.tsv")])
    state = runs.state(runs.runs[0])
    assert state.status is Status.BLOCKED and "none.tsv" in state.reason
    assert runs.pending() == []


def test_runs_of_other_processes_are_left_to_them(tmp_path: Path, data: Path) -> None:
    """This process executes the free run, waits, and reads the result that the other process writes."""
    plan = [run_of("a", data), run_of("b", data)]
    path = tmp_path / "out" / ".a.lease"
    hold(path)
    executed = Commands()

    def other_process(seconds: float) -> None:
        assert executed.names == ["b"]
        path.unlink()
        Runs(tmp_path / "out", plan[:1]).execute_all(lambda run: {"by": "other"})

    runs = Runs(tmp_path / "out", plan, sleep=other_process)
    runs.execute_all(executed)
    assert executed.names == ["b"]
    assert runs.results()["a"].result == {"by": "other"}


def test_a_silent_machine_loses_its_run(tmp_path: Path, data: Path) -> None:
    hold(tmp_path / "out" / ".a.lease")
    waited: list[float] = []
    executed = Commands()
    Runs(tmp_path / "out", [run_of("a", data)], sleep=waited.append).execute_all(executed)
    assert executed.names == ["a"] and sum(waited) == END and set(waited) == {LOOK}


def test_the_result_of_a_suspended_process_is_not_written(tmp_path: Path, data: Path) -> None:
    run = run_of("a", data)
    runs = Runs(tmp_path / "out", [run])

    def suspended(run: Run) -> dict[str, Any]:
        hold(lease_path(runs, run))
        return {"by": "suspended"}

    assert not runs.execute(run, suspended)
    assert runs.results() == {}
    record = runs.record(run)
    assert record is not None and record.result is None


def _work(directory: Path, data: Path, start: Any) -> None:
    names = [f"run{number}" for number in range(12)]
    runs = Runs(directory, [run_of(name, data) for name in names], sleep=lambda seconds: time.sleep(0.01))

    def executor(run: Run) -> dict[str, Any]:
        with (directory / "executed.txt").open("a") as file:
            file.write(f"{run.name}\n")
        return {}

    start.wait()
    runs.execute_all(executor)


def test_processes_share_the_runs(tmp_path: Path, data: Path) -> None:
    """All of them find leases of a process that was killed."""
    context = multiprocessing.get_context("fork")
    directory, start = tmp_path / "out", context.Barrier(3)
    killed = context.Process(target=int)
    killed.start()
    killed.join()
    runs = Runs(directory, [run_of(f"run{number}", data) for number in range(12)])
    for run in runs.runs:
        with runs.claim(run):
            lease = json.loads(lease_path(runs, run).read_text())
        hold(lease_path(runs, run), host=lease["host"], pid=killed.pid)
    processes = [context.Process(target=_work, args=(directory, data, start)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert sorted((directory / "executed.txt").read_text().split()) == sorted(f"run{number}" for number in range(12))


def test_remaining_time_is_that_of_the_work(tmp_path: Path, data: Path) -> None:
    plan = [run_of("a", data, work=10.0), run_of("b", data, work=40.0), run_of("c", data, work=10.0, after=("b",))]
    runs = Runs(tmp_path / "out", plan)
    assert runs.remaining_seconds() is None
    runs.execute(plan[0], Commands())
    path = runs.record_path(plan[0])
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": 3.0}))
    assert runs.remaining_seconds() == pytest.approx(15.0)
    runs.execute(plan[1], Commands())
    path = runs.record_path(plan[1])
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": 6.0}))
    # The work of 10 takes 3 seconds and that of 40 takes 6: 2 seconds to start, and 0.1 for each unit.
    assert runs.remaining_seconds() == pytest.approx(3.0)
    assert (duration(59.6), duration(3540), duration(9000)) == ("60 s", "59 min", "2.5 h")


def test_numbers_that_are_not_finite_are_missing(tmp_path: Path, data: Path) -> None:
    run = run_of("a", data)
    runs = Runs(tmp_path / "out", [run])
    runs.execute(run, lambda run: {"loss": float("nan"), "step": 3})
    assert runs.results()["a"].result == {"loss": None, "step": 3}


def test_plans_and_records_are_checked(tmp_path: Path, data: Path) -> None:
    run = run_of("a", data)
    for plan in ([run, run], [replace(run, after=("b",))]):
        with pytest.raises(ValueError, match="Received"):
            Runs(tmp_path / "out", plan)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.json").write_text("{")
    with pytest.raises(ConfigError, match=r"a\.json"):
        Runs(tmp_path / "out", [run])


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replaces `python -m bert_tf` by the code of a program."""
    start = subprocess.Popen

    def replaced(code: str) -> None:
        monkeypatch.setattr(
            "bert_tf.experiments.runs.subprocess.Popen",
            lambda argv, **options: start([sys.executable, "-S", "-c", code, *argv[3:]], **options),
        )

    return replaced


def test_a_command_returns_its_summary(program: Callable[[str], None]) -> None:
    program("import sys; print('a table'); print('{\"arguments\": %d}' % len(sys.argv))")
    assert run_subprocess(Run("a", ("evaluate", "--preset", "x"))) == {"arguments": 4}


def test_a_command_fails_with_its_message(program: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> None:
    program("import sys; print('step 1', file=sys.stderr); sys.exit('bert-tf: error: no such file')")
    with pytest.raises(RuntimeError, match=r"^no such file$"):
        run_subprocess(Run("a", ("evaluate",)))
    assert "step 1" in capsys.readouterr().err
    program("raise SystemExit(130)")
    with pytest.raises(KeyboardInterrupt):
        run_subprocess(Run("a", ("evaluate",)))

"""Runners without running them: flags, messages, dry runs, templates, and deployment files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from beam_pipelines import create_pretraining_data
from beam_pipelines.runners import die_with_parent
from tests.support.beam_pipelines.runner_samples import data_flags
from tests.support.beam_pipelines.samples import contents


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    output = tmp_path / "data"
    summary = create_pretraining_data.run([*data_flags(tmp_path, 10), f"--output={output}", "--dry_run=true"])
    assert summary == {"output": str(output), "seconds": summary["seconds"], "dry_run": True}
    assert not output.exists()


def test_a_template_is_finished_by_the_same_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A local runner replaces Dataflow's, which runs the job after the launcher has ended."""
    flags = data_flags(tmp_path, 60)
    create_pretraining_data.run([*flags, f"--output={tmp_path / 'whole'}"])
    output = tmp_path / "data"
    flags = [*flags, f"--output={output}"]
    summary = create_pretraining_data.run([*flags, "--template_location=gs://bucket/template"])
    assert summary == {"output": str(output), "seconds": summary["seconds"], "template": True}
    assert not (output / "manifest.json").exists()

    def refuse(_: object) -> None:
        raise AssertionError("nothing is left to run")

    monkeypatch.setattr(create_pretraining_data, "running_pipeline", refuse)
    create_pretraining_data.run(flags)
    assert contents(output) == contents(tmp_path / "whole")


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's PR_SET_PDEATHSIG")
def test_a_job_server_ends_with_its_driver() -> None:
    code = (
        "import subprocess, sys; "
        f"p = subprocess.Popen([sys.executable, {die_with_parent.__file__!r}, 'sleep', '1000']); "
        "print(p.pid, flush=True); p.wait()"
    )
    driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert driver.stdout
    child = int(driver.stdout.readline())
    while b"sleep" not in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[0]:
        pass
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    with pytest.raises((FileNotFoundError, ProcessLookupError)):
        while not is_zombie(child):
            pass
        raise ProcessLookupError  # it has ended, but no parent has read its status


def is_zombie(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"

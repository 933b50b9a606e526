"""Runners without running them: flags, messages, dry runs, templates, and deployment files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from beam_pipelines import build_vocabulary, create_pretraining_data
from beam_pipelines.errors import PipelineError
from beam_pipelines.runners import die_with_parent, versions
from tests.support.beam_pipelines.runner_samples import data_flags
from tests.support.beam_pipelines.samples import contents


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    output = tmp_path / "data"
    summary = create_pretraining_data.run([*data_flags(tmp_path, 10), f"--output={output}", "--dry_run=true"])
    assert summary == {"output": str(output), "seconds": summary["seconds"], "dry_run": True}
    assert not output.exists()


def test_the_job_of_a_template_writes_the_manifest(tmp_path: Path) -> None:
    """A local runner replaces Dataflow's, which runs the job after the launcher has ended."""
    flags = data_flags(tmp_path, 60)
    create_pretraining_data.run([*flags, f"--output={tmp_path / 'whole'}"])
    output = tmp_path / "data"
    summary = create_pretraining_data.run([*flags, f"--output={output}", "--template_location=gs://bucket/template"])
    assert summary == {"output": str(output), "seconds": summary["seconds"], "template": True}
    assert contents(output) == contents(tmp_path / "whole")


def test_the_job_of_a_template_writes_the_vocabulary(tmp_path: Path) -> None:
    flags = [flag for flag in data_flags(tmp_path, 60) if flag.startswith(("--input", "--format", "--language"))]
    flags += ["--vocabulary_size=80"]
    build_vocabulary.run([*flags, f"--output={tmp_path / 'whole.txt'}"])
    output = tmp_path / "pieces.txt"
    summary = build_vocabulary.run([*flags, f"--output={output}", "--template_location=gs://bucket/template"])
    assert summary == {"output": str(output), "seconds": summary["seconds"], "template": True}
    assert output.read_bytes() == (tmp_path / "whole.txt").read_bytes()
    assert not (tmp_path / "pieces.txt.counts").exists()


def test_workers_with_other_versions_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions hold the driver's versions already; the patch changes those of the worker."""
    others = {**versions.pipeline_versions(), "numpy": "1.26.4"}
    monkeypatch.setattr(versions, "pipeline_versions", lambda: others)
    with pytest.raises(PipelineError, match=r"numpy 1\.26\.4 instead of 2.*constraints\.txt"):
        create_pretraining_data.run([*data_flags(tmp_path, 10), f"--output={tmp_path / 'data'}"])
    assert not (tmp_path / "data" / "manifest.json").exists()


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

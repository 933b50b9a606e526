"""Dataflow without a cloud: a dry run builds the pipeline proto and the sdist for workers."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.beam_pipelines.runner_samples import REPOSITORY, WORKERS, needs_workers
from tests.support.beam_pipelines.samples import write_vocabulary
from tests.support.paths import SUPPORT

pytestmark = [pytest.mark.runners, needs_workers]
SCRIPT = SUPPORT / "beam_pipelines/dataflow_dry_run.py"
DATAFLOW = [
    "--runner=DataflowRunner",
    "--project=project",
    "--region=us-central1",
    "--temp_location=gs://bucket/temp",
    "--staging_location=gs://bucket/staging",
    "--job_name=job",
    "--dry_run=true",
    "--no_auth",
    "--sdk_location=container",
    "--setup_file=./setup.py",
    f"--requirements_file={REPOSITORY / 'deployment/dataflow/requirements.txt'}",
    "--requirements_cache=skip",
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies the packaged files, because a build writes next to them."""
    folder = tmp_path_factory.mktemp("dataflow") / "tree"
    folder.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, folder)
    for name in ("bert_tf", "beam_pipelines"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def sdist(tree: Path) -> Path:
    return tree.parent / "sdist.tar.gz"


@pytest.fixture(scope="module")
def submitted(tree: Path, sdist: Path) -> dict[str, Any]:
    """Returns the record of a dry run, see dataflow_dry_run.py."""
    vocabulary = write_vocabulary(tree.parent / "vocab.txt")
    arguments = [WORKERS / "bin" / "python", SCRIPT, vocabulary, sdist, *DATAFLOW]
    done = subprocess.run(arguments, cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_dry_run_writes_nothing(submitted: dict[str, Any]) -> None:
    assert submitted["summary"] == {
        "output": "gs://bucket/data",
        "seconds": submitted["summary"]["seconds"],
        "dry_run": True,
    }
    assert submitted["objects"] == ["mem://bucket/corpus.txt"]


def test_submitted_pipeline_has_all_steps(submitted: dict[str, Any]) -> None:
    steps = {name.partition("/")[0] for name in submitted["transforms"]}
    assert {"ReadCorpus", "Tokenize", "GatherBuckets", "BuildShards", "DeadLetters"} <= steps
    (image,) = submitted["images"]
    assert "beam_python3" in image


def test_workers_get_the_sdist_without_the_main_module(submitted: dict[str, Any]) -> None:
    assert {"workflow.tar.gz", "requirements.txt"} <= set(submitted["artifacts"])
    assert "pickled_main_session" not in submitted["artifacts"]


def test_sdist_contains_both_packages(submitted: dict[str, Any], sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    sources = [
        path.relative_to(REPOSITORY).as_posix()
        for package in ("bert_tf", "beam_pipelines")
        for path in (REPOSITORY / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    ]
    assert {"bert_tf/py.typed", "beam_pipelines/sources/text.py", "setup.py", "pyproject.toml"} <= held
    assert any(name.endswith(".npz") for name in held)
    assert not set(sources) - held

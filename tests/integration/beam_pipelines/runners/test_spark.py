"""Real Spark: a job server with Spark in local mode, workers in separate processes."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from beam_pipelines import build_vocabulary, create_pretraining_data
from beam_pipelines.errors import InputError
from tests.support.beam_pipelines.runner_samples import data_flags, needs_job_server
from tests.support.beam_pipelines.samples import contents, documents

pytestmark = [pytest.mark.runners, needs_job_server("SparkRunner")]
SPARK = ["--runner=SparkRunner", "--spark_master_url=local[2]", "--sdk_worker_parallelism=1"]
SPARK += ["--job_server_jvm_properties=-XX:TieredStopAtLevel=1", "--job_server_jvm_properties=-XX:+UseSerialGC"]


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [*data_flags(tmp_path_factory.mktemp("spark")), "--num_shards=3"]


def test_data_equals_that_of_a_local_run(tmp_path: Path, flags: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    create_pretraining_data.run([*flags, f"--output={tmp_path / 'local'}"])
    capfd.readouterr()
    create_pretraining_data.run([*flags, f"--output={tmp_path / 'spark'}", *SPARK])
    assert contents(tmp_path / "spark") == contents(tmp_path / "local")
    assert all(line.startswith("data: ") for line in capfd.readouterr().err.splitlines())


def test_vocabulary_equals_that_of_a_local_run(tmp_path: Path, flags: list[str]) -> None:
    own = [flags[0], "--vocabulary_size=100"]
    build_vocabulary.run([*own, f"--output={tmp_path / 'local.txt'}"])
    build_vocabulary.run([*own, f"--output={tmp_path / 'spark.txt'}", *SPARK])
    assert (tmp_path / "spark.txt").read_bytes() == (tmp_path / "local.txt").read_bytes()


def test_an_error_of_a_worker_is_one_line(tmp_path: Path, flags: list[str]) -> None:
    cut = tmp_path / "cut.txt.gz"
    cut.write_bytes(gzip.compress("\n".join(documents(50)).encode())[:-200])
    with pytest.raises(InputError, match=r"^\S*cut.txt.gz: .*truncated") as caught:
        create_pretraining_data.run([f"--input={cut}", *flags[1:], f"--output={tmp_path / 'data'}", *SPARK])
    assert "\n" not in str(caught.value)

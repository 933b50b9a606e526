"""Both pipelines as programs, bad input, and sudden ends."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_pipelines import create_pretraining_data, program
from beam_pipelines.errors import InputError, PipelineError
from tests.support.beam_pipelines.runner_samples import start, wait_for_shard
from tests.support.beam_pipelines.samples import contents, documents, write_corpus, write_vocabulary


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("program")


@pytest.fixture(scope="module")
def data_flags(home: Path) -> list[str]:
    glob = write_corpus(home / "corpus", documents(300))
    return [f"--input={glob}", f"--vocabulary={write_vocabulary(home / 'vocab.txt')}", "--max_seq_length=32"]


@pytest.mark.smoke
def test_the_summary_is_the_last_line_of_stdout(home: Path, data_flags: list[str]) -> None:
    process = start([*data_flags, f"--output={home / 'data'}"])
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    keys = ["output", "seconds", "documents_read", "documents_rejected", "examples", "shards", "tokens"]
    assert list(json.loads(out.splitlines()[-1])) == keys
    assert "data: done, parts 3/3, 300 documents" in errors
    assert [line for line in errors.splitlines() if not line.startswith("data: ")] == []


@pytest.mark.parametrize("package", ["apache_beam", "sentencex"])
def test_a_missing_package_is_one_line(package: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{package!r}] = None\n")
    command = [sys.executable, "-m", "beam_pipelines.create_pretraining_data"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    needed = package.replace("_", "-")
    assert process.stderr == f"error: `bert-tf data` needs {needed}. Run `pip install 'bert-tf[data]'`.\n"


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ValueError("a.txt: line 3 is bad"), 1, "error: a.txt: line 3 is bad\n"),
        (PipelineError("lost"), 1, "error: lost\n"),
        (OSError(28, "No space left on device"), 1, "error: [Errno 28] No space left on device\n"),
        (KeyboardInterrupt(), 130, "interrupted; run the same command again to resume\n"),
    ],
)
def test_an_error_is_one_line(
    capsys: pytest.CaptureFixture[str], error: BaseException, status: int, message: str
) -> None:
    def fail(_: object) -> dict:
        raise error

    assert program.run_as_program(fail) == status
    assert capsys.readouterr() == ("", message)


@pytest.mark.parametrize("error", [MemoryError(), RecursionError("too deep")])
def test_exhausted_memory_is_one_line(capsys: pytest.CaptureFixture[str], error: BaseException) -> None:
    def fail(_: object) -> dict:
        raise error

    assert program.run_as_program(fail) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")


@pytest.fixture
def bad_inputs(tmp_path: Path) -> dict[str, Path]:
    text = "\n".join(documents(50)).encode()
    files = {
        "latin-1.txt": b"One.\n\ncaf\xe9 au lait.\n",
        "cut.txt.bz2": bz2.compress(text)[:-200],
        "cut.txt.gz": gzip.compress(text)[:-200],
        "empty.txt": b"",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    write_vocabulary(tmp_path / "no-mask.txt", ("[PAD]", "[UNK]", "[CLS]", "[SEP]"))
    return {name: tmp_path / name for name in [*files, "no-mask.txt", "missing.txt"]}


@pytest.mark.parametrize(
    ("flag", "file", "message"),
    [
        ("input", "latin-1.txt", "(undecodable 1), more than --max_rejected_fraction"),
        ("input", "cut.txt.bz2", "cut.txt.bz2: missing, damaged or truncated"),
        ("input", "cut.txt.gz", "cut.txt.gz: missing, damaged or truncated"),
        ("input", "empty.txt", "empty.txt is empty"),
        ("input", "missing.txt", "missing.txt: matches no file"),
        ("vocabulary", "no-mask.txt", "[MASK]"),
        ("vocabulary", "missing.txt", "missing.txt"),
    ],
)
def test_invalid_input_is_reported_in_one_line(
    home: Path, data_flags: list[str], bad_inputs: dict[str, Path], flag: str, file: str, message: str
) -> None:
    flags = [f"--{flag}={bad_inputs[file]}" if given.startswith(f"--{flag}=") else given for given in data_flags]
    output = home / f"bad-{flag}-{file}"
    with pytest.raises((ValueError, OSError, PipelineError)) as caught:
        create_pretraining_data.run([*flags, f"--output={output}"])
    assert message in str(caught.value)
    assert file in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(output.glob("manifest.json"))


def test_error_in_a_worker_process_is_reported(
    home: Path, data_flags: list[str], bad_inputs: dict[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    mode = ["--direct_running_mode=multi_processing", "--direct_num_workers=1"]
    flags = [f"--input={bad_inputs['cut.txt.gz']}", *data_flags[1:], f"--output={home / 'bad-worker'}", *mode]
    with pytest.raises(InputError, match=r"^\S*cut.txt.gz: missing, damaged or truncated after line \d+: .*"):
        create_pretraining_data.run(flags)
    assert "Traceback" not in capfd.readouterr().err


def test_killed_run_resumes(home: Path, data_flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """SIGKILL after the first shard; the second run must produce the bytes of an uninterrupted run."""
    whole, broken = home / "whole", home / "broken"
    flags = [*data_flags, "--num_shards=200"]
    process = start([*flags, f"--output={broken}"])
    wait_for_shard(process, broken)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    unbroken = create_pretraining_data.run([*flags, f"--output={whole}"])
    assert 0 < len(list(broken.glob("*.tfrecord"))) < unbroken["shards"]
    capsys.readouterr()
    create_pretraining_data.run([*flags, f"--output={broken}"])
    assert "shards are already complete" in capsys.readouterr().err
    assert contents(broken) == contents(whole)


def test_ctrl_c_is_reported_in_one_line(home: Path, data_flags: list[str]) -> None:
    output = home / "interrupted"
    process = start([*data_flags, "--num_shards=400", f"--output={output}"])
    wait_for_shard(process, output)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "interrupted" in errors.splitlines()[-1]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        arguments = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
        subprocess.run(arguments, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_full_disk_is_reported_and_leaves_no_manifest(small_disk: Path, data_flags: list[str]) -> None:
    with pytest.raises(OSError, match=f"No space left on device: .*{small_disk}"):
        create_pretraining_data.run([*data_flags, f"--output={small_disk / 'data'}"])
    assert not list(small_disk.rglob("manifest.json"))
    assert not list(small_disk.rglob("*.tmp"))

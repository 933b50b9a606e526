"""Tests one-line error messages."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.entry.errors import is_expected, one_line, run_program


def error_of(action: Callable[[], object]) -> Exception:
    try:
        action()
    except Exception as error:
        return error
    raise AssertionError("no error was raised")


def error_raised(error: Exception) -> int:
    raise error


@tf.function
def looked_up(row: tf.Tensor) -> tf.Tensor:
    with tf.device("CPU"):
        return tf.gather(tf.constant([1.0, 2.0]), row)


OOM = """Graph execution error:

Detected at node zeros defined at (most recent call last):
  File "train.py", line 24, in <module>

OOM when allocating tensor with shape[20000,20000] and type float on /device:GPU:0 by allocator GPU_0_bfc
\t [[{{node zeros}}]]
Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom"""


def nested() -> None:
    nested()


@pytest.mark.parametrize(
    ("action", "line"),
    [
        (lambda: tf.reshape(tf.constant([1, 2]), [7]), "InvalidArgumentError: Input to reshape is a tensor with 2 "),
        (lambda: looked_up(tf.constant([5])), "InvalidArgumentError: indices[0] = 5 is not in [0, 2)"),
        (lambda: tf.io.read_file("/nowhere"), "NotFoundError: /nowhere; No such file or directory"),
        (lambda: error_raised(tf.errors.ResourceExhaustedError(None, None, OOM)), "out of memory: OOM when allocating"),
        (lambda: np.zeros((10**7, 10**7)), "out of memory: Unable to allocate"),
        (nested, "nested too deeply"),
    ],
    ids=["eager", "graph", "no file", "tensor", "array", "recursion"],
)
def test_reason_is_one_line(action: Callable[[], object], line: str) -> None:
    error = error_of(action)
    assert is_expected(error)
    assert line in one_line(error)
    assert "\n" not in one_line(error)
    assert "node" not in one_line(error)


def test_error_without_message_shows_its_type() -> None:
    assert one_line(ValueError()) == "ValueError"
    assert "MemoryError" in one_line(MemoryError())


def test_a_bug_keeps_its_traceback() -> None:
    assert not is_expected(TypeError("no such argument"))
    with pytest.raises(TypeError):
        run_program(lambda: error_raised(TypeError("no such argument")))


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/data"), "No space left on device: '/data'"),
        (tf.errors.DataLossError(None, None, "corrupted record at 12"), "DataLossError: corrupted record at 12"),
        (MemoryError(), "out of memory"),
    ],
)
def test_programs_print_the_error_and_exit(error: Exception, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(lambda: error_raised(error)) == 1
    assert capsys.readouterr().err.startswith("error: ")
    assert run_program(lambda: 3) == 3
    assert line in one_line(error)


def test_commands_print_the_error_and_exit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from bert_tf import cli
    from bert_tf.commands import inspect

    monkeypatch.setattr(
        inspect, "run", lambda _: error_raised(tf.errors.DataLossError(None, None, "cut\n[[{{node x}}]]"))
    )
    assert cli.main(["inspect", str(Path.cwd())]) == 1
    assert capsys.readouterr().err == "bert-tf: error: TensorFlow failed: DataLossError: cut\n"
    with pytest.raises(tf.errors.DataLossError):
        cli.main(["--debug", "inspect", str(Path.cwd())])

"""Runs code in new processes, which have imported only what the documentation tells readers to import.

The processes are forks of one process. It imports TensorFlow, which takes seconds, but runs nothing, so that no thread
of TensorFlow exists before a fork.
"""

from __future__ import annotations

import doctest
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Imports of all examples, and the names that they have there.
PREAMBLE = {"np": "numpy", "keras": "keras", "tf": "tensorflow", "bert_tf": "bert_tf"}


@contextmanager
def new_processes() -> Iterator[Callable[..., Any]]:
    """Yields a function that calls another one in a new process and returns its result.

    Its arguments are the function, the working directory, and the arguments of the function, which can be pickled.
    """
    context = multiprocessing.get_context("forkserver")
    # Each process imports this module and the main one, unless the first process did.
    context.set_forkserver_preload([*PREAMBLE.values(), "pytest", __name__])
    with ProcessPoolExecutor(max_workers=1, mp_context=context, max_tasks_per_child=1) as pool:
        yield lambda function, folder, *arguments: pool.submit(_called, function, folder, arguments).result()


def run_example(text: str) -> str:
    """Runs the lines of an example that begin with `>>>`.

    Returns:
        The differences from the output in the example; empty if there are none.
    """
    names = {name: __import__(module) for name, module in PREAMBLE.items()}
    test = doctest.DocTestParser().get_doctest(text, names, "example", None, 0)
    differences: list[str] = []
    doctest.DocTestRunner().run(test, out=differences.append)
    return "".join(differences)


def run_code(code: str) -> None:
    """Runs a program that makes its own imports."""
    exec(code, {})


def imported_modules() -> list[str]:
    """Returns the modules of this project that the process has imported."""
    return sorted(name for name in sys.modules if name.startswith(("bert_tf", "beam_pipelines")))


def _called(function: Callable[..., Any], folder: Path, arguments: tuple[Any, ...]) -> Any:
    os.chdir(folder)
    os.environ["BERT_TF_CACHE"] = str(folder / "cache")
    return function(*arguments)

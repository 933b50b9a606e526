"""Fixtures and settings of all tests, and the tier of each."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from bert_tf.entry.quiet import without_collecting

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores SIGINT in background jobs, and programs under test would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

TESTS = Path(__file__).parent
# Takes many minutes. If it started last, all other processes would wait for it.
LONGEST = "test_demo"
# Longer unit tests are listed after a run, and better placed in tests/integration.
UNIT_SECONDS = 1.5


def pytest_configure(config: pytest.Config) -> None:
    """Lets all processes on JAX reuse what others of the session compiled; the first process deletes it at the end."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        folder = tempfile.mkdtemp(prefix="jax_cache")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        os.environ |= {
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }


def tier(item: pytest.Item) -> str:
    """Returns the one tier of a test: its mark `runners`, `slow` or `integration`, otherwise by folder and `smoke`."""
    for mark in ("runners", "slow", "integration"):
        if item.get_closest_marker(mark):
            return mark
    in_unit = item.path.is_relative_to(TESTS / "unit")
    return "unit" if in_unit or item.get_closest_marker("smoke") else "integration"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Excludes all that test modules import from later garbage collections, which would take a tenth of the time."""
    with without_collecting():
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test with its tier, and puts the longest test first."""
    for item in items:
        item.add_marker(tier(item))
    items.sort(key=lambda item: item.name != LONGEST)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Lists unit tests that took long. They do not fail, because times depend on the machine and its load."""
    seconds: dict[str, float] = {}
    for report in terminalreporter.stats.get("passed", []):
        if "unit" in report.keywords and not {"smoke", "slow", "integration"} & set(report.keywords):
            seconds[report.nodeid] = report.duration
    slow = sorted(((value, name) for name, value in seconds.items() if value > UNIT_SECONDS), reverse=True)
    if slow:
        terminalreporter.section(f"unit tests over {UNIT_SECONDS} s")
        for value, name in slow[:20]:
            terminalreporter.line(f"{value:6.1f} s  {name}")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora beside the checkout; tests that need it skip where it is absent."""
    path = TESTS.parents[1] / "shared" / "data"
    if not path.is_dir():
        pytest.skip("needs the real corpora in ../shared/data, which are not here")
    return path

"""Fixtures and settings of all tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores SIGINT in background jobs, and programs under test would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = Path(__file__).parent.parent
# Takes many minutes. If it started last, all other processes would wait for it.
LONGEST = "test_commands_demo.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest test first, for processes that take files in order (`--no-loadscope-reorder`)."""
    items.sort(key=lambda item: item.path.name != LONGEST)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora beside the checkout; tests that need it skip where it is absent."""
    path = REPOSITORY.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("needs the real corpora in ../shared/data, which are not here")
    return path

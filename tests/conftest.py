"""What every test may use."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As a shell leaves it in what it runs in the background; programs under test would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora beside the checkout; tests that need it skip where it is absent."""
    path = REPOSITORY.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("needs the real corpora in ../shared/data, which are not here")
    return path

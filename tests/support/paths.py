"""Folders that tests read."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SUPPORT = REPOSITORY / "tests/support"
TESTDATA = REPOSITORY / "tests/testdata"

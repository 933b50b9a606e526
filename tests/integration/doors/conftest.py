"""Fixtures with the preset of each case, and the answers of `TaskPredictor` to its inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import doors
from tests.support.doors import Answer, Case


@pytest.fixture(scope="session")
def preset_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Path]:
    """Returns a function from a case to its preset, which it writes on first use."""
    root, written = tmp_path_factory.mktemp("doors"), {}

    def preset(case: Case) -> Path:
        if case.id not in written:
            written[case.id] = doors.make_preset(case, root / case.id)
        return written[case.id]

    return preset


@pytest.fixture(scope="session")
def expected_of(preset_of: Callable[[Case], Path]) -> Callable[[Case], list[Answer]]:
    """Returns a function from a case to the answers of `TaskPredictor.predict`."""
    known: dict[str, list[Answer]] = {}

    def expected(case: Case) -> list[Answer]:
        if case.id not in known:
            known[case.id] = doors.python(preset_of(case), case, doors.examples_of(case))
        return known[case.id]

    return expected

"""Tests that hostile requests depend on the seed only, and that the soak test detects failures."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.fuzz import HostileClient
from benchmarks.soak import Tally, _holds_one_version, _same


def sent_requests(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, bytes]]:
    """Returns the requests of a client without a server."""
    made: list[tuple[str, str, bytes]] = []
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "saved_model.pb").touch()
    client = HostileClient("127.0.0.1", 1, 1, "m", seed, folder)

    def kept(kind: str) -> object:
        def keep(*content: object, **headers: object) -> tuple[str, bool]:
            made.append((kind, *map(repr, content), repr(headers)))  # type: ignore[arg-type]
            return "kept", True

        return keep

    for name in ("_post", "_raw", "_call", "_open"):
        monkeypatch.setattr(client, name, kept(name))
    monkeypatch.setitem(client._kinds, "reset streams", lambda: ("kept", True))
    monkeypatch.setattr(client, "_leave_open", lambda content: made.append(("_leave_open", repr(content))))
    for _ in range(60):
        assert client.send()[1] in {"kept", "left open by us", "written by us"}
    return made


def test_requests_are_a_function_of_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = sent_requests(1, tmp_path / "first", monkeypatch)
    assert sent_requests(1, tmp_path / "again", monkeypatch) == first
    assert sent_requests(2, tmp_path / "other", monkeypatch) != first
    assert {kind for kind, *_ in first} == {"_post", "_raw", "_call", "_open", "_leave_open"}


@pytest.mark.parametrize(
    ("found", "expected", "same"),
    [
        ([{"label": "a", "p": [0.5, 0.1]}], [{"label": "a", "p": [0.5, 0.1 + 1e-6]}], True),
        ([{"label": "a", "p": [0.5, 0.1]}], [{"label": "b", "p": [0.5, 0.1]}], False),
        ([{"label": "a", "p": [0.5, 0.1]}], [{"label": "a", "p": [0.5, 0.2]}], False),
        ([{"label": "a"}], [{"label": "a", "p": [0.5]}], False),
        ([1.0], [1.0, 2.0], False),
    ],
)
def test_answers_are_compared(found: object, expected: object, same: bool) -> None:
    assert _same(found, expected) is same


@pytest.mark.parametrize(("slope", "growth"), [(0.0, 0.0), (1e6, 0.5), (-1e6, -0.5)])
def test_memory_growth_excludes_the_start(slope: float, growth: float) -> None:
    seconds = np.arange(100.0)
    start = np.where(seconds < 30, 5e8, 0.0)
    middle = (seconds[30] + seconds[-1]) / 2
    size = 138e6 + slope * (seconds - middle) + start
    tally = Tally(memory=list(zip(seconds.tolist(), size.tolist(), strict=True)))
    assert tally.growth() == pytest.approx(growth, abs=0.01)


@pytest.mark.parametrize(
    ("states", "one"),
    [("AVAILABLE", True), ("AVAILABLE END START", True), ("AVAILABLE LOADING", False), ("END", False)],
)
def test_memory_is_compared_while_one_version_is_loaded(states: str, one: bool) -> None:
    client = SimpleNamespace(status=lambda: [{"version": 1, "state": state} for state in states.split()])
    assert _holds_one_version(client) is one

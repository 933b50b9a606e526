"""Tests the medians of a server's start-up time."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks import cold_start


def test_medians_of_all_rounds_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds: Iterator[float] = iter([9.0, 4.0, 8.0, 5.0, 10.0, 3.0])

    def started(model: Path, flags: Sequence[str], requests: Sequence[str]) -> tuple[float, list[float]]:
        assert len(requests) == 4
        ready = next(seconds)
        return ready, [0.1 if "--no_warmup" not in flags else ready, 0.2, 0.1, 0.3]

    monkeypatch.setattr(cold_start, "started", started)
    argv = ["cold_start", "--model", "models/m", "--rounds", "3", "--requests", "4", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", argv)
    cold_start.main()
    lines = capsys.readouterr().out.splitlines()
    assert "| with warm-up | 9.0 | 100 | 200 | 0.50 |" in lines
    assert "| without | 4.0 | 4000 | 200 | 20.00 |" in lines
    found = json.loads((tmp_path / "cold_start.json").read_text(encoding="utf-8"))
    assert found["rows"]["without"] == {"ready_s": 4.0, "first_ms": 4000.0, "later_ms": 200.0}
    assert found["model"] == "models/m"


@pytest.mark.parametrize("flags", [["--rounds", "0"], ["--requests", "1"]])
def test_too_few_rounds_are_refused(
    flags: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["cold_start", "--model", "m", *flags])
    with pytest.raises(SystemExit):
        cold_start.main()
    assert "--rounds must be 1 and --requests 2 at least" in capsys.readouterr().err


@pytest.mark.integration
def test_failure_of_a_server_to_start_is_explained(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the server did not start: .*nothing"):
        cold_start.started(tmp_path / "nothing", (), ["a"])

"""Tests the ratios of the benchmark of preprocessors."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import preprocessors


def test_costs_are_relative_to_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = {"text": 2.0, "choices": 4.0, "words": 3.0, "spans": 1.0, "masked_lm": 2.0}
    monkeypatch.setattr(preprocessors, "WORDS", 100)
    found = preprocessors.cases(3, seed=1)
    assert {name: len(preprocessor.encode(x, y)) for name, (preprocessor, x, y) in found.items()} == dict.fromkeys(
        seconds, 3
    )
    names = iter([*seconds] * 2)
    monkeypatch.setattr(preprocessors, "processor_time", lambda case: seconds[next(names)])
    arguments = ["preprocessors", "--examples", "8", "--rounds", "2", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    preprocessors.main()
    (path,) = tmp_path.iterdir()
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["ratios"] == {"text": 1.0, "choices": 2.0, "words": 1.5, "spans": 0.5, "masked_lm": 1.0}
    assert "| words | 3 | 1.50 |" in capsys.readouterr().out

"""Tests the table of pre-training quality, built from existing runs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks import quality

FIGURES = {
    ("pre-trained", 3e-4, 1): 70.0,
    ("pre-trained", 1e-4, 1): 74.0,
    ("pre-trained", 1e-4, 2): 76.0,
    ("random", 3e-4, 1): 68.0,
    ("random", 3e-4, 2): 67.0,
    ("random", 1e-4, 1): 66.0,
}


@pytest.fixture
def args(tmp_path: Path) -> argparse.Namespace:
    (tmp_path / "MRPC").mkdir()
    for (start, rate, seed), figure in FIGURES.items():
        run = {
            "metrics": {"accuracy": figure / 100, "f1": 0.8},
            "remark": "collapsed" if figure == 67 else "",
            "seconds": 10,
        }
        (tmp_path / "MRPC" / f"{start}_{rate:g}_{seed}.json").write_text(json.dumps(run))
    return argparse.Namespace(starts=quality.STARTS, seeds=None, output=tmp_path)


def test_learning_rate_is_selected_with_the_first_seed(args: argparse.Namespace) -> None:
    row = quality.row_of("MRPC", args)
    assert (row["pre-trained"]["rate"], row["pre-trained"]["seeds"]) == (1e-4, 2)
    assert (row["random"]["rate"], row["random"]["seeds"]) == (3e-4, 2)
    assert row["pre-trained"]["deviation"] == pytest.approx(2**0.5)
    assert row["random"]["remarks"] == ["collapsed"]
    assert row["random"]["seconds"] == row["pre-trained"]["seconds"] == 30
    line = quality.table([row]).splitlines()[-1]
    assert line == "| MRPC | accuracy | 67.5 ± 0.7 (collapsed) | 75.0 ± 1.4 | +7.5 | 0.0003, 0.0001 | 71.1, 71.8 |"


def test_one_seed_has_no_deviation(args: argparse.Namespace) -> None:
    args.seeds = 1
    row = quality.row_of("MRPC", args)
    assert (row["pre-trained"]["mean"], row["pre-trained"]["deviation"]) == (pytest.approx(74.0), None)
    assert row["random"]["seconds"] == 20

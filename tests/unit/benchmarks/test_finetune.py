"""Tests the benchmarks of fine-tuning: identical rows for all sides, a measured round, and the table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import finetune
from benchmarks.peers.rows import Rows, read_rows, write_rows


def test_rows_round_trip(tmp_path: Path) -> None:
    rows = Rows(
        np.arange(9, dtype=np.int32), np.array([0, 4, 9]), np.array([4, 3], np.int32), {"label": np.array([1, 0])}, 8
    )
    write_rows(tmp_path / "rows.npz", rows)
    again = read_rows(tmp_path / "rows.npz")
    assert (len(again), again.num_labels, again.max_length) == (2, 2, 8)
    row = again.row(1)
    assert row["input_ids"].tolist() == [4, 5, 6, 7, 8]
    assert row["token_type_ids"].tolist() == [0, 0, 0, 1, 1]
    assert row["label"] == 0


def test_only_available_peers_run() -> None:
    flags = ["--task", "sst2", "--data", "d", "--vocabulary", "v"]
    assert finetune.arguments(flags).peers == ["keras_hub"]
    assert finetune.arguments([*flags, "--torch_python", "p"]).peers == list(finetune.PEERS)
    squad = ["--task", "squad1", *flags[2:], "--torch_python", "p"]
    assert finetune.arguments(squad).peers == ["huggingface", "huggingface_stock"]
    with pytest.raises(SystemExit):
        finetune.arguments([*flags, "--peers", "huggingface"])

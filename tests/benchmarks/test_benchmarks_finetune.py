"""Tests the benchmarks of fine-tuning: identical rows for all sides, a measured round, and the table."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmark_samples import WORDS

from benchmarks import finetune
from benchmarks.peers.rows import Rows, read_rows, write_rows
from bert_tf.text.vocabulary import SPECIAL_TOKENS

ROOT = Path(__file__).parents[2]


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
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


def test_peers_are_those_that_are_there() -> None:
    given = ["--task", "sst2", "--data", "d", "--vocabulary", "v"]
    assert finetune.arguments(given).peers == ["keras_hub"]
    assert finetune.arguments([*given, "--torch_python", "p"]).peers == list(finetune.PEERS)
    squad = ["--task", "squad1", *given[2:], "--torch_python", "p"]
    assert finetune.arguments(squad).peers == ["huggingface", "huggingface_stock"]
    with pytest.raises(SystemExit):
        finetune.arguments([*given, "--peers", "huggingface"])


@pytest.mark.slow
def test_tokens_a_second_beside_keras_hub(tmp_path: Path) -> None:
    chooser = random.Random(1)
    sentences = [f"{' '.join(chooser.choices(WORDS, k=chooser.randint(3, 12)))}\t{n % 2}" for n in range(200)]
    (tmp_path / "train.tsv").write_text("\n".join(["sentence\tlabel", *sentences]) + "\n", "utf-8")
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, ".", *WORDS]) + "\n", "utf-8")
    command = [sys.executable, "-m", "benchmarks.finetune", "--task=sst2", "--sizes", "tiny", "--rounds=1"]
    command += ["--seconds=0.1", "--settle=0", "--threads=2", f"--data={tmp_path / 'train.tsv'}"]
    command += [f"--vocabulary={tmp_path / 'vocab.txt'}", f"--output={tmp_path / 'out'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    (path,) = (tmp_path / "out").iterdir()
    told = json.loads(path.read_text())
    ours, peer = told["results"][0]["results"]
    assert (ours["name"], peer["name"]) == ("bert_tf float32", "keras_hub float32")
    assert ours["parameters"] == peer["parameters"]
    for row in (ours, peer):
        tokens_a_step = row["rate"] * row["milliseconds"] / 1e3
        assert 32 * 5 <= tokens_a_step <= 32 * told["max_length"]

"""Tests the benchmarks of fine-tuning: identical rows for all sides, a measured round, and the table."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from bert_tf.text.vocabulary import SPECIAL_TOKENS
from tests.support.benchmarks.samples import WORDS
from tests.support.paths import REPOSITORY

ROOT = REPOSITORY


@pytest.mark.slow
def test_tokens_per_second_against_keras_hub(tmp_path: Path) -> None:
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
    report = json.loads(path.read_text())
    ours, peer = report["results"][0]["results"]
    assert (ours["name"], peer["name"]) == ("bert_tf float32", "keras_hub float32")
    assert ours["parameters"] == peer["parameters"]
    for row in (ours, peer):
        tokens_a_step = row["rate"] * row["milliseconds"] / 1e3
        assert 32 * 5 <= tokens_a_step <= 32 * report["max_length"]

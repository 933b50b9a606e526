"""Runs the benchmark of training steps, over rounds too short for meaningful results and without external peers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bert_tf.text.vocabulary import SPECIAL_TOKENS
from tests.support.benchmarks.samples import WORDS, write_corpus
from tests.support.paths import REPOSITORY

ROOT = REPOSITORY

pytestmark = pytest.mark.slow


def run(*command: str) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def measured(output: Path, *arguments: str) -> dict[str, Any]:
    run(
        *("benchmarks.train_step", "--sizes", "tiny", "--rounds=1", "--seconds=0.1", "--settle=0", "--threads=2"),
        *(f"--output={output}", *arguments),
    )
    (path,) = output.iterdir()
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train_step")
    write_corpus(folder / "corpus.txt")
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, ".", *WORDS]) + "\n", encoding="utf-8")
    run(
        *("beam_pipelines.create_pretraining_data", f"--input={folder / 'corpus.txt'}", "--max_seq_length=32"),
        *(f"--vocabulary={folder / 'vocab.txt'}", f"--output={folder / 'data'}", "--masking=dynamic"),
        "--direct_running_mode=in_memory",
    )
    return folder / "data"


def test_steps_are_measured_against_keras_hub(tmp_path: Path) -> None:
    (result,) = measured(tmp_path, "--precisions", "bfloat16", "--peers", "keras_hub")["results"]
    ours, peer = result["results"]
    assert (ours["name"], peer["name"]) == ("bert_tf bfloat16", "keras_hub bfloat16")
    assert ours["parameters"] == peer["parameters"] > 4_000_000
    assert ours["times_milliseconds"] == 1 and peer["times_milliseconds"] > 0
    # Nine tenths of the 32 rows of 128 positions are full.
    assert 0.85 * 4096 < ours["rate"] * ours["milliseconds"] / 1e3 <= 4096


def test_useful_tokens_per_second(tmp_path: Path, data: Path) -> None:
    (size,) = measured(tmp_path, "--part=padding", f"--data={data}")["results"]
    assert [row["name"] for row in size["results"]] == ["full float32", "bins float32", "pack float32"]
    assert size["max_seq_length"] == 32
    for row in size["results"]:
        # At most all positions of 32 rows.
        assert 0 < row["rate"] * row["milliseconds"] / 1e3 < 32 * 32 + 1e-6


def test_examples_per_second_of_the_input_pipeline(tmp_path: Path, data: Path) -> None:
    (length,) = measured(tmp_path, "--part=input", f"--data={data}")["results"]
    names = [row["name"] for row in length["results"]]
    assert names == ["training tiny", "input, by piece", "input, by whole_word", "input, by span"]
    for row in length["results"]:
        assert row["rate"] * row["milliseconds"] / 1e3 == pytest.approx(32)
        assert row["times_rate"] > 0


def test_mask_unit_of_records_can_be_changed(tmp_path: Path, data: Path) -> None:
    from benchmarks.peers.dataset import with_mask_unit
    from bert_tf.data.input.tf import pretraining_dataset
    from bert_tf.data.manifest import read_manifest

    folder = with_mask_unit(data, "span", tmp_path / "span")
    assert (read_manifest(data).config.mask_unit, read_manifest(folder).config.mask_unit) == ("piece", "span")
    first, other = (
        next(iter(pretraining_dataset(path, "train", batch_size=4, seed=0)))[0]["mask_positions"].numpy().tolist()
        for path in (data, folder)
    )
    assert first != other

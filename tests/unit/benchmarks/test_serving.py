"""Tests the benchmark of serving: lengths of texts, and the names of sides that are missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import serving
from benchmarks.peers import requests
from benchmarks.peers.batches import VOCABULARY_SIZE
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.text.vocabulary import SPECIAL_TOKENS, load_vocabulary


def test_every_text_fills_a_row_without_unknown_words(tmp_path: Path) -> None:
    requests.write(tmp_path, 128)
    texts = json.loads((tmp_path / "texts.json").read_text("utf-8"))
    vocabulary = load_vocabulary(tmp_path / "vocab.txt")
    assert requests.SPECIAL_TOKENS == SPECIAL_TOKENS
    assert len(vocabulary) == VOCABULARY_SIZE
    rows = BertTokenizer(vocabulary).tokenize(texts)
    assert len(set(texts)) == len(texts)
    assert np.diff(rows.row_splits).tolist() == [126] * len(texts)
    assert vocabulary.unk_id not in rows.values
    words = sum(len(text.split()) for text in texts)
    assert 1.1 < 126 * len(texts) / words < 1.3


def test_mixed_texts_have_the_stated_lengths(tmp_path: Path) -> None:
    requests.write(tmp_path, 128)
    rows = BertTokenizer(load_vocabulary(tmp_path / "vocab.txt")).tokenize(requests.mixed_texts())
    lengths = np.diff(rows.row_splits) + 2
    assert (lengths.min(), lengths.max()) == (6, 128)
    assert 28 < lengths.mean() < 32
    assert np.median(lengths) < 26
    assert requests.mixed_texts(seed=1) != requests.mixed_texts() == requests.mixed_texts()


def test_batches_are_cyclic() -> None:
    batches = requests.endless(["a", "b", "c"], 2)
    assert [next(batches) for _ in range(3)] == [["a", "b"], ["c", "a"], ["b", "c"]]


def row(name: str, **facts: Any) -> dict[str, Any]:
    shapes = {"pooled_output": [1, 8], "mean_output": [1, 8]}
    return {
        "name": name, "batch_size": 1, "outputs": shapes, "milliseconds": 20.0, "milliseconds_range": [19.0, 30.0],
        "times_milliseconds": 1.5, "peak_bytes": 2e9, **facts,
    }  # fmt: skip


def test_peers_with_other_workloads_are_reported() -> None:
    rows = [row("bert_tf float32"), row("huggingface float32", tokens=128)]
    serving.check_alike(rows, 128)
    with pytest.raises(ValueError, match=r"128 tokens. Received: .*huggingface float32.*127"):
        serving.check_alike([rows[0], rows[1] | {"tokens": 127}], 128)
    with pytest.raises(ValueError, match=r"same outputs. Received: .*\[2, 8\]"):
        serving.check_alike([rows[0], rows[1] | {"outputs": {"pooled_output": [2, 8]}}], 128)


def test_the_table_is_markdown() -> None:
    titles, rule, line = serving.table([row("bert_tf int8", times_milliseconds=None)])
    assert line == "| bert_tf int8 | 1 | 20.0 | 19.0 - 30.0 |  | 2.0 |"
    assert titles.count("|") == rule.count("|") == line.count("|")


def test_missing_peers_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def export(preset: Path, precision: str, work: Path) -> Path:
        if precision == "int8":
            raise serving.LeftOutError("no int8 here")
        return work / precision / "1"

    monkeypatch.setattr(serving, "make_preset", lambda size, work: work)
    monkeypatch.setattr(serving, "export", export)
    found, left_out = serving.sides(serving.arguments([]), tmp_path)
    assert list(found) == ["bert_tf float32", "bert_tf bfloat16", "bert_tf bfloat16, packed weights"]
    assert found["bert_tf bfloat16, packed weights"] == [*found["bert_tf bfloat16"], "--packed_weights"]
    assert f"--model={tmp_path / 'float32' / '1'}" in found["bert_tf float32"]
    assert left_out == {"bert_tf int8": "no int8 here"} | dict.fromkeys(serving.PEERS, "no --torch_python")


def test_missing_packages_of_a_peer_environment_are_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', "utf-8")
    python.chmod(0o755)
    args = serving.arguments([f"--torch_python={python}"])
    with pytest.raises(serving.LeftOutError, match="ended with 1: ModuleNotFoundError: No module named 'onnxruntime'"):
        serving._peer("onnxruntime float32", args, tmp_path)


@pytest.mark.parametrize("flags", [["--length=7"], ["--length=513"], ["--rounds=0"]])
def test_arguments_out_of_range_are_refused(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        serving.arguments(flags)
    assert "Received: " in capsys.readouterr().err

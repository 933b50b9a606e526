"""Tests the counts of the input pipelines' benchmark, and the cores that feed a device."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import input_pipeline
from benchmarks.input_reader import Reading, read
from bert_tf.config import BertConfig
from bert_tf.data.input.numpy import pretraining_batches
from bert_tf.data.schema import MASK_POSITIONS, PADDING_MASK
from bert_tf.training.logging.flops import step_flops
from tests.support.training.data_directory import write_small_data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_data(tmp_path_factory.mktemp("input"))


@pytest.mark.parametrize("pipeline", [pytest.param("tensorflow", marks=pytest.mark.integration), "numpy"])
def test_examples_tokens_and_operations_are_counted(data: Path, pipeline: str) -> None:
    found = read(Reading(str(data), pipeline, "full", cores=1, batch=4, examples=12, size="tiny"))
    batches = iter(pretraining_batches(data, "train", batch_size=4, seed=1))
    inputs = [next(batches)[0] for _ in range(5)][2:]
    assert found["read"] == found["rows"] == 12
    assert found["tokens"] == sum(int(batch[PADDING_MASK].sum()) for batch in inputs)
    predictions = inputs[0][MASK_POSITIONS].shape[1]
    assert found["flops"] == pytest.approx(step_flops(BertConfig.from_size("tiny"), 12, 32, predictions))
    assert found["processor_seconds"] >= 0 and found["seconds"] > 0


def test_padding_changes_rows_and_operations_but_not_examples(data: Path) -> None:
    found = {
        padding: read(Reading(str(data), "numpy", padding, cores=1, batch=8, examples=128, size="tiny"))
        for padding in ("full", "bins", "pack")
    }
    assert {row["read"] for row in found.values()} == {128}
    assert found["pack"]["rows"] < found["bins"]["rows"] == found["full"]["rows"] == 128
    assert found["pack"]["flops"] < found["full"]["flops"] and found["bins"]["flops"] < found["full"]["flops"]


def test_cores_follow_from_the_rates_of_both_sides() -> None:
    result = {"flops": 3e12, "read": 100, "processor_seconds": 0.5}
    needs = input_pipeline.needs(result, mfu=0.4)
    # One example takes 3e10 operations; a core gives 200 of them per second.
    expected = np.array([989.4e12, 989.4e12, 8 * 197e12, 8 * 312e12]) * 0.4 / 3e10
    names = ("H200", "H100", "v5e-8", "8 A100")
    np.testing.assert_allclose([needs[name]["examples_per_second"] for name in names], expected)
    np.testing.assert_allclose([needs[name]["cores"] for name in names], expected / 200)


def test_table_has_a_line_for_each_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(reading: Reading) -> dict[str, Any]:
        counts = {"flops": 3e12, "read": 100, "tokens": 6_000, "processor_seconds": 0.5}
        return {"length": 128, "masking": "dynamic", "padding": reading.padding, "pipeline": reading.pipeline,
                "cores": reading.cores} | counts  # fmt: skip

    monkeypatch.setattr(input_pipeline, "measured", measured)
    arguments = ["--data", "data", "--padding", "pack", "--pipelines", "numpy", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["input_pipeline", *arguments])
    input_pipeline.main()
    lines = capsys.readouterr().out.splitlines()
    assert "| 128 | dynamic | pack | numpy | 1 | 200 | 12,000 | 65.96 | 65.96 | 105.07 | 166.40 |" in lines
    saved = json.loads((tmp_path / "input_pipeline.json").read_text(encoding="utf-8"))
    assert [row["cores"] for row in saved["results"]] == [1, 2] and saved["mfu"] == 0.4


@pytest.mark.parametrize("flags", [["--mfu", "0"], ["--cores", "0"], ["--examples", "0"]])
def test_impossible_settings_are_refused(flags: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["input_pipeline", "--data", "data", *flags])
    with pytest.raises(SystemExit):
        input_pipeline.main()

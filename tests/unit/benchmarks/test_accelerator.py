"""Tests the rows, the roofline and the tables of the benchmark of accelerators; no model is trained."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import accelerator, step_row
from benchmarks.devices import Device, Roofline, find_device, step_bytes
from benchmarks.step_row import Row
from bert_tf.config import BertConfig
from bert_tf.data.input.packing import pack_batch
from bert_tf.data.schema import MASK_POSITIONS, MLM_LOGITS, NSP_LOGITS, PADDING_MASK, TOKEN_IDS


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-80GB", "A100 80 GB"),
        ("TPU v5 lite", "TPU v5e"),
        ("TPU v5", "TPU v5p"),
        ("TPU v6 lite", "TPU v6e"),
    ],
)
def test_devices_are_found_by_the_names_of_their_drivers(kind: str, name: str) -> None:
    found = find_device(kind)
    assert found and found.name == name


@pytest.mark.parametrize(
    "kind", ["cpu", "NVIDIA L40S", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H200 NVL", "NVIDIA A100-SXM4-40GB"]
)
def test_unknown_devices_and_other_variants_have_no_rates(kind: str) -> None:
    assert find_device(kind) is None


def test_roofline_is_the_lower_of_both_rates() -> None:
    peak, bandwidth = 1e12, 1e11
    bytes_moved = np.array([1e9, 4e9, 5e9, 1e11])
    flops = 4e10
    rooflines = [Roofline(flops, moved, peak, bandwidth) for moved in bytes_moved]
    attainable = np.minimum(peak, flops / bytes_moved * bandwidth)
    np.testing.assert_allclose([line.seconds for line in rooflines], flops / attainable)
    ridge = Device("device", {"float32": peak}, bandwidth, "").ridge("float32")
    assert ridge == 10
    expected = np.where(flops / bytes_moved >= ridge, "compute", "memory")
    assert [line.bound for line in rooflines] == expected.tolist()


def test_bytes_of_a_step_are_those_of_its_arrays() -> None:
    config = BertConfig.from_size("tiny", vocabulary_size=100)
    rows, length, predictions = 3, 16, 2
    hidden, inner = np.zeros((rows, length, 128), np.float16), np.zeros((rows, length, 512), np.float16)
    scores = np.zeros((rows, config.num_heads, length, length), np.float32)
    weights = scores.astype(np.float16)
    logits = np.zeros((rows, predictions, 100), np.float32)
    parameters = np.zeros(config.num_parameters, np.float32)
    linear = 8 * hidden.nbytes + 2 * inner.nbytes
    common = 5 * logits.nbytes + 11 * parameters.nbytes
    plain = 2 * 5 * (linear + scores.nbytes + weights.nbytes) + common
    assert step_bytes(config, rows, length, predictions, width=2) == plain
    assert step_bytes(config, rows, length, predictions, width=2, fused=True) == 2 * 5 * linear + common
    again = step_bytes(config, rows, length, predictions, width=2, fused=True, rematerialize=True)
    assert again == 2 * 7 * linear + common


def test_examples_follow_the_form_of_the_input_pipeline() -> None:
    row = Row("tiny", 40, 50, padding="pack")
    inputs, targets, weights = batch = step_row.examples(row)
    lengths = inputs[PADDING_MASK].sum(axis=1)
    assert 8 <= lengths.min() < lengths.max() <= 40
    assert ((inputs[TOKEN_IDS] > 0) == (inputs[PADDING_MASK] > 0)).all()
    predicted = weights[MLM_LOGITS] > 0
    assert predicted.sum(axis=1).tolist() == np.maximum(1, np.round(0.15 * lengths)).tolist()
    for number in range(row.batch):
        positions = inputs[MASK_POSITIONS][number][predicted[number]]
        assert len(set(positions.tolist())) == len(positions) and positions.max() < lengths[number]
    packed = pack_batch(*batch)
    assert packed[0][PADDING_MASK].sum() == lengths.sum() and len(packed[0][PADDING_MASK]) < row.batch
    assert packed[2][NSP_LOGITS].sum() == row.batch and targets[MLM_LOGITS].shape == (50, 6)


def test_rates_of_a_packed_batch_count_its_tokens_and_rows() -> None:
    row = Row("tiny", 32, 8, precision="float32", padding="pack")
    batch = pack_batch(*step_row.examples(row))
    found = step_row.rates(row, batch, 0.5, Device("device", {"float32": 1e12}, 1e11, "a test"))
    assert found["rows"] < 8 and found["sequences_per_second"] == 16
    assert found["tokens_per_second"] == 2 * batch[0][PADDING_MASK].sum()
    assert found["mfu"] == pytest.approx(found["flops"] / 0.5 / 1e12)
    assert found["intensity"] == pytest.approx(found["flops"] / found["bytes"])


RESULT = {
    "seconds": 0.25, "sequences_per_second": 256.0, "tokens_per_second": 20_000.0, "mfu": 0.4, "peak_bytes": 12.5e9,
    "peak_of": "device", "intensity": 150.0, "bound": "memory", "roofline_seconds": 0.1, "device": "H100",
    "peak_flops": 989.4e12, "bandwidth": 3.35e12, "ridge": 295.3, "peak_source": "a test",
}  # fmt: skip


def run(arguments: list[str], output: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["accelerator", "--output", str(output), *arguments])
    return accelerator.main()


def test_rows_without_memory_are_reported_and_later_ones_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(row: Row, timeout: float) -> dict[str, Any]:
        fields = {"name": row.name, "precision": row.precision}
        if row.attention == "plain":
            return fields | {"error": accelerator.failure(1, "RESOURCE_EXHAUSTED: Out of memory while trying to")}
        return fields | RESULT

    monkeypatch.setattr(accelerator, "measured", measured)
    only = ["--sizes", "large", "--lengths", "512", "--precisions", "bfloat16", "--rematerialize", "on"]
    assert run([*only, "--padding", "full"], tmp_path, monkeypatch) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "| large, 64 x 512, bfloat16, plain, remat, full | out of memory | | | | | | |" in lines
    row = "| large, 64 x 512, bfloat16, fused, remat, full | 250.0 | 256.0 | 20,000 | 40.0% | 12.50 | 150 "
    assert f"{row}| memory, 100.0 ms |" in lines
    assert any("989.40 TFLOP/s" in line and "ridge point 295" in line for line in lines)
    saved = json.loads((tmp_path / "accelerator_step.json").read_text(encoding="utf-8"))["results"]
    assert [row.get("error") for row in saved] == ["out of memory", None]
    assert len((tmp_path / "accelerator_step.jsonl").read_text(encoding="utf-8").splitlines()) == 2


def test_other_failures_change_the_exit_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "measured", lambda row, timeout: {"name": row.name, "error": "no such device"})
    assert run(["--sizes", "tiny"], tmp_path, monkeypatch) == 1


def test_failures_are_told_apart() -> None:
    assert accelerator.failure(-9, "") == "out of memory"
    assert accelerator.failure(1, "Traceback\nConfigError: no size") == "ConfigError: no size"


@pytest.mark.parametrize("flags", [["--repetitions", "0"], ["--batch", "0"], ["--compile_only"]])
def test_settings_that_cannot_be_measured_are_refused(flags: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setattr(sys, "argv", ["accelerator", *flags])
    with pytest.raises(SystemExit):
        accelerator.main()

"""Comparison of pre-training runs, and the shares of an optimizer's step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import curves, optimizers, time_to_quality
from benchmarks.peers import quality


def write_run(output: Path, perplexities: dict[int, float]) -> Path:
    output.mkdir()
    lines = [{"split": "train", "step": 1, "seconds_per_step": 0.25}]
    lines += [
        {"split": "validation", "step": step, "mlm_perplexity": value, "mlm_accuracy": 0.2, "nsp_accuracy": 0.7}
        for step, value in perplexities.items()
    ]
    (output / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return output


def test_seeds_of_a_run_are_averaged(tmp_path, capsys, monkeypatch):
    runs = [write_run(tmp_path / name, {250: 900, 1000: last}) for name, last in (("one", 100), ("two", 120))]
    other = write_run(tmp_path / "other", {250: 800, 500: 400, 1000: 300})
    arguments = [f"muon={runs[0]},{runs[1]}", f"adamw={other}", "--output", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", ["curves", *arguments])
    curves.main()
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert rows[0][:4] == ["run", "seeds", "perplexity at 250", "perplexity at 1,000"]
    assert rows[2] == ["muon", "2", "900", "110", "100.0, 120.0", "20.0%", "70.0%", "250"]
    assert rows[3][:5] == ["adamw", "1", "800", "300", "300.0"]
    drawn = (tmp_path / "out/curves.svg").read_text()
    assert drawn.count("<polyline") == 2
    assert "muon, step 1,000: 110" in drawn


def test_runs_with_other_evaluations_are_refused(tmp_path):
    runs = [write_run(tmp_path / name, {step: 100}) for name, step in (("one", 250), ("two", 500))]
    with pytest.raises(ValueError, match=r"muon: .* same steps. Received: \[\[250\], \[500\]\]"):
        curves.read_curve("muon", runs)


def test_share_of_an_optimizer_grows_with_fewer_tokens_and_shrinks_if_divided():
    seconds = {"backward": 2.0, "adamw": 0.1, "lamb": 0.1, "muon": 1.0}
    assert optimizers.share(seconds, 1024) == pytest.approx(1 / 3)
    assert optimizers.share(seconds, 8 * 1024) == pytest.approx(1 / 17)
    assert optimizers.share(seconds, 1024, 1 / 8) == pytest.approx(0.125 / 2.125)
    row = optimizers.table({"tiny": seconds}).splitlines()[2]
    assert row.startswith("| tiny | 2,000.0 | 100.0 | 100.0 | 1,000.0 | 11.1% |")


def test_seconds_to_a_perplexity_are_interpolated():
    points = {
        time_to_quality.OURS: [(10.0, 500.0), (20.0, 300.0), (30.0, 100.0)],
        "keras_hub 0.001": [(40.0, 600.0), (80.0, 400.0)],
        "huggingface 5e-05": [(30.0, 800.0), (60.0, 700.0)],
    }
    assert time_to_quality.seconds_to(points[time_to_quality.OURS], 400.0) == 15.0
    lines = time_to_quality.table(points)
    assert "perplexity 400.0, the end of keras_hub 0.001" in lines[0]
    assert lines[-3:] == [
        "| bert_tf | 100.0 | 30 | 15 | 1.0 |",
        "| keras_hub 0.001 | 400.0 | 80 | 80 | 5.3 |",
        "| huggingface 5e-05 | 700.0 | 60 | not reached |  |",
    ]


def test_rates_of_the_peers_rise_and_fall_to_zero():
    rates = [quality.rate_at(step, 100, 2.0) for step in range(100)]
    assert max(rates) == rates[9] == rates[10] == 2.0
    assert rates[0] == pytest.approx(0.2)
    assert rates[-1] == pytest.approx(2 / 90)

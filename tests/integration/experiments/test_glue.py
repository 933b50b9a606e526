"""`bert-tf glue` with a tiny preset on two tiny tasks, from the command line to the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bert_tf.cli import main
from tests.support.experiments.glue_samples import write_glue
from tests.support.tasks.text_examples import write_preset


def test_two_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    preset = write_preset(tmp_path / "preset")
    data = write_glue(tmp_path / "GLUE", ("sst2", "stsb"))
    argv = ["glue", "--preset", preset, "--data", data, "--output", tmp_path / "out", "--rates", "1e-3",
            "--set", "training.epochs=1"]  # fmt: skip
    assert main([*map(str, argv), "--plan"]) == 0
    assert "0 runs finished, 2 to execute" in capsys.readouterr().err and not (tmp_path / "out/glue.json").exists()
    summaries = []
    for _ in range(2):
        assert main([str(argument) for argument in argv]) == 0
        summaries.append(json.loads(capsys.readouterr().out.splitlines()[-1]))
    first, second = (summary["scores"] for summary in summaries)
    assert first == second and set(first) == {"sst2", "stsb"}
    lines = (tmp_path / "out/submission/SST-2.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction" and len(lines) == 10
    assert (tmp_path / "out/glue.html").is_file() and summaries[0]["submission"] is None
    # Another preset is fine-tuned with the same settings and compared.
    assert main([*map(str, argv), "--compare", str(preset)]) == 0
    captured = capsys.readouterr()
    assert f"compared with {preset}" in captured.err and f"compared with {preset} (95%" in captured.out
    comparisons = json.loads((tmp_path / "out/glue.json").read_text())["comparisons"]
    assert {one["difference"] for one in comparisons.values()} == {0.0} and set(comparisons) == {"sst2", "stsb"}
    assert (tmp_path / "out/compared/glue.html").is_file()
    record = json.loads((tmp_path / "out/runs/sst2/learning_rate_0.001_seed_12345.json").read_text())
    assert record["command"].startswith("bert-tf finetune sst2") and record["result"]["dev_examples"] == 60

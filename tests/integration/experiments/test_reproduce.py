"""`bert-tf reproduce` on tiny data, from the command line to the page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bert_tf.cli import main
from bert_tf.commands.experiments import reproduce
from bert_tf.commands.experiments.in_process import run_command
from bert_tf.config import DataConfig
from bert_tf.experiments.runs import Run
from tests.support.data.samples import make_vocabulary, write_directory

SIZES = {"train": [60, 20], "validation": [8]}


@pytest.fixture
def directories(tmp_path: Path) -> tuple[Path, Path]:
    """Pre-training data, and task data with SICK only."""
    data, tasks = tmp_path / "data", tmp_path / "tasks"
    data.mkdir()
    write_directory(data, DataConfig(max_seq_length=32, max_predictions_per_seq=5), make_vocabulary(), SIZES)
    random = np.random.default_rng(0)
    lines = ["pair_ID\tsentence_A\tsentence_B\tentailment_judgment"]
    for number in range(60):
        texts = [" ".join(f"w{word}" for word in random.integers(0, 400, 5)) for _ in range(2)]
        lines.append("\t".join([str(number), *texts, ("NEUTRAL", "ENTAILMENT", "CONTRADICTION")[number % 3]]))
    (tasks / "sick").mkdir(parents=True)
    (tasks / "sick" / "SICK.txt").write_text("\n".join(lines) + "\n")
    return data, tasks


def test_table5_from_the_command_line_to_the_page(directories, tmp_path, capsys, monkeypatch):
    data, tasks = directories
    executed: list[str] = []

    def in_process(run: Run):
        executed.append(run.name)
        return run_command(run.command)

    # A process for each run would take minutes.
    monkeypatch.setattr(reproduce, "run_subprocess", in_process)
    settings = ["training.batch_size=8", "training.warmup_steps=1", "model.num_layers=1", "model.hidden_dim=32"]
    argv = ["reproduce", "table5", "--data", data, "--tasks", tasks, "--output", tmp_path / "out", "--seeds", "1",
            "--steps", "5", "--set", *settings]  # fmt: skip
    assert main([*map(str, argv), "--plan"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["finished"] == 0 and not executed
    summaries = []
    for _ in range(2):
        assert main([str(argument) for argument in argv]) == 0
        summaries.append(json.loads(capsys.readouterr().out.splitlines()[-1]))
    # Three pre-training runs and four rows with one column; the second command repeats none.
    assert len(executed) == summaries[1]["finished"] == 7
    assert set(summaries[0]["missing"]) == {"QNLI", "MRPC", "SST-2", "SQuAD F1"}
    result = json.loads((tmp_path / "out" / "table5.json").read_text())
    values = {cell["row"]: cell["values"] for cell in result["cells"] if cell["column"] == "MNLI-m"}
    assert set(map(len, values.values())) == {1} and len(values) == 4
    assert all(one["interval"] for one in result["compared"] if one["column"] == "MNLI-m")
    page = tmp_path / "out" / "table5.html"
    page.unlink()
    assert main([*map(str, argv), "--report"]) == 0
    assert page.is_file() and len(executed) == 7
    # Neither checkpoints nor presets of fine-tuning runs are kept.
    left = {path.name for path in (tmp_path / "out" / "finetuning").glob("*/*/*/*")}
    assert {"dev", "result.json"} <= left and not left & {"checkpoints", "preset"}


def test_other_settings_in_the_output_are_named(directories, tmp_path, capsys, monkeypatch):
    data, tasks = directories
    monkeypatch.setattr(reproduce, "run_subprocess", lambda run: {"mlm_perplexity": 2.0, "metrics": {}})
    argv = ["reproduce", "figure5", "--data", data, "--tasks", tasks, "--output", tmp_path / "out", "--seeds", "1"]
    (tasks / "sick" / "SICK.txt").unlink()
    assert main([*map(str, argv), "--steps", "5"]) == 0
    capsys.readouterr()
    assert main([*map(str, argv), "--steps", "10"]) == 1
    assert "steps 5 (now 10)" in capsys.readouterr().err

"""Fine-tuning on texts through the command line, from files to metrics."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bert_tf.cli import main
from bert_tf.models import load_preset
from bert_tf.tasks.finetune.run import PROBLEMS_NAME
from tests.support.tasks.text_examples import write_lines, write_preset

Run = Callable[..., dict[str, Any]]
SETTINGS = ("--set", "training.learning_rate=3e-3", "training.epochs=3", "training.batch_size=16")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_preset(tmp_path_factory.mktemp("encoder") / "preset")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*argv: object) -> dict[str, Any]:
        assert main([str(argument) for argument in argv]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return call


def texts(label: str, count: int, chooser: random.Random, words: int = 5) -> list[str]:
    """Returns texts whose letters determine their label."""
    letters = {"x": "abcdefgh", "neutral": "ijklm", "entailment": "vwxy"}.get(label, "nopqrstu")
    return [" ".join(chooser.choices(letters, k=words)) for _ in range(count)]


@pytest.mark.slow
def test_mnli_evaluates_mismatched_and_diagnostic_sets(encoder: Path, tmp_path: Path, run: Run) -> None:
    chooser, data = random.Random(0), tmp_path / "MNLI"
    data.mkdir()
    for name, count in (("train", 40), ("dev_matched", 10), ("dev_mismatched", 10)):
        rows = [
            f"{label}\t{premise}\t{hypothesis}"
            for label in ("neutral", "entailment", "contradiction")
            for premise, hypothesis in zip(texts("x", count, chooser), texts(label, count, chooser), strict=True)
        ]
        numbered = (f"{number}\t{row}" for number, row in enumerate(rows))
        write_lines(data / f"{name}.tsv", "index\tgold_label\tsentence1\tsentence2", *numbered)
    with (data / "train.tsv").open("a") as file:
        file.write("120\tneutral\ta\n")
    output = tmp_path / "run"
    longer = (*SETTINGS, "training.epochs=12")
    summary = run("finetune", "mnli", "--preset", encoder, "--data", data, "--output", output, "--skip_bad", *longer)
    assert summary["metrics"]["accuracy"] > 0.8 and summary["metrics"]["accuracy_mismatched"] > 0.8
    assert summary["skipped"] == 1
    assert (output / PROBLEMS_NAME).read_text() == f"{data}/train.tsv: line 122\texpected 4 columns. Received: 3\n"
    for name, dev, figure in (
        ("predictions.tsv", "dev_matched.tsv", "accuracy"),
        ("mismatched_predictions.tsv", "dev_mismatched.tsv", "accuracy_mismatched"),
    ):
        scored = run("score", "mnli", "--data", data / dev, "--predictions", output / "dev" / name)
        assert scored["metrics"]["accuracy"] == summary["metrics"][figure]
    write_lines(tmp_path / "diagnostic.tsv", "index\tsentence1\tsentence2", "0\ta b\tk l j", "1\ta b\tv x w")
    run("predict", "--preset", output, "--input", tmp_path / "diagnostic.tsv", "--output", tmp_path / "AX.tsv")
    assert (tmp_path / "AX.tsv").read_text() == "index\tprediction\n0\tneutral\n1\tentailment\n"


@pytest.mark.slow
def test_left_to_right_encoder(tmp_path: Path, run: Run) -> None:
    """In a left-to-right encoder, [CLS] precedes the text and is the same for all texts."""
    chooser, data = random.Random(1), tmp_path / "SST-2"
    data.mkdir()
    for name, count in (("train", 60), ("dev", 20)):
        rows = [f"{text}\t{label}" for label, kind in (("0", "x"), ("1", "")) for text in texts(kind, count, chooser)]
        write_lines(data / f"{name}.tsv", "sentence\tlabel", *rows)
    encoder = write_preset(tmp_path / "encoder", attention="left_to_right")
    output = tmp_path / "run"
    argv = ("finetune", "sst2", "--preset", encoder, "--data", data, "--output", output, *SETTINGS)
    assert run(*argv)["metrics"]["accuracy"] > 0.8
    assert run("inspect", output)["task"]["pooling"] == "last"


@pytest.mark.slow
def test_windows_and_class_weights(encoder: Path, tmp_path: Path, run: Run) -> None:
    """The words that determine the label are beyond the first row of a text."""
    chooser, data = random.Random(0), tmp_path / "data"
    data.mkdir()
    for name, count in (("train.csv", 40), ("dev.csv", 10)):
        rows = [
            f'{label},"{"z " * 18}{text}"'
            for label, share in (("x", 1), ("rare", 0.25))
            for text in texts(label, int(count * share), chooser, 14)
        ]
        write_lines(data / name, "label,text", *rows)
    flags = ("--pooling", "mean", "--windows", "--class_weights", "balanced")
    output = tmp_path / "run"
    summary = run("finetune", "classify", "--preset", encoder, "--data", data, "--output", output, *flags, *SETTINGS)
    assert summary["metrics"]["macro_f1"] > 0.8
    tuned = load_preset(output)
    assert tuned.task["label_weights"] == [50 / (2 * 10), 50 / (2 * 40)] and tuned.model.pooling == "mean"
    assert not tuned.config.pooler
    cut = run("finetune", "classify", "--preset", encoder, "--data", data, "--output", tmp_path / "cut", *SETTINGS)
    assert cut["metrics"]["macro_f1"] < 0.6


@pytest.mark.slow
def test_regression(encoder: Path, tmp_path: Path, run: Run) -> None:
    chooser = random.Random(0)
    for name, count in (("train.jsonl", 100), ("dev.jsonl", 20)):
        rows = [
            (text, 1000 + 10 * text.count("a")) for text in (" ".join(chooser.choices("ab", k=8)) for _ in range(count))
        ]
        write_lines(tmp_path / name, *(json.dumps({"text": text, "price": price}) for text, price in rows))
    flags = ("--regression", "--label_column", "price", "--pooling", "mean")
    output = tmp_path / "run"
    summary = run(
        "finetune", "classify", "--preset", encoder, "--data", tmp_path, "--output", output, *flags, *SETTINGS
    )
    assert summary["metrics"]["pearson"] > 0.8 and summary["metrics"]["mse"] < 15**2
    predictions = output / "dev/predictions.jsonl"
    scored = run("score", "classify", *flags[:3], "--data", tmp_path / "dev.jsonl", "--predictions", predictions)
    assert scored["metrics"] == pytest.approx(summary["metrics"], rel=1e-6)

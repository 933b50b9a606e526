"""All commands in sequence on a corpus of a few hundred documents."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bert_tf.cli import main
from bert_tf.data.input import pretraining_data
from bert_tf.data.manifest import read_manifest
from bert_tf.pretraining.course import constant_guess_accuracy

pytestmark = pytest.mark.smoke

TUNING = ("training.learning_rate=3e-3", "training.epochs=15")
KEEPING = ("training.checkpoint_every=6", "training.keep_checkpoints=1", "training.keep_every=6")
PRETRAINING = ("--steps", 12, "--set", "training.batch_size=16", *KEEPING)
Run = Callable[..., dict[str, Any]]

TOPICS = {
    "sea": ["wave", "boat", "fish", "salt", "deep", "water", "sail", "wind", "tide", "shore", "gull", "net"],
    "wood": ["tree", "leaf", "moss", "bird", "root", "branch", "path", "deer", "shade", "nest", "green", "bark"],
}
MODEL = {"hidden_dim": 32, "num_layers": 1, "num_heads": 2, "intermediate_dim": 64, "max_sequence_length": 64}


def pretraining(folder: Path) -> list[object]:
    paths = ["--data", folder / "data", "--model", folder / "model.json", "--output", folder / "run"]
    return ["pretrain", *paths, *PRETRAINING]


def sentence(topic: str, chooser: random.Random) -> str:
    words = chooser.choices(TOPICS[topic], k=chooser.randint(5, 9))
    return f"The {' '.join(words)}."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, a labelled set and a model configuration."""
    folder, chooser = tmp_path_factory.mktemp("path"), random.Random(3)
    documents = [
        "\n".join(sentence(topic, chooser) for _ in range(chooser.randint(3, 8)))
        for topic in TOPICS
        for _ in range(150)
    ]
    (folder / "corpus.txt").write_text("\n\n".join(documents) + "\n")
    (folder / "task").mkdir()
    for name, count in (("train.tsv", 96), ("dev.tsv", 40)):
        rows = [f"{topic}\t{sentence(topic, chooser)}" for _ in range(count // 2) for topic in TOPICS]
        (folder / "task" / name).write_text("\n".join(["label\ttext", *rows]) + "\n")
    (folder / "model.json").write_text(json.dumps(MODEL))
    (folder / "lines.txt").write_text("The boat and the [MASK].\nThe tree and the leaf.\n")
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*argv: object) -> dict[str, Any]:
        assert main([str(argument) for argument in argv]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return call


@pytest.fixture(scope="module")
def home(folder: Path) -> Path:
    """Returns `folder` with vocabulary, data and a pre-trained run."""
    corpus = ["--input", folder / "corpus.txt", "--format", "text"]
    for argv in (
        ["vocab", *corpus, "--vocabulary_size", 120, "--output", folder / "vocab.txt"],
        ["data", *corpus, "--vocabulary", folder / "vocab.txt", "--output", folder / "data", "--max_seq_length", 32,
         "--max_predictions_per_seq", 5, "--validation_fraction", 0.2],
        pretraining(folder),
        ["finetune", "classify", "--preset", folder / "run", "--data", folder / "task", "--output", folder / "tuned",
         "--max_seq_length", 32, "--set", *TUNING],
    ):  # fmt: skip
        assert main([str(argument) for argument in argv]) == 0
    return folder


def test_data_is_complete(home: Path, run: Run) -> None:
    summary = run("inspect", home / "data")
    assert summary["kind"].startswith("pre-training data")
    assert summary["examples"]["train"] > 100
    assert summary["examples"]["validation"] > 10
    assert sum(summary["labels"].values()) == sum(summary["examples"].values())


def test_pretrain_returns_a_finished_run(home: Path, run: Run) -> None:
    argv = pretraining(home)
    first, second = run(*argv), run(*argv)
    assert first["step"] == 12
    assert first["weights_sha256"] == second["weights_sha256"]
    assert {"loss", "tokens_per_second", "mlm_loss", "nsp_accuracy", "seconds", "output"} <= first.keys()


def test_a_damaged_shard_is_named_in_one_line(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = shutil.copytree(home / "data", tmp_path / "data")
    evaluation = ["evaluate", "--preset", home / "run", "--data", data]
    training = ["pretrain", "--data", data, "--model", home / "model.json", "--output", tmp_path / "run", "--steps", 2]
    for argv, split in ((evaluation, "validation"), (training, "train")):
        (shard,) = data.glob(f"{split}-*.tfrecord")
        content = bytearray(shard.read_bytes())
        shard.write_bytes(content[:20] + b"?" + content[21:])
        for verify in ("once", "never"):
            assert main([str(argument) for argument in (*argv, "--verify", verify)]) == 1
            line = next(line for line in capsys.readouterr().err.splitlines() if line.startswith("bert-tf: error: "))
            assert f"{shard}: record 0 at byte 0: " in line
        shard.write_bytes(content)


@pytest.mark.slow
def test_two_lengths_in_one_run(home: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six steps of the shorter examples, two of the longer ones; stopped before the change and at it."""
    taken = []

    def noted(data: Path, split: str, **settings: Any) -> Any:
        taken.append((data.name, split, settings.get("start_step", 0)))
        return pretraining_data(data, split, **settings)

    monkeypatch.setattr("bert_tf.pretraining.course.pretraining_data", noted)
    run("data", "--input", home / "corpus.txt", "--format", "text", "--vocabulary", home / "vocab.txt",
        "--output", home / "both", "--max_seq_length", "16,32", "--validation_fraction", 0.2)  # fmt: skip
    settings = [
        "training.batch_size=16",
        "training.checkpoint_every=3",
        "training.long_share=0.25",
        "training.show_examples=0",
    ]
    paths = ["--data", home / "both", "--model", home / "model.json", "--output", home / "long"]
    argv = ["pretrain", *paths, "--steps", 8, "--set", *settings, "training.keep_checkpoints=9"]
    whole = run(*argv)
    # The first reading is for the metrics of chance, the last one of the example that the preset records.
    chance, longer = ("length-32", "validation", 0), [("length-32", "train", 0), ("length-16", "validation", 0)]
    assert taken == [chance, ("length-16", "train", 0), *longer]
    for left, expected in (((3, 6), longer), ((3,), [("length-16", "train", 3), *longer])):
        for step in {3, 6, 8} - set(left):
            shutil.rmtree(home / f"long/checkpoints/step-{step:08d}")
        taken.clear()
        again = run(*argv)
        assert taken == [chance, *expected]
        assert again["weights_sha256"] == whole["weights_sha256"]
        assert again["mlm_loss"] == whole["mlm_loss"]


def test_another_configuration_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*map(str, pretraining(home)), "training.seed=9"]) == 1
    assert "training.seed" in capsys.readouterr().err


def test_inspect_counts_parameters_and_records(home: Path, run: Run) -> None:
    summary = run("inspect", home / "run")
    assert sum(summary["parameters_by_block"].values()) == summary["parameters"]
    assert {"embeddings", "layer_1", "pooler", "mlm_logits", "nsp_logits"} == set(summary["parameters_by_block"])
    shard = next((home / "data").glob("train-*.tfrecord"))
    records = run("inspect", shard)
    assert records["examples"] == {shard.name: run("inspect", home / "data")["examples"]["train"]}
    assert set(records["features of the first"]) == {"input_ids", "segment_lengths", "next_sentence_labels"}


def test_inspect_refuses_an_unknown_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path)]) == 1
    assert "must be a data directory" in capsys.readouterr().err


def test_evaluate_accepts_a_run_or_a_preset(home: Path, run: Run) -> None:
    figures = [
        run("evaluate", "--preset", path, "--data", home / "data") for path in (home / "run", home / "run/preset")
    ]
    keys = ("mlm_loss", "mlm_accuracy", "mlm_perplexity", "nsp_accuracy")
    assert [figures[0][key] for key in keys] == [figures[1][key] for key in keys]
    assert figures[0]["split"] == "validation"
    assert 0 < figures[0]["mlm_loss"] < 10


def test_steps_of_a_run_are_evaluated_and_averaged(home: Path, run: Run, tmp_path: Path) -> None:
    steps = [f"{home / 'run'}@{step}" for step in (6, 12)]
    losses = [run("evaluate", "--preset", path, "--data", home / "data")["loss"] for path in (*steps, home / "run")]
    assert losses[1] == losses[2] != losses[0]
    run("average", "--preset", *steps, "--output", tmp_path / "mean")
    assert run("evaluate", "--preset", tmp_path / "mean", "--data", home / "data")["loss"] not in losses
    assert run("inspect", tmp_path / "mean")["info"] == {"average_of": steps}


def test_a_directory_of_transformers_is_fine_tuned(home: Path, run: Run, tmp_path: Path) -> None:
    """The run equals one on the converted preset, and its checkpoints hold the task."""
    run("convert", "--source", "preset", f"{home / 'run'}@12", "--target", "huggingface", tmp_path / "other")
    argv = [
        "--data",
        home / "task",
        "--max_seq_length",
        32,
        "--set",
        "training.epochs=1",
        "training.checkpoint_every=3",
    ]
    tuned = [
        run("finetune", "classify", "--preset", preset, "--output", tmp_path / name, *argv)
        for name, preset in (("a", f"hf:{tmp_path / 'other'}"), ("b", home / "run"))
    ]
    assert tuned[0]["metrics"] == tuned[1]["metrics"]
    files = [tmp_path / f"{name}.jsonl" for name in ("run", "step")]
    for preset, file in zip(("a", "a@3"), files, strict=True):
        run("predict", "--preset", tmp_path / preset, "--input", home / "task/dev.tsv", "--output", file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_evaluate_prints_a_table_before_the_summary(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["evaluate", "--preset", str(home / "run"), "--data", str(home / "data")]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    summary, rows = json.loads(last), {line.split()[0]: line.split()[1:] for line in lines if line}
    examples = read_manifest(home / "data").examples("validation")
    assert lines[0].startswith(f"{home / 'data'}: {examples} examples of the validation split")
    accuracy, chance, published = rows["mlm_accuracy"]
    assert accuracy == f"{summary['mlm_accuracy']:.2%}"
    assert chance == f"{constant_guess_accuracy(home / 'data', 'validation'):.2%}"
    assert (published, rows["nsp_accuracy"][-1]) == ("-", "97.00%")


def test_evaluate_refuses_another_vocabulary(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = ["--input", home / "corpus.txt", "--format", "text"]
    assert main([str(a) for a in ["vocab", *corpus, "--vocabulary_size", 60, "--output", tmp_path / "v.txt"]]) == 0
    assert (
        main([str(a) for a in ["data", *corpus, "--vocabulary", tmp_path / "v.txt", "--output", tmp_path / "d"]]) == 0
    )
    assert main(["evaluate", "--preset", str(home / "run"), "--data", str(tmp_path / "d")]) == 1
    assert "vocabulary" in capsys.readouterr().err


def test_finetune_trains_a_classifier(home: Path, run: Run) -> None:
    argv = ["finetune", "classify", "--preset", home / "run", "--data", home / "task", "--output", home / "tuned",
            "--max_seq_length", 32, "--set", *TUNING]  # fmt: skip
    summary = run(*argv)
    assert summary["dev_examples"] == 40
    assert summary["metrics"]["accuracy"] > 0.8
    assert run("inspect", home / "tuned")["task"]["labels"] == ["sea", "wood"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--set", "training.steps=5"], "`training.steps` has no effect here"),
        (["--set", "model.dropout=0.5"], "unknown section `model`"),
        (["--max_seq_length", "65"], "must not exceed the model's 64 positions. Received: 65"),
        (["--text_columns", "a", "b", "c"], "takes one or two names"),
        (["--label_column", "topic"], "line 1: no column `topic`"),
    ],
)
def test_finetune_refuses_flags_without_effect(
    home: Path, tmp_path: Path, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [
        "finetune",
        "classify",
        "--preset",
        home / "run",
        "--data",
        home / "task",
        "--output",
        tmp_path / "o",
        *flags,
    ]
    assert main([str(argument) for argument in argv]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_pretrain_refuses_epochs(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*map(str, pretraining(home)), "training.epochs=3"]) == 1
    assert "`training.epochs` has no effect here" in capsys.readouterr().err


def test_predict_fills_masks_and_classifies(home: Path, run: Run, tmp_path: Path) -> None:
    filled, classes = tmp_path / "filled.jsonl", tmp_path / "classes.jsonl"
    run("predict", "--preset", home / "run", "--input", home / "lines.txt", "--output", filled, "--top_k", 3)
    rows = [json.loads(line) for line in filled.read_text().splitlines()]
    assert [len(row["masks"]) for row in rows] == [1, 0]
    assert len(rows[0]["masks"][0]) == 3
    run("predict", "--preset", home / "tuned", "--input", home / "lines.txt", "--output", classes, "--batch_size", 1)
    rows = [json.loads(line) for line in classes.read_text().splitlines()]
    assert [row["label"] for row in rows] == ["sea", "wood"]
    assert rows[0]["text"] == "The boat and the [MASK]."


@pytest.mark.slow
def test_export_counts_versions(home: Path, run: Run, tmp_path: Path) -> None:
    versions = [run("export", "--preset", home / "tuned", "--output", tmp_path / "model")["version"] for _ in range(2)]
    assert versions == [1, 2]
    assert "text string [-1]" in run("inspect", tmp_path / "model")["signature serving_default"]["inputs"]


@pytest.mark.parametrize("cased", [[], ["--cased"]])
def test_tokenize_gives_the_same_ids_in_python_and_graph(home: Path, run: Run, tmp_path: Path, cased: list) -> None:
    vocabulary = tmp_path / "vocab.txt"
    capitals = "The\nWave\n" if cased else ""
    vocabulary.write_text((home / "vocab.txt").read_text(encoding="utf-8") + capitals, encoding="utf-8")
    (tmp_path / "in.txt").write_text("The Wave\n\nÜber tree\u2028leaf 你好\r\nlast", encoding="utf-8")
    for name, flags in (("python", []), ("graph", ["--graph"])):
        run("tokenize", "--vocabulary", vocabulary, "--input", tmp_path / "in.txt", "--output", tmp_path / name,
            *flags, *cased)  # fmt: skip
    lines = (tmp_path / "python").read_text().split("\n")
    assert lines == (tmp_path / "graph").read_text().split("\n")
    assert len(lines) == 5
    assert lines[1] == ""


def test_failed_commands_leave_no_partial_output(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"fine\n" * 100 + b"\xff\n")
    for command in (["predict", "--preset", home / "tuned"], ["tokenize", "--vocabulary", home / "vocab.txt"]):
        assert main([str(a) for a in [*command, "--input", bad, "--output", tmp_path / "out"]]) == 1
        assert "not UTF-8" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.txt"]


@pytest.mark.slow
def test_two_replicas_train_like_one(home: Path, tmp_path: Path) -> None:
    losses = []
    for strategy, replicas in (("none", 0), ("mirrored", 2)):
        output = tmp_path / strategy
        command = [sys.executable, "-m", "bert_tf", "pretrain", "--data", home / "data", "--model", home / "model.json",
                   "--output", output, "--strategy", strategy, "--steps", "8", "--set", "training.batch_size=16",
                   f"training.num_replicas={replicas}", "model.dropout=0.0"]  # fmt: skip
        result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
        losses.append(json.loads(result.stdout.splitlines()[-1])["mlm_loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)

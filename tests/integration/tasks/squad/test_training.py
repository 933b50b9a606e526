"""Training on SQuAD files: a small model learns its questions, after another set, alone and in an ensemble."""

from __future__ import annotations

import json
from pathlib import Path

import keras
import pytest

from bert_tf.cli import main
from bert_tf.config import BertConfig
from bert_tf.models import BertBackbone, save_preset
from tests.support.tasks.squad_examples import LETTERS, VOCABULARY, question, write_file

SETTINGS = ("--max_seq_length", "32", "--max_query_length", "8", "--doc_stride", "8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a preset and questions for the word after a letter; every fourth question has no answer."""
    folder = tmp_path_factory.mktemp("squad")
    config = BertConfig(
        vocabulary_size=len(VOCABULARY), hidden_dim=32, num_layers=2, num_heads=2, intermediate_dim=64, dropout=0.0,
        attention_dropout=0.0, max_sequence_length=32, initializer_range=0.1,
    )  # fmt: skip
    keras.utils.set_random_seed(5)
    save_preset(BertBackbone(config), folder / "preset", VOCABULARY, True)
    paragraphs = []
    for number in range(10):
        words = [LETTERS[(number + 3 * place) % 26] for place in range(24)]
        words[20:] = [f"{word}{number}".replace(str(number), "q" * (1 + number % 3)) for word in words[20:]]
        context = " ".join(words)
        questions = [
            question("", context, words[place + 1], id=f"{number}-{place}", question=words[place])
            for place in (2, 11, 20)
        ]
        questions.append(question("", context, id=f"{number}-22", question=words[22], is_impossible=True))
        paragraphs.append((context, questions))
    write_file(folder / "two.json", *paragraphs)
    write_file(folder / "one.json", *((text, asked[:-1]) for text, asked in paragraphs))
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict:
    assert main([str(argument) for argument in arguments]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def finetune(capsys, folder: Path, task: str, output: str, epochs: int, *more: object) -> dict:
    data = folder / ("two.json" if task == "squad2" else "one.json")
    files = ("--preset", folder / "preset", "--train", data, "--dev", data, "--output", folder / output)
    training = ("training.learning_rate=3e-3", f"training.epochs={epochs}", "training.batch_size=16")
    return run(capsys, "finetune", task, *files, *SETTINGS, *more, "--set", *training, "training.weight_decay=0.0")


@pytest.mark.slow
def test_model_learns_questions_and_stores_its_threshold(folder: Path, capsys) -> None:
    before = finetune(capsys, folder, "squad2", "first", 1)["metrics"]
    after = finetune(capsys, folder, "squad2", "second", 40)["metrics"]
    assert before["exact"] < 60 < 75 < after["exact"]
    task = json.loads((folder / "second/preset/task.json").read_text())
    odds = json.loads((folder / "second/dev/predictions.null_odds.json").read_text())
    texts = json.loads((folder / "second/dev/predictions.json").read_text())
    assert {name: not text for name, text in texts.items()} == {
        name: value > task["null_threshold"] for name, value in odds.items()
    }
    assert after["f1"] == pytest.approx(after["best_f1"], abs=1e-9)
    out = folder / "answers.json"
    predict = ("predict", "--preset", folder / "second", "--input", folder / "two.json", "--output", out)
    assert run(capsys, *predict)["examples"] == 40
    assert json.loads(out.read_text()) == texts
    run(capsys, *predict, "--ensemble", folder / "first", folder / "second")
    scored = run(capsys, "score", "squad2", "--data", folder / "two.json", "--predictions", out)
    assert scored["metrics"]["total"] == 40
    assert main([*map(str, predict), "--ensemble", str(folder / "preset")]) == 1
    error = capsys.readouterr().err
    assert str(folder / "preset") in error and "task.json" in error


@pytest.mark.slow
def test_augmentation_set_is_trained_first(folder: Path, capsys) -> None:
    alone = finetune(capsys, folder, "squad1", "alone", 1)["metrics"]
    more = ("--augment", folder / "one.json", folder / "extra.json")
    context = "a b c d"
    write_file(folder / "extra.json", (context, [question("x", context, "d"), question("y", context, "")]))
    assert "id y" in str(refusal(capsys, folder, *more))
    first = finetune(capsys, folder, "squad1", "augmented", 12, "--skip_bad", *more)
    assert first["skipped"] == 1
    assert (folder / "augmented/augment/preset").is_dir() and (folder / "augmented/preset").is_dir()
    assert first["metrics"]["f1"] > alone["f1"]
    assert finetune(capsys, folder, "squad1", "augmented", 12, "--skip_bad", *more)["metrics"] == first["metrics"]
    learnt = json.loads((folder / "augmented/augment/result.json").read_text())["metrics"]
    assert first["metrics"]["f1"] > learnt["f1"] - 10


def refusal(capsys, folder: Path, *more: object) -> str:
    with pytest.raises(AssertionError):
        finetune(capsys, folder, "squad1", "refused", 1, *more)
    return capsys.readouterr().err

"""The task `ner`: scheme and labels, predictions of any model, and a run from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_tf.cli import main
from bert_tf.config import BertConfig
from bert_tf.models import BertBackbone, save_preset
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.support.tasks.conlleval_rules import figures

LETTERS = "abcdefgh"
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *LETTERS, *(f"##{letter}" for letter in LETTERS)))


def write(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


@pytest.mark.slow
@pytest.mark.parametrize("context", [[], ["--document_context"]], ids=["sentences", "documents"])
def test_finetune_predict_and_score_agree(tmp_path, capsys, context):
    """A tiny model learns the letters that are names; prediction and score match the run's metrics."""
    random = np.random.default_rng(1)
    documents = []
    for _ in range(24):
        words = random.choice(list(LETTERS), random.integers(1, 12))
        tags = ["I-PER" if word in "ab" else "I-LOC" if word == "c" else "O" for word in words]
        documents.append("-DOCSTART- O\n\n" + "".join(f"{w} {t}\n" for w, t in zip(words, tags, strict=True)) + "\n")
    train = write(tmp_path, "train.txt", "".join(documents).encode())
    keras.utils.set_random_seed(2)
    config = BertConfig(
        vocabulary_size=len(VOCABULARY), hidden_dim=32, num_layers=1, num_heads=2, intermediate_dim=32,
        max_sequence_length=32, dropout=0.0, attention_dropout=0.0,
    )  # fmt: skip
    save_preset(BertBackbone(config), tmp_path / "preset", VOCABULARY, True)
    run, output = tmp_path / "run", tmp_path / "out.txt"
    settings = ["--set", "training.epochs=12", "training.batch_size=8", "training.learning_rate=0.01"]
    files = ["--train", train, "--dev", train, "--test", train]
    summary = finished(
        capsys, "finetune", "ner", "--preset", tmp_path / "preset", *files, "--output", run, *context, *settings
    )
    metrics = summary["metrics"]
    assert metrics["f1"] > 0.95
    assert metrics["f1_test"] == metrics["f1"]
    assert (summary["dev_examples"], summary["remark"]) == (24, "")
    finished(capsys, "predict", "--preset", run, "--input", train, "--output", output)
    assert output.read_bytes() == (run / "dev/predictions.conll").read_bytes()
    scores = finished(capsys, "score", "ner", "--data", train, "--predictions", output)["metrics"]
    assert scores == {name: value for name, value in metrics.items() if not name.endswith("_test")}
    official = figures(output.read_text().splitlines())
    assert official == pytest.approx({name: scores[name] for name in official}, abs=1e-15)


def finished(capsys: pytest.CaptureFixture, *arguments: object) -> dict:
    assert main([str(argument) for argument in arguments]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])

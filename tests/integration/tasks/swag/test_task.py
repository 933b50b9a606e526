"""The task `swag`: files with its header, four pairs a row, predictions, and a run from the command line."""

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

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdefgh"))


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_bytes(text.encode())
    return folder / name


@pytest.mark.slow
def test_finetune_predict_and_score_agree(tmp_path, capsys):
    """A tiny model learns that the right ending has an `h`; prediction and score match the run's metrics."""
    random = np.random.default_rng(1)
    rows = []
    for number in range(48):
        endings = [" ".join(random.choice(list("abcdefg"), 3)) for _ in range(3)]
        label = int(random.integers(3))
        endings[label] += " h"
        rows.append(f"{number},a,b,{','.join(endings)},{label}\n")
    train = write(tmp_path, "train.csv", ",sent1,sent2,ending0,ending1,ending2,label\n" + "".join(rows))
    keras.utils.set_random_seed(2)
    config = BertConfig(
        vocabulary_size=len(VOCABULARY), hidden_dim=32, num_layers=1, num_heads=2, intermediate_dim=32,
        max_sequence_length=32, dropout=0.0, attention_dropout=0.0,
    )  # fmt: skip
    save_preset(BertBackbone(config), tmp_path / "preset", VOCABULARY, True)
    run, output = tmp_path / "run", tmp_path / "out.csv"
    settings = ["--set", "training.epochs=8", "training.batch_size=8", "training.learning_rate=0.01"]
    files = ["--train", train, "--dev", train]
    summary = finished(capsys, "finetune", "swag", "--preset", tmp_path / "preset", *files, "--output", run, *settings)
    assert summary["metrics"]["accuracy"] > 0.95
    finished(capsys, "predict", "--preset", run, "--input", train, "--output", output)
    assert output.read_bytes() == (run / "dev/predictions.csv").read_bytes()
    scores = finished(capsys, "score", "swag", "--data", train, "--predictions", output)["metrics"]
    assert scores == summary["metrics"]


def finished(capsys: pytest.CaptureFixture, *arguments: object) -> dict:
    assert main([str(argument) for argument in arguments]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])

"""A tied logit counts alike in the metrics of the command and of Keras."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf.cli import main
from tests.support import doors
from tests.support.doors import Case
from tests.support.training.data_directory import write_small_data

TEXTS = ["the cat sat", "a dog ran", "who saw", "a red bird", "the river", "old hill"]
GOLD = ["good", "bad", "légume", "good", "légume", "good"]
# So small that it is 0 in float32: a run reports the metrics of the weights that it starts with.
NO_RATE = "training.learning_rate=1e-60"


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """A file of texts and labels."""
    path = tmp_path / "labelled.tsv"
    rows = [f"{label}\t{text}" for label, text in zip(GOLD, TEXTS, strict=True)]
    path.write_text("\n".join(["label\ttext", *rows, ""]), encoding="utf-8")
    return path


def tied_preset(folder: Path, case: Case) -> Path:
    """Writes the preset of a case whose pooled output and logits are 0 for all texts."""
    model = doors.model_of(case)
    for weight in model.weights:
        if "pooler" in weight.path or "logits" in weight.path:
            weight.assign(np.zeros(weight.shape))
    bert_tf.save_preset(model, folder, doors.VOCABULARY, True, case.task, doors.INFO)
    return folder


def test_accuracy_of_a_classifier_is_that_of_the_command(labelled: Path, tmp_path: Path, capsys: Any) -> None:
    preset = tied_preset(tmp_path / "preset", doors.BY_ID["text-plain"])
    _, accuracy = bert_tf.BertTextClassifier.from_preset(preset).evaluate(TEXTS, GOLD, verbose=0)
    predictions = tmp_path / "predictions.jsonl"
    files = ["--input", str(labelled), "--output", str(predictions)]
    assert main(["predict", "--preset", str(preset), *files]) == 0
    capsys.readouterr()
    assert main(["score", "classify", "--data", str(labelled), "--predictions", str(predictions)]) == 0
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])["metrics"]
    assert accuracy == pytest.approx(metrics["accuracy"])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Returns a function from a file to the output of `bert-tf finetune classify` on it, with tied logits."""
    root, known = tmp_path_factory.mktemp("ties"), {}

    def finetuned(labelled: Path) -> Path:
        content = labelled.read_bytes()
        if content not in known:
            preset, output = tied_preset(root / "preset", doors.BY_ID["text-plain"]), root / "run"
            arguments = ["--preset", preset, "--train", labelled, "--dev", labelled, "--output", output]
            settings = ["--set", NO_RATE, "training.epochs=1", "training.batch_size=2", "training.log_every=1"]
            assert main(["finetune", "classify", *map(str, arguments), *settings]) == 0
            known[content] = output
        return known[content]

    return finetuned


def test_accuracy_of_a_run_is_that_of_its_model(run: Callable[[Path], Path], labelled: Path) -> None:
    output = run(labelled)
    reported = json.loads((output / "result.json").read_text(encoding="utf-8"))["metrics"]["accuracy"]
    model = bert_tf.BertTextClassifier.from_preset(output / "preset")
    assert model.evaluate(TEXTS, GOLD, verbose=0)[1] == pytest.approx(reported)
    assert np.ptp(model.predict(TEXTS, verbose=0)) == 0.0


def test_training_accuracy_of_a_run_is_that_of_keras(run: Callable[[Path], Path], labelled: Path) -> None:
    """Compares the mean over the steps of an epoch, all of the same size, with unchanged weights."""
    lines = (run(labelled) / "history.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [entry for entry in map(json.loads, lines) if entry["split"] == "train"]
    assert len(steps) == 3
    model = bert_tf.BertTextClassifier.from_preset(run(labelled) / "preset")
    accuracy = model.evaluate(TEXTS, GOLD, verbose=0)[1]
    assert np.mean([entry["accuracy"] for entry in steps]) == pytest.approx(accuracy)


def test_accuracy_in_pretraining_metrics_is_that_of_keras(tmp_path: Path, capsys: Any) -> None:
    data = write_small_data(tmp_path)
    vocabulary = bert_tf.load_vocabulary(data / "vocab.txt")
    config = bert_tf.BertConfig(
        vocabulary_size=len(vocabulary), hidden_dim=16, num_layers=1, num_heads=2, intermediate_dim=32,
        max_sequence_length=32,
    )  # fmt: skip
    pretrainer = bert_tf.BertPretrainer(bert_tf.BertBackbone(config), next_sentence=False)
    for weight in pretrainer.weights:
        weight.assign(np.zeros(weight.shape))
    bert_tf.save_preset(pretrainer, tmp_path / "preset", vocabulary, True)
    assert main(["evaluate", "--preset", str(tmp_path / "preset"), "--data", str(data)]) == 0
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])
    metrics = metrics.get("metrics", metrics)
    model = bert_tf.BertMaskedLM.from_preset(tmp_path / "preset", preprocessor=None)
    batches = bert_tf.pretraining_dataset(data, "validation", batch_size=8, seed=1, training=False)
    hits = count = 0.0
    for inputs, targets, weights in batches:
        inputs = {name: values for name, values in inputs.items() if name in model.input}
        places = weights["mlm_logits"]
        total = float(keras.ops.sum(places))
        metrics_of_batch = model.test_on_batch(inputs, targets["mlm_logits"], places, return_dict=True)
        model.reset_metrics()
        hits, count = hits + float(metrics_of_batch["accuracy"]) * total, count + total
    assert hits / count == pytest.approx(metrics["mlm_accuracy"], abs=1e-6)

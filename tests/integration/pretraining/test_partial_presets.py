"""Presets that only imports produce, not pre-training: without pooler, or with one head."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bert_tf.cli import main
from bert_tf.config import BertConfig
from bert_tf.models import BertBackbone, BertPretrainer, load_preset, save_preset
from bert_tf.pretraining.run import run_evaluation
from bert_tf.tasks.classify.task import ClassifyTask
from bert_tf.tasks.finetune.init import FinetuneInit, builder
from bert_tf.text.vocabulary import load_vocabulary
from tests.support.training.data_directory import MODEL, write_small_data

TASK = ClassifyTask(labels=("a", "b", "c"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_data(tmp_path_factory.mktemp("data"))


def pretrainer(data: Path, directory: Path, masked_lm: bool, next_sentence: bool, pooler: bool = True) -> Path:
    vocabulary = load_vocabulary(data / "vocab.txt")
    config = BertConfig(vocabulary_size=len(vocabulary), pooler=pooler, initializer_range=0.3, **MODEL)
    model = BertPretrainer(BertBackbone(config), masked_lm=masked_lm, next_sentence=next_sentence)
    save_preset(model, directory, vocabulary, True)
    return directory


@pytest.mark.parametrize(
    ("masked_lm", "next_sentence", "pooler", "absent"),
    [(True, False, True, "nsp"), (True, False, False, "nsp"), (False, True, True, "mlm")],
)
def test_existing_heads_are_evaluated_as_in_a_complete_model(
    data: Path, tmp_path: Path, masked_lm: bool, next_sentence: bool, pooler: bool, absent: str
) -> None:
    part = pretrainer(data, tmp_path / "part", masked_lm, next_sentence, pooler)
    model = load_preset(part).model
    whole = BertPretrainer(BertBackbone(replace(model.backbone.config, pooler=True)))
    preset_weights = {weight.path: weight for weight in model.weights}
    for weight in whole.weights:
        if weight.path in preset_weights:
            weight.assign(preset_weights[weight.path])
    save_preset(whole, tmp_path / "whole", load_preset(part).vocabulary, True)
    received, expected = (run_evaluation(preset, data, 16) for preset in (part, tmp_path / "whole"))
    assert {name for name in expected if name not in received} == {name for name in expected if name.startswith(absent)}
    metrics = [name for name in received if name not in ("split", "loss")]
    assert metrics and {name: received[name] for name in metrics} == pytest.approx(
        {name: expected[name] for name in metrics}, rel=1e-5
    )
    assert received["loss"] == pytest.approx(received["mlm_loss" if masked_lm else "nsp_loss"])


def test_next_sentence_head_is_not_evaluated_without_pairs(tmp_path: Path) -> None:
    data = write_small_data(tmp_path, next_sentence=False)
    preset = pretrainer(data, tmp_path / "preset", masked_lm=False, next_sentence=True)
    with pytest.raises(ValueError, match="must hold pairs.* next sentence prediction head"):
        run_evaluation(preset, data)


def test_every_length_is_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for length in (32, 16):
        write_small_data(tmp_path, f"length-{length}", max_seq_length=length)
    preset = pretrainer(tmp_path / "length-32", tmp_path / "preset", True, True)
    assert main(["evaluate", "--preset", str(preset), "--data", str(tmp_path)]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [name for name in summary if name.startswith("length-")] == ["length-16", "length-32"]
    alone = run_evaluation(preset, tmp_path / "length-32")
    assert summary["length-32"].keys() == alone.keys()
    assert summary["length-32"]["mlm_loss"] == pytest.approx(alone["mlm_loss"], rel=1e-6)
    assert summary["length-16"]["mlm_loss"] != summary["length-32"]["mlm_loss"]


def test_a_length_beyond_the_positions_is_refused(tmp_path: Path) -> None:
    for length in (16, 64):
        write_small_data(tmp_path, f"length-{length}", max_seq_length=length)
    preset = pretrainer(tmp_path / "length-16", tmp_path / "preset", True, True)
    with pytest.raises(ValueError, match="length-64: `max_seq_length` must not exceed the 32 positions .* 64"):
        run_evaluation(preset, tmp_path)


def test_a_classifier_gets_a_new_pooler_and_all_other_weights(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    preset = load_preset(pretrainer(data, tmp_path / "preset", True, False, pooler=False))
    with caplog.at_level(logging.WARNING):
        model = builder(TASK, preset, FinetuneInit(tmp_path / "preset"))()
    assert "no pooler" in caplog.text
    preset_weights = {weight.path: np.asarray(weight) for weight in preset.model.backbone.weights}
    taken = {weight.path: np.asarray(weight) for weight in model.backbone.weights}
    assert set(taken) - set(preset_weights) == {"pooler/kernel", "pooler/bias"}
    for path, array in preset_weights.items():
        np.testing.assert_array_equal(taken[path], array)
    assert taken["pooler/kernel"].std() > 0


def test_classifier_loads_all_weights_of_an_encoder_with_pooler(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    preset = load_preset(pretrainer(data, tmp_path / "preset", True, True))
    with caplog.at_level(logging.WARNING):
        model = builder(TASK, preset, FinetuneInit(tmp_path / "preset"))()
    assert not caplog.text
    backbone = preset.model.backbone
    for weight, taken in zip(backbone.weights, model.backbone.weights, strict=True):
        np.testing.assert_array_equal(weight, taken)
    scratch = builder(TASK, preset, FinetuneInit(tmp_path / "preset", from_scratch=True))()
    table = "embeddings/token_embedding/embeddings"
    kept, drawn = (next(w for w in m.weights if w.path == table) for m in (backbone, scratch.backbone))
    assert np.abs(np.asarray(kept) - np.asarray(drawn)).max() > 0.1


def test_an_encoder_without_pooler_is_fine_tuned(data: Path, tmp_path: Path) -> None:
    preset = pretrainer(data, tmp_path / "preset", True, False, pooler=False)
    for split in ("train", "dev"):
        rows = [f"w{number} w{number + 1}\t{'even' if number % 2 == 0 else 'odd'}" for number in range(8)]
        (tmp_path / f"{split}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n", "utf-8")
    arguments = ["finetune", "classify", "--preset", preset, "--data", tmp_path, "--output", tmp_path / "run"]
    settings = ["--set", "training.batch_size=4", "training.epochs=1"]
    assert main([str(argument) for argument in (*arguments, *settings)]) == 0
    tuned = load_preset(tmp_path / "run")
    assert tuned.kind == "BertTextClassifier" and tuned.config.pooler

"""Pre-training as a left-to-right language model, and without next sentence prediction on the same pairs."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_tf.commands import evaluate as evaluate_command
from bert_tf.config import BertConfig, ConfigError, DataConfig, RunConfig, TrainingConfig
from bert_tf.data.input.numpy import pretraining_batches
from bert_tf.export.kinds.pretrainer import PretrainerSignatures
from bert_tf.models import BertBackbone, BertMaskedLM, BertPretrainer, BertTextClassifier, load_preset, save_preset
from bert_tf.models.weights import copy_weights
from bert_tf.pretraining.run import run_evaluation, run_pretraining
from bert_tf.training.logging.flops import step_flops
from bert_tf.training.logging.run_log import read_history
from tests.support.data.samples import make_vocabulary, write_directory
from tests.support.models.reference_bert import randomize, reference_forward

VOCABULARY = make_vocabulary(words=60, continuations=20)
MODEL = BertConfig(
    vocabulary_size=len(VOCABULARY), hidden_dim=16, num_layers=2, num_heads=2, intermediate_dim=32,
    max_sequence_length=32, dropout=0.0, attention="left_to_right",
)  # fmt: skip
CAUSAL = TrainingConfig(
    steps=4, batch_size=8, learning_rate=1e-2, log_every=1, checkpoint_every=2, peak_flops=1e9,
    objective="causal_lm", nsp_weight=0.0,
)  # fmt: skip
PAIRS = DataConfig(max_seq_length=32, max_predictions_per_seq=5, short_seq_prob=0.8)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pairs")
    write_directory(directory, PAIRS, VOCABULARY, {"train": [60], "validation": [13]})
    return directory


@pytest.fixture(scope="module")
def initial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A preset with large random weights."""
    model = BertPretrainer(BertBackbone(replace(MODEL, pooler=False)), next_sentence=False)
    randomize(model)
    preset = tmp_path_factory.mktemp("initial") / "preset"
    save_preset(model, preset, VOCABULARY, True)
    return preset


@pytest.fixture(scope="module")
def finished(data: Path, initial: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Output directory of a run."""
    output = tmp_path_factory.mktemp("causal") / "run"
    run_pretraining(data, RunConfig(MODEL, CAUSAL), output, initial)
    return output


def losses(output: Path) -> list[float]:
    lines = read_history(output / "history.jsonl")
    return [line["causal_lm_loss"] for line in lines if line["split"] == "train"]


def oracle_loss(preset: Path, batch: Any) -> float:
    """Computes the mean loss of all next tokens in float64, one example at a time, without padding."""
    preset_model = load_preset(preset).model
    model = BertPretrainer(BertBackbone(MODEL))  # The oracle computes the heads of a whole pretrainer.
    copy_weights(preset_model, model)
    values = []
    for row in range(len(batch[0]["token_ids"])):
        length = int(batch[0]["padding_mask"][row].sum())
        inputs = {name: batch[0][name][row : row + 1, :length] for name in ("token_ids", "segment_ids", "padding_mask")}
        inputs["mask_positions"] = np.arange(length - 1)[None]
        logits = reference_forward(model, MODEL, inputs)["mlm_logits"][0]
        following = inputs["token_ids"][0, 1:]
        values.append(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(length - 1), following])
    return float(np.concatenate(values).mean())


def test_first_loss_is_that_of_the_oracle(data: Path, initial: Path, finished: Path) -> None:
    arguments = {"batch_size": 8, "seed": CAUSAL.seed, "objective": "causal_lm"}
    first = next(iter(pretraining_batches(data, "train", **arguments)))
    assert losses(finished)[0] == pytest.approx(oracle_loss(initial, first), rel=1e-5)


@pytest.mark.parametrize("changes", [{"padding": "pack"}, {"accumulate": 4}, {"padding": "pack", "accumulate": 2}])
def test_packed_rows_and_parts_of_a_batch_have_the_same_losses(
    data: Path, initial: Path, finished: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    run_pretraining(data, RunConfig(MODEL, replace(CAUSAL, **changes)), tmp_path / "run", initial)
    assert losses(tmp_path / "run") == pytest.approx(losses(finished), rel=1e-4)
    assert losses(finished)[0] - losses(finished)[-1] > 0.1


@pytest.mark.slow
def test_two_replicas_have_the_same_losses(data: Path, initial: Path, finished: Path, tmp_path: Path) -> None:
    settings = {name: getattr(CAUSAL, name) for name in ("batch_size", "learning_rate", "log_every", "nsp_weight")}
    settings |= {"objective": "causal_lm", "strategy": "mirrored", "num_replicas": 2, "accumulate": 2}
    overrides = [f"training.{name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "bert_tf", "pretrain", "--data", data, "--init", initial, "--steps", 4,
               "--output", tmp_path / "run", "--set", *overrides]  # fmt: skip
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    assert losses(tmp_path / "run") == pytest.approx(losses(finished), rel=1e-4)


def test_batches_by_length_train(data: Path, tmp_path: Path) -> None:
    training = replace(CAUSAL, padding="bins", steps=17, checkpoint_every=17)
    run_pretraining(data, RunConfig(MODEL, training), tmp_path / "run")
    found = losses(tmp_path / "run")
    assert len(found) == 17
    assert found[-1] < found[0]


def test_resumed_run_is_bit_equal(data: Path, finished: Path, initial: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    shutil.rmtree(tmp_path / "run/checkpoints/step-00000004")
    run_pretraining(data, RunConfig(MODEL, CAUSAL), tmp_path / "run", initial)
    assert losses(tmp_path / "run") == losses(finished)
    again, whole = (load_preset(output).model for output in (tmp_path / "run", finished))
    for one, other in zip(again.weights, whole.weights, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_reports_have_the_names_of_the_objective(data: Path, finished: Path) -> None:
    held_out = [line for line in read_history(finished / "history.jsonl") if line["split"] == "validation"][-1]
    names = {"causal_lm_loss", "causal_lm_accuracy", "causal_lm_perplexity"}
    assert {name for name in held_out if "lm" in name or "nsp" in name} == names
    assert names < held_out["chance"].keys()
    assert "published" not in held_out
    page = (finished / "report.html").read_text(encoding="utf-8")
    assert "Next tokens: perplexity" in page
    assert "Masked tokens" not in page
    info = json.loads((finished / "preset/config.json").read_text(encoding="utf-8"))["info"]
    assert info["causal_lm_perplexity"] == held_out["causal_lm_perplexity"]
    assert "example" not in info
    metrics = run_evaluation(finished, data)
    assert metrics.keys() == {"split", "loss"} | names
    assert metrics["causal_lm_loss"] == pytest.approx(held_out["causal_lm_loss"], rel=1e-5)
    first = read_history(finished / "history.jsonl")[1]
    config = replace(MODEL, pooler=False)
    assert first["mfu"] * first["seconds_per_step"] == pytest.approx(step_flops(config, 8, 32, 31) / 1e9, rel=1e-3)


def test_evaluate_prints_the_constant_guess_of_next_tokens(
    data: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = argparse.Namespace(preset=str(finished), data=data, batch_size=8, verify="never")
    evaluate_command.run(arguments)
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("causal_lm_perplexity")]
    chance = read_history(finished / "history.jsonl")[-1]["chance"]
    assert f"{chance['causal_lm_perplexity']:,.4g}" in line.split()


def test_presets_have_the_trained_heads_only(finished: Path) -> None:
    for name in (str(finished), f"{finished}@2"):
        preset = load_preset(name)
        assert (preset.model.masked_lm, preset.model.next_sentence) == (True, False)
        assert (preset.config.pooler, preset.config.attention) == (False, "left_to_right")
    classifier = BertTextClassifier.from_preset(finished, num_classes=2, preprocessor=None)
    assert classifier.pooling == "last"
    with pytest.raises(ConfigError, match="next token"):
        PretrainerSignatures(load_preset(finished))
    with pytest.raises(ConfigError, match="next token"):
        BertMaskedLM.from_preset(finished, preprocessor=None)


def test_masked_language_model_without_next_sentences_reads_the_same_pairs(data: Path, tmp_path: Path) -> None:
    model = replace(MODEL, attention="bidirectional")
    training = replace(CAUSAL, objective="mlm", steps=2)
    preset, result = run_pretraining(data, RunConfig(model, training), tmp_path / "run")
    assert sorted(result.evaluation or {}) == ["loss", "mlm_accuracy", "mlm_loss", "mlm_perplexity"]
    without = load_preset(preset).model
    assert not [weight.path for weight in without.weights if "nsp" in weight.path or "pooler" in weight.path]
    with_pairs, _ = run_pretraining(data, RunConfig(model, replace(training, nsp_weight=0.5)), tmp_path / "both")
    assert load_preset(with_pairs).model.next_sentence
    lines = [read_history(tmp_path / name / "history.jsonl") for name in ("run", "both")]
    # The same batches: equal weights of the encoder, masks and numbers of tokens; only the loss differs.
    assert lines[0][0]["padding"] == lines[1][0]["padding"]
    both = lines[1][0]
    assert both["loss"] == pytest.approx(both["mlm_loss"] + 0.5 * both["nsp_loss"], rel=1e-6)


@pytest.mark.parametrize(
    ("attention", "changes", "message"),
    [
        ("bidirectional", {}, "Set model.attention=left_to_right"),
        ("left_to_right", {"objective": "mlm"}, "Set training.objective=causal_lm"),
        ("left_to_right", {"nsp_weight": 1.0}, "Set training.nsp_weight=0"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(
    data: Path, tmp_path: Path, attention: str, changes: dict[str, Any], message: str
) -> None:
    run = RunConfig(replace(MODEL, attention=attention), replace(CAUSAL, **changes))
    with pytest.raises(ConfigError, match=message):
        run_pretraining(data, run, tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoints").exists()

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import ConfigError
from bert_tf.config.files import only_writer
from bert_tf.data.schema import MLM_LOGITS, NSP_LOGITS, PADDING_MASK
from bert_tf.training.evaluation.evaluate import evaluate_pretraining
from bert_tf.training.fit import fit, weights_sha256
from bert_tf.training.loop.checkpoints import TrainingError
from bert_tf.training.losses import CLASSIFICATION
from bert_tf.training.run_spec import EvaluationSpec, RunSpec, TrainingData
from tests.support.training.tiny_run import CONFIG, build_model, dataset, run
from tests.support.training.workers import PROGRAM

TIMED = {"tokens_per_second", "seconds_per_step", "input_wait"}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Output directory and result of a run of 12 steps with dropout, checkpoints at 5, 10 and 12."""
    output = tmp_path_factory.mktemp("unbroken") / "run"
    return output, run(output)


@pytest.fixture
def copied(uninterrupted, tmp_path):
    shutil.copytree(uninterrupted[0], tmp_path / "run")
    return tmp_path / "run"


def digests(output: Path, step: int = 12):
    """Returns checksums of model and optimizer at a step, including dropout seeds and iterations."""
    return json.loads((output / f"checkpoints/step-{step:08d}/state.json").read_text())["files"]


def history(output: Path):
    """Returns the recorded metrics without those that depend on the clock."""
    lines = [json.loads(line) for line in (output / "history.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in TIMED} for line in lines]


def assert_same_run(output, result, uninterrupted):
    assert digests(output) == digests(uninterrupted[0])
    assert weights_sha256(result.model) == weights_sha256(uninterrupted[1].model)
    assert (result.step, result.loss, result.evaluation) == (12, uninterrupted[1].loss, uninterrupted[1].evaluation)
    assert history(output) == history(uninterrupted[0])


@pytest.mark.smoke
def test_fit_writes_metrics_and_files_and_trains_the_model(uninterrupted):
    output, result = uninterrupted
    assert sorted(p.name for p in output.iterdir()) == [
        "checkpoints", "history.jsonl", "report.html", "status.json", "tensorboard",
    ]  # fmt: skip
    assert sorted(p.name for p in (output / "tensorboard").iterdir()) == ["train", "validation"]
    lines = history(output)
    assert [(line["split"], line["step"]) for line in lines] == [
        *[("train", step) for step in (4, 5, 8, 10, 12)],
        ("validation", 12),
    ]
    assert lines[-2]["loss"] < lines[0]["loss"]
    assert lines[-2]["loss"] == result.loss
    assert result.tokens_per_second > 0
    figures = evaluate_pretraining(result.model, dataset(8, 10_000, 10_003))
    assert figures == pytest.approx(result.evaluation)
    assert figures["mlm_perplexity"] == pytest.approx(np.exp(figures["mlm_loss"]))


def test_progress_goes_to_stderr(tmp_path, capfd):
    run(tmp_path / "run", replace(CONFIG, steps=2, log_every=1))
    captured = capfd.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if line.startswith(("train", "validation"))]
    heads = ["train      step 1/2  ", "train      step 2/2  ", "validation step 2/2  "]
    assert [line[: len(heads[0])] for line in lines] == heads
    for word in ("loss", "mlm_accuracy", "nsp_accuracy", "learning_rate", "tokens_per_second"):
        assert word in lines[0]


@pytest.mark.parametrize(("log_every", "in_advance"), [(6, []), (20, ["step 11"])])
def test_the_time_left_is_shown_from_ten_timed_steps_on(log_every, in_advance, tmp_path, capfd):
    run(tmp_path / "run", replace(CONFIG, steps=40, log_every=log_every, checkpoint_every=40))
    lines = capfd.readouterr().err.splitlines()
    logged = [line for line in lines if line.startswith("train")]
    assert [" eta " in line for line in logged] == [log_every * number > 10 for number in range(1, len(logged))] + [
        False
    ]
    assert [line.partition(":")[0] for line in lines if "left without evaluations" in line] == in_advance
    assert lines[0].startswith("device: CPU")
    assert lines[1].startswith("model: Functional, ")
    run(tmp_path / "run", replace(CONFIG, steps=40, log_every=log_every, checkpoint_every=40))
    assert "device" not in capfd.readouterr().err


@pytest.mark.smoke
def test_the_same_seed_gives_the_same_bits(uninterrupted, tmp_path):
    assert_same_run(tmp_path / "run", run(tmp_path / "run"), uninterrupted)


def test_a_killed_run_resumes_exactly(uninterrupted, tmp_path):
    output = tmp_path / "run"
    argv = [sys.executable, *PROGRAM, str(output), "kill_at=8"]
    killed = subprocess.run(argv, capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    assert (output / "checkpoints/step-00000005").is_dir()
    assert not (output / "checkpoints/step-00000010").exists()
    assert_same_run(output, run(output), uninterrupted)


def test_run_resumes_from_the_checkpoint_before_a_damaged_one(uninterrupted, copied, caplog):
    for step in (12, 10):
        os.truncate(copied / f"checkpoints/step-{step:08d}/optimizer.npz", 1000)
    assert_same_run(copied, run(copied), uninterrupted)
    assert "step-00000010 is damaged" in caplog.text


def test_a_finished_run_returns_at_once(uninterrupted, copied):
    def not_called(start_step):
        raise AssertionError("a finished run takes no data")

    data = TrainingData(not_called, lambda _: dataset(8, 10_000, 10_003))
    result = fit(RunSpec(build_model, data), CONFIG, copied)
    assert_same_run(copied, result, uninterrupted)
    assert result.tokens_per_second == uninterrupted[1].tokens_per_second


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_stops(uninterrupted, tmp_path, capfd, number):
    output = tmp_path / "run"

    def at_step(step, made):
        if step == 7:
            os.kill(os.getpid(), number)
        return made

    former = signal.getsignal(number)
    with pytest.raises((SystemExit, KeyboardInterrupt)) as stopped:
        run(output, at_step=at_step)
    if number == signal.SIGTERM:
        assert stopped.value.code == 143
    else:
        assert stopped.type is KeyboardInterrupt
    assert signal.getsignal(number) == former
    saved = max(path.name for path in (output / "checkpoints").iterdir())
    assert f"checkpoints/{saved}" in capfd.readouterr().err
    result = run(output)
    assert digests(output) == digests(uninterrupted[0])
    assert result.evaluation == uninterrupted[1].evaluation


@pytest.mark.parametrize("steps", [12, 20])
def test_signal_during_evaluation_keeps_step_and_evaluation(tmp_path, capfd, steps):
    """The evaluation after step 12 is interrupted, in the middle of the run or at its end."""
    output = tmp_path / "run"
    config = replace(CONFIG, steps=steps, evaluate_every=12)
    signals = [signal.SIGTERM]

    def at_evaluation(step, made):
        if signals:
            os.kill(os.getpid(), signals.pop())
        return made

    with pytest.raises(SystemExit, match="143"):
        run(output, config, at_evaluation=at_evaluation)
    assert "interrupted after step 12 " in capfd.readouterr().err
    assert [line for line in history(output) if line["split"] == "validation"] == []
    assert run(output, config).step == steps
    evaluated = [line["step"] for line in history(output) if line["split"] == "validation"]
    assert evaluated == sorted({12, steps})


def test_resume_runs_the_evaluation_that_was_due(copied):
    """Simulates a kill between the checkpoint of step 10 and the evaluation due there."""
    shutil.rmtree(copied / "checkpoints/step-00000012")
    run(copied, replace(CONFIG, evaluate_every=10))
    assert [line["step"] for line in history(copied) if line["split"] == "validation"] == [10, 12]


def test_two_processes_do_not_train_in_one_directory(copied):
    before = (copied / "history.jsonl").read_bytes()
    with only_writer(copied, "training in"), pytest.raises(RuntimeError, match="another process is training in"):
        run(copied, replace(CONFIG, evaluate_every=10))
    assert (copied / "history.jsonl").read_bytes() == before


def test_truncated_history_line_is_dropped(uninterrupted, copied):
    with (copied / "history.jsonl").open("a") as file:
        file.write('{"split": "tra')
    run(copied)
    assert history(copied) == history(uninterrupted[0])


def test_history_of_another_run_is_refused(copied):
    (copied / "history.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=r"history\.jsonl:1: .*training history.* Received: '{}'"):
        run(copied)


def test_nan_stops_the_run_and_names_step_and_checkpoint(tmp_path):
    def at_step(step, made):
        if step == 7:
            made[2][MLM_LOGITS][0, 0] = np.nan
        return made

    with pytest.raises(TrainingError, match=r"step 8: the loss .* not finite.*step-00000005"):
        run(tmp_path / "run", at_step=at_step)


def test_exhausted_data_is_an_error(tmp_path):
    with pytest.warns(UserWarning), pytest.raises(TrainingError, match="step 6: the training data ended"):
        fit(RunSpec(build_model, TrainingData(lambda start: dataset(8, start, 6))), CONFIG, tmp_path / "run")


@pytest.mark.parametrize(
    ("fields", "identity", "named"),
    [
        ({"steps": 13}, None, "steps"),
        ({"learning_rate": 1.0}, None, "training.learning_rate"),
        ({}, {"x": {"y": 1}}, "x.y"),
    ],
)
def test_the_output_of_another_run_is_refused(copied, fields, identity, named):
    with pytest.raises(ConfigError, match=f"another `{named}`"):
        run(copied, replace(CONFIG, **fields), identity=identity)


def test_output_directory_with_other_files_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"it holds notes\.txt"):
        run(tmp_path)
    with pytest.raises(ConfigError, match="must be a directory"):
        run(tmp_path / "notes.txt")


def test_evaluate_steps_limits_the_evaluation(tmp_path):
    result = run(tmp_path / "run", replace(CONFIG, steps=1, evaluate_steps=2))
    expected = evaluate_pretraining(result.model, dataset(8, 10_000, 10_002))
    assert result.evaluation == pytest.approx(expected)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="is about TensorFlow")
def test_nothing_is_jitted_on_a_cpu(tmp_path, monkeypatch):
    seen = []
    original = keras.Model.fit

    def fit(self, *args, **kwargs):
        seen.append(self.jit_compile)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(keras.Model, "fit", fit)
    run(tmp_path / "run", replace(CONFIG, steps=1))
    assert seen == [False]


def test_weights_sha256_follows_values_and_order():
    one, two = (keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)]) for _ in range(2))
    two.set_weights(one.get_weights())
    assert weights_sha256(one) == weights_sha256(two)
    two.layers[0].bias.assign([0.0, 1.0])
    assert weights_sha256(one) != weights_sha256(two)


def classifier():
    mask = keras.Input((6,), dtype="int32", name=PADDING_MASK)
    return keras.Model({PADDING_MASK: mask}, keras.layers.Dense(2)(keras.ops.cast(mask, "float32")))


def labelled(start: int = 0, stop: int | None = None):
    """A task that is easy to learn: the label is the first value."""

    def only_mask(inputs, targets, weights):
        mask = inputs[PADDING_MASK][:, :6]
        mask = tf.concat([targets[NSP_LOGITS][:, None], mask[:, 1:]], 1)
        return {PADDING_MASK: mask}, targets[NSP_LOGITS], tf.ones_like(weights[NSP_LOGITS])

    return dataset(8, start, stop).map(only_mask)


def accuracy(model, step):
    """Measures on three batches; `fit` passes the model as a function of arrays."""
    right = []
    for inputs, labels, _ in labelled(500, 503):
        logits = model({name: values.numpy() for name, values in inputs.items()})
        right += (logits.argmax(axis=1) == labels.numpy()).tolist()
    return {"accuracy": sum(right) / len(right), "step": float(step)}


def finetuning(steps, every=10, measure=accuracy, metric="accuracy"):
    evaluation = EvaluationSpec(every=every, measure=measure, metric=metric)
    return RunSpec(classifier, TrainingData(labelled), steps, CLASSIFICATION, evaluation)


def test_a_run_measures_each_epoch_and_resumes(tmp_path):
    config = replace(CONFIG, learning_rate=0.5, log_every=100)
    output = tmp_path / "run"
    result = fit(finetuning(30), config, output)
    assert (result.step, result.evaluation) == (30, {"accuracy": 1.0, "step": 30.0})
    assert [h["step"] for h in history(output) if h["split"] == "validation"] == [10, 20, 30]
    again = fit(finetuning(30), config, output)
    assert weights_sha256(again.model) == weights_sha256(result.model)
    assert again.evaluation == result.evaluation
    with pytest.raises(ConfigError, match="another `steps`"):
        fit(finetuning(31), config, output)
    with pytest.raises(ConfigError, match="`steps` must be at least 1"):
        finetuning(0)


@pytest.mark.parametrize(
    ("figures", "patience", "end"),
    [
        ([0.1, 0.3, 0.2, 0.3, 0.9], 2, 4),
        ([0.1, 0.3, 0.2, 0.4, 0.3], 2, 5),
        ([0.5, 0.4, 0.6, 0.7, 0.8], 1, 2),
        ([0.5, 0.4, 0.3, 0.2, 0.1], 0, 5),
    ],
)
def test_run_stops_after_epochs_without_improvement(tmp_path, figures, patience, end):
    config = replace(CONFIG, patience=patience)
    measured = []

    def measure(model, step):
        measured.append(step)
        return {"f1": figures[step // 2 - 1]}

    def tuned():
        return fit(finetuning(10, 2, measure, "f1"), config, tmp_path / "run")

    result = tuned()
    assert (result.step, measured) == (2 * end, list(range(2, 2 * end + 1, 2)))
    # A second call neither continues the run nor starts a new one.
    again = tuned()
    assert (again.step, again.evaluation) == (result.step, {"f1": figures[end - 1]})
    assert weights_sha256(again.model) == weights_sha256(result.model)

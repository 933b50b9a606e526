"""Runs on any backend, with results as plain values.

    KERAS_BACKEND=jax python backend_runs.py FOLDER NAME

`FOLDER/weights.npz` holds the initial weights, except for the run `resumed`. The last line of stdout is JSON.
"""

from __future__ import annotations

if __name__ == "__main__":
    from bert_tf.entry.quiet import import_tensorflow

    import_tensorflow()

import contextlib
import json
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_tf.config import BertConfig, RunConfig, TrainingConfig
from bert_tf.data.manifest import open_data
from bert_tf.data.schema import MLM_LOGITS
from bert_tf.models import BertBackbone, BertPretrainer, save_preset
from bert_tf.pretraining.run import run_pretraining
from bert_tf.training.evaluation.evaluate import evaluate_pretraining
from bert_tf.training.fit import fit, weights_sha256
from bert_tf.training.run_spec import RunSpec, TrainingData
from tests.support.layers.short_parts import short_parts
from tests.support.models.reference_bert import randomize
from tests.support.training.data_directory import MODEL, write_small_data
from tests.support.training.tiny_run import CONFIG, build_model, dataset

LONG = replace(CONFIG, steps=20, log_every=1, learning_rate=3e-3)
CASES = {
    "adamw": LONG,
    "muon": replace(
        LONG,
        optimizer="muon",
        matrix_learning_rate=1e-2,
        schedule="trapezoidal",
        adam_epsilon_form="torch",
        layer_decay=0.9,
        accumulate=2,
    ),
    "lamb": replace(LONG, optimizer="lamb", schedule="original", bias_correction=False),
    "parts_and_average": replace(LONG, accumulate=4, average=0.8, clip_norm=0.1),
    "half": replace(LONG, precision="float16", average=0.8),
    "bfloat16": replace(LONG, precision="bfloat16"),
}
# An encoder of this body, with attention in short parts.
CASES["modern"] = CASES["muon"]


def trained(output: Path, config: Any, weights: Path, at_step: Any = None, body: str = "") -> dict[str, Any]:
    """Trains from given weights without dropout."""

    def build():
        model = build_model(dropout=0.0, body=body)
        with np.load(weights) as arrays:
            for variable, value in zip(model.trainable_variables, arrays.values(), strict=True):
                variable.assign(value)
        return model

    data = TrainingData(
        lambda start: dataset(config.batch_size, start, at_step=at_step),
        lambda _: dataset(config.batch_size, 10_000, 10_003),
    )
    with short_parts() if body else contextlib.nullcontext():
        result = fit(RunSpec(build, data, flops=lambda _, positions: 1e6), config, output)
        return outcome(output, result)


def trained_case(folder: Path, name: str) -> dict[str, Any]:
    body = "modern" if name == "modern" else ""
    return trained(folder / name, CASES[name], folder / "weights.npz", body=body)


@contextlib.contextmanager
def guarded_steps() -> Iterator[None]:
    """Allows only the batch to be transferred to the devices in a step, on JAX."""
    import jax

    from bert_tf.training.backends.jax import JaxTrainingModel

    original = JaxTrainingModel.compiled_train_step

    def compiled_train_step(self: Any) -> Any:
        train_function = original(self)

        def guarded(state: Any, iterator: Any) -> Any:
            batch = jax.device_put(next(iterator))
            with jax.transfer_guard("disallow"):
                logs, state = train_function(state, iter([batch]))
            assert logs == {}, "Keras reads all logs after each step"
            return logs, state

        return guarded

    JaxTrainingModel.compiled_train_step = compiled_train_step
    try:
        yield
    finally:
        JaxTrainingModel.compiled_train_step = original


def outcome(output: Path, result: Any) -> dict[str, Any]:
    lines = [json.loads(line) for line in (output / "history.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["split"] == "train"]
    names = ("loss", "mlm_accuracy", "gradient_norm", "learning_rate", "padding")
    return {
        "curves": {name: [line[name] for line in steps] for name in names},
        "evaluation": result.evaluation,
        "again": evaluate_pretraining(result.model, dataset(8, 10_000, 10_003)),
        "weights_sha256": weights_sha256(result.model),
        "files": sorted(path.name for path in output.iterdir()),
    }


def resumed(folder: Path) -> dict[str, Any]:
    """A run with dropout, once uninterrupted, and once stopped by a signal while its ninth batch is made."""

    def run(output, at_step=None):
        data = TrainingData(lambda start: dataset(8, start, at_step=at_step))
        result = fit(RunSpec(build_model, data), replace(CONFIG, optimizer="muon"), output)
        files = json.loads((output / "checkpoints/step-00000012/state.json").read_text())["files"]
        return {"weights_sha256": weights_sha256(result.model), "files": files, "loss": result.loss}

    def at_step(step, original):
        if step == 8:
            signal.raise_signal(signal.SIGTERM)
        return original

    whole = run(folder / "whole")
    try:
        run(folder / "stopped", at_step)
    except SystemExit as stopped:
        status = stopped.code
    saved = sorted(path.name for path in (folder / "stopped/checkpoints").iterdir())
    return {"whole": whole, "status": status, "saved": saved, "resumed": run(folder / "stopped")}


def with_nan(folder: Path) -> dict[str, Any]:
    """A run whose eighth batch makes the loss NaN and is skipped, and one whose rate is halved."""
    weights = folder / "weights.npz"
    skipped = replace(CONFIG, on_nan="skip", log_every=1)
    trained(folder / "skip", skipped, weights, lambda step, original: _nan(original) if step == 7 else original)
    left = [7]

    def at_first_attempt(step, original):
        return _nan(original) if left == [step] and left.pop() else original

    halved = replace(CONFIG, on_nan="halve", log_every=1)
    result = trained(folder / "halve", halved, weights, at_first_attempt)
    return {
        "rates": result["curves"]["learning_rate"],
        "detours": [json.loads((folder / name / "detours.json").read_text()) for name in ("skip", "halve")],
    }


def causal(folder: Path) -> dict[str, Any]:
    """A left-to-right language model from given weights, on packed rows in two parts."""
    data = write_small_data(folder, short_seq_prob=0.8)
    vocabulary = open_data(data)[1]
    encoder = BertConfig(**MODEL, vocabulary_size=len(vocabulary), dropout=0.0, attention="left_to_right", pooler=False)
    initial = BertPretrainer(BertBackbone(encoder), next_sentence=False)
    randomize(initial)
    save_preset(initial, folder / "initial", vocabulary, True)
    config = TrainingConfig(
        steps=4, batch_size=8, learning_rate=1e-2, log_every=1, padding="pack", accumulate=2, objective="causal_lm",
        nsp_weight=0.0,
    )  # fmt: skip
    run = RunConfig(replace(encoder, pooler=True), config)
    _, result = run_pretraining(data, run, folder / "run", folder / "initial")
    lines = [json.loads(line) for line in (folder / "run/history.jsonl").read_text().splitlines()]
    curve = [line["causal_lm_loss"] for line in lines if line["split"] == "train"]
    return {"curve": curve, "evaluation": result.evaluation}


def growing(folder: Path) -> dict[str, Any]:
    """A run with growing batches and changing masks, and its repetition from its second checkpoint on."""
    data = write_small_data(folder, masked_lm_prob=0.2, max_predictions_per_seq=7)
    model = BertConfig(**MODEL, vocabulary_size=len(open_data(data)[1]))
    config = TrainingConfig(
        steps=12, batch_size="4:8", masked_lm_prob="0.2:0.1", schedule="trapezoidal", decay_steps=8, optimizer="muon",
        learning_rate=1e-2, checkpoint_every=3, log_every=1,
    )  # fmt: skip
    run_pretraining(data, RunConfig(model, config), folder / "whole")
    shutil.copytree(folder / "whole", folder / "stopped")
    for step in (9, 12):
        shutil.rmtree(folder / f"stopped/checkpoints/step-{step:08d}")
    run_pretraining(data, RunConfig(model, config), folder / "stopped")
    found = {}
    for name in ("whole", "stopped"):
        state = json.loads((folder / name / "checkpoints/step-00000012/state.json").read_text())
        lines = [json.loads(line) for line in (folder / name / "history.jsonl").read_text().splitlines()]
        found[name] = [state["files"], [line["loss"] for line in lines]]
    return found


def _nan(original):
    original[2][MLM_LOGITS][0, 0] = np.nan
    return original


def main(folder: Path, name: str) -> None:
    if name in CASES:
        with guarded_steps():
            found = trained_case(folder, name)
    else:
        found = {"resumed": resumed, "with_nan": with_nan, "causal": causal, "growing": growing}[name](folder)
    print(json.dumps(found | {"backend": keras.backend.backend()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

"""The one path to `model.fit`: pre-training and fine-tuning, resumed where they were broken off."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from bert_tf.config import ConfigError, TrainingConfig, to_dict
from bert_tf.training.callbacks import Intervals, StepEvents
from bert_tf.training.checkpoints import CheckpointStore, NotFiniteError, TrainingError
from bert_tf.training.cluster import is_chief, lost_workers_told, spread
from bert_tf.training.detours import DETOURS_NAME, MOST, Detours
from bert_tf.training.distribution import precision_scope, strategy_scope
from bert_tf.training.flops import measured_peak
from bert_tf.training.interruption import Interruption
from bert_tf.training.losses import CLASSIFICATION, PRETRAINING, Objective, TrainingModel
from bert_tf.training.optimization import averaged_weights, keep_averages, make_optimizer, set_halved
from bert_tf.training.run_log import HISTORY_NAME, TENSORBOARD_NAME, RunLog
from bert_tf.training.run_page import PAGE_NAME, write_page
from bert_tf.training.tensorflow_steps import TensorFlowTrainingModel

CHECKPOINTS_NAME = "checkpoints"
# All that a run's output directory may hold: what stands here, and what the commands put beside it.
OUTPUT_NAMES = frozenset(
    {CHECKPOINTS_NAME, DETOURS_NAME, HISTORY_NAME, PAGE_NAME, TENSORBOARD_NAME, "run.json", "preset"}
)


@dataclass(frozen=True)
class TrainResult:
    """What a run gave.

    Args:
        model: the trained model.
        step: finished steps.
        loss: training loss, averaged over the last interval of the log.
        tokens_per_second: tokens that are no padding, over the time spent in steps but the first.
        evaluation: figures on held-out data; None where there is none.
        seconds: wall time of this call.
        is_chief: whether this process is the one that writes, among several of one run.
    """

    model: keras.Model
    step: int
    loss: float
    tokens_per_second: float
    evaluation: dict[str, float] | None
    seconds: float
    is_chief: bool = True


def pretrain(
    build_model: Callable[[], keras.Model],
    make_dataset: Callable[[int], tf.data.Dataset],
    config: TrainingConfig,
    output: Path,
    *,
    validation: Callable[[int], tf.data.Dataset] | None = None,
    identity: Mapping[str, Any] | None = None,
    flops: Callable[[int], float] | None = None,
    boundaries: Sequence[int] = (),
) -> TrainResult:
    """Pre-trains for `config.steps` steps, or what is left of them in `output`.

    Args:
        build_model: builds the model, `mlm_logits` (B, P, V) and `nsp_logits` (B, 2); called once, in the
            scope of strategy and precision, with all seeds set.
        make_dataset: gives batches (inputs, targets, weights) from a given step on, without end.
        config: the run.
        output: directory of the run: new, empty, or of this very run.
        validation: gives the held-out batches that fit the training batch of a given number.
        identity: whatever else the run depends on (model, data), as plain values that JSON can hold; with
            `config`, it must be equal for a checkpoint in `output` to be taken up.
        flops: gives the floating-point operations of a step with the batch of a given number, for the share of the
            devices' peak that is used; `None` records none.
        boundaries: numbers of the batches, counted from 0, from which on they have another shape.

    Returns:
        The result; at once, evaluated again, when `output` holds the finished run.

    Raises:
        ConfigError: for an output directory with something else in it, or a checkpoint of another run.
        TrainingError: for a loss that is not finite, or data that end too early.
    """
    run = _Run(PRETRAINING, config.steps, config.evaluate_every, identity or {}, flops, tuple(boundaries))
    return _fit(build_model, make_dataset, validation, config, Path(output), run)


def finetune(
    build_model: Callable[[], keras.Model],
    train_dataset: Callable[[int], tf.data.Dataset],
    dev_dataset: Callable[[], tf.data.Dataset] | None,
    config: TrainingConfig,
    output: Path,
    steps: int,
    *,
    identity: Mapping[str, Any] | None = None,
) -> TrainResult:
    """Fine-tunes a classifier for `steps` steps, evaluating after each of `config.epochs` epochs.

    Args:
        build_model: as for `pretrain`; the model gives logits (B, C).
        train_dataset: gives batches (inputs, labels (B,), weights (B,)) from a given step on.
        dev_dataset: gives the held-out batches.
        config: the run; `steps` and `evaluate_every` of it are not read.
        output: as for `pretrain`.
        steps: steps in all, `epochs` times the batches of one epoch.
        identity: as for `pretrain`.

    Returns:
        The result; its evaluation has `loss` and `accuracy`.

    Raises:
        ConfigError, TrainingError: as `pretrain` does.
    """
    if steps < 1:
        raise ConfigError(f"`steps` must be at least 1. Received: {steps}")
    run = _Run(CLASSIFICATION, steps, math.ceil(steps / config.epochs), identity or {})
    held_out = dev_dataset and functools.cache(dev_dataset)
    validation = (lambda _: held_out()) if held_out else None
    return _fit(build_model, train_dataset, validation, config, Path(output), run)


def evaluate_pretraining(model: keras.Model, dataset: tf.data.Dataset) -> dict[str, float]:
    """Evaluates a pre-trained model.

    Args:
        model: gives `mlm_logits` and `nsp_logits`.
        dataset: batches (inputs, targets, weights), ending.

    Returns:
        `loss`, `mlm_loss` (nats), `mlm_accuracy`, `mlm_perplexity`, `nsp_loss`, `nsp_accuracy`: weighted
        means over all batches.
    """
    training = TrainingModel(model, PRETRAINING)
    training.compile()
    return _evaluate(training, dataset, Interruption())


def weights_sha256(model: keras.Model) -> str:
    """Returns the SHA-256 over the float32 little-endian bytes of the trainable weights, in order."""
    digest = hashlib.sha256()
    for variable in model.trainable_weights:
        digest.update(keras.ops.convert_to_numpy(variable).astype("<f4").tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class _Run:
    objective: Objective
    steps: int
    evaluate_every: int
    identity: Mapping[str, Any]
    flops: Callable[[int], float] | None = None
    boundaries: tuple[int, ...] = ()


def _fit(
    build_model: Callable[[], keras.Model],
    make_dataset: Callable[[int], tf.data.Dataset],
    validation: Callable[[int], tf.data.Dataset] | None,
    config: TrainingConfig,
    output: Path,
    run: _Run,
) -> TrainResult:
    began = time.perf_counter()
    _check_output(output)
    with strategy_scope(config) as strategy:
        with precision_scope(config):
            keras.utils.set_random_seed(config.seed)
            model = build_model()
        training = TensorFlowTrainingModel(model, run.objective, config.accumulate)
        training.compile(optimizer=make_optimizer(config, run.steps, model.trainable_variables))
    store = CheckpointStore(
        output / CHECKPOINTS_NAME,
        {"model": model.variables, "optimizer": training.optimizer.variables},
        {"training": to_dict(config), "steps": run.steps, **run.identity},
        config.keep_checkpoints,
        is_chief(strategy),
    )
    if validation:
        validation = _spread(validation, strategy, config.evaluate_steps)
    events = _train(training, store, make_dataset, validation, config, output, run)
    keep_averages(training.optimizer, model.trainable_variables)
    if is_chief(strategy):
        settings = {"training": to_dict(config), **run.identity}
        print(f"a report to look at: {write_page(output, settings, run.steps)}", file=sys.stderr)
    return TrainResult(
        model=model,
        step=events.step,
        loss=events.progress["loss"],
        tokens_per_second=events.progress["tokens_per_second"],
        evaluation=events.evaluation,
        seconds=time.perf_counter() - began,
        is_chief=is_chief(strategy),
    )


def _train(
    training: TensorFlowTrainingModel,
    store: CheckpointStore,
    make_dataset: Callable[[int], tf.data.Dataset],
    validation: Callable[[int], Any] | None,
    config: TrainingConfig,
    output: Path,
    run: _Run,
) -> StepEvents:
    """Runs what is left of the steps, going back to a checkpoint where a loss is not finite and `on_nan` says so."""
    strategy, interruption = training.distribute_strategy, Interruption()
    evaluate = _evaluator(training, validation, interruption)
    detours = Detours.load(output)
    while True:
        events = _events(training, store, config, output, run, evaluate, interruption)
        set_halved(training.optimizer, detours.halved)
        try:
            with contextlib.closing(events.log), interruption.watch():
                ends = [*map(detours.step_of, run.boundaries), run.steps]
                _run_steps(training, _spread(detours.around(make_dataset), strategy), events, ends)
                if interruption:
                    events.stop()
            return events
        except NotFiniteError as error:
            detours = _next_detour(detours, error, store, config.on_nan)
            if is_chief(strategy):
                detours.save(output)


def _events(
    training: TrainingModel,
    store: CheckpointStore,
    config: TrainingConfig,
    output: Path,
    run: _Run,
    evaluate: Callable[[int], dict[str, float]] | None,
    interruption: Interruption,
) -> StepEvents:
    """Goes back to the newest checkpoint; returns what happens between the steps from there on."""
    start_step, progress = store.restore()
    if start_step:
        print(f"{output}: going on after step {start_step} of {run.steps}", file=sys.stderr)
    elif config.on_nan != "stop" and not store.steps():
        store.save(0, {})
    return StepEvents(
        training,
        store,
        RunLog(output, start_step, run.steps, is_chief(training.distribute_strategy)),
        evaluate,
        Intervals(config.log_every, config.checkpoint_every, run.evaluate_every),
        start_step,
        run.steps,
        interruption,
        progress,
        _ideal_seconds(training, config, run),
    )


def _ideal_seconds(training: TrainingModel, config: TrainingConfig, run: _Run) -> Callable[[int], float] | None:
    """Returns what gives the time of the step after some at the peak of all devices, where that is known."""
    if run.flops is None:
        return None
    flops, devices = run.flops, max(1, len(tf.config.list_logical_devices("GPU")))
    peak = devices * (config.peak_flops or measured_peak(training.model.compute_dtype))
    return lambda step: flops(step) / peak


def _next_detour(detours: Detours, error: NotFiniteError, store: CheckpointStore, on_nan: str) -> Detours:
    """Returns the detours with one more for `error`, which is raised again where there is to be none."""
    if on_nan == "stop" or len(detours) >= MOST:
        raise error
    last = store.steps()[-1]
    more = detours.skip(error.step) if on_nan == "skip" else detours.halve(last)
    done = f"leaves out batch {detours.batch_of(error.step)}" if on_nan == "skip" else "halves the rate"
    print(f"{error} The run goes back to step {last} and {done}.", file=sys.stderr)
    return more


def _run_steps(
    training: TrainingModel,
    make_dataset: Callable[[int], tf.data.Dataset],
    events: StepEvents,
    ends: Sequence[int],
) -> None:
    """Runs the steps that are left, those of each shape of batches by themselves, which end at `ends`."""
    if events.step == ends[-1]:
        events.evaluate_once()
    # Traced anew: the rates that are halved may have changed.
    training.make_train_function(force=True)
    for end in ends:
        if events.step < end:
            steps = end - events.step
            with lost_workers_told(training.distribute_strategy, lambda: events.step):
                training.fit(
                    make_dataset(events.step), steps_per_epoch=steps, shuffle=False, verbose=0, callbacks=[events]
                )
        if events.step < end:
            raise TrainingError(
                f"step {events.step}: the training data ended before step {end}; they must repeat without end."
            )


def _spread(
    make: Callable[[int], tf.data.Dataset], strategy: tf.distribute.Strategy, batches: int = 0
) -> Callable[[int], Any]:
    """Returns what gives the same batches for `fit` under `strategy`, or the first few of them."""
    return lambda start: spread(make(start).take(batches or -1), strategy)


def _evaluator(
    training: TrainingModel,
    validation: Callable[[int], tf.data.Dataset] | None,
    interruption: Interruption,
) -> Callable[[int], dict[str, float]] | None:
    if validation is None:
        return None
    make = validation

    def evaluate(batch: int) -> dict[str, float]:
        dataset = make(batch)
        with averaged_weights(training.optimizer, training.trainable_variables):
            return _evaluate(training, dataset, interruption)

    return evaluate


def _evaluate(training: TrainingModel, dataset: tf.data.Dataset, interruption: Interruption) -> dict[str, float]:
    def give_way(batch: int, logs: Any) -> None:
        training.stop_evaluating = bool(interruption)

    watch = keras.callbacks.LambdaCallback(on_test_batch_end=give_way)
    with warnings.catch_warnings():
        # Keras takes the end of data of unknown size for an accident.
        warnings.filterwarnings("ignore", message="Your input ran out of data")
        training.evaluate(dataset, verbose=0, callbacks=[watch])
    results = training.results()
    if "mlm_loss" in results:
        results["mlm_perplexity"] = math.exp(min(results["mlm_loss"], 700.0))
    return results


def _check_output(output: Path) -> None:
    if output.exists() and not output.is_dir():
        raise ConfigError(f"the output must be a directory. Received: {output}")
    output.mkdir(parents=True, exist_ok=True)
    strangers = sorted(p.name for p in output.iterdir() if p.name not in OUTPUT_NAMES and p.name[0] != ".")
    if strangers:
        raise ConfigError(
            f"{output}: an output directory must be new, empty or of this run; it holds {', '.join(strangers[:5])}"
        )

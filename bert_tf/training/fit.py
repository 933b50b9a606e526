"""Runs `model.fit` for pre-training and fine-tuning; interrupted runs are resumed."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from bert_tf.config import ConfigError, TrainingConfig, local_path, to_dict
from bert_tf.config.files import only_writer
from bert_tf.data.input.batches import Dataset
from bert_tf.training.backends import Backend, Model, current_backend, precision_scope
from bert_tf.training.evaluation.context import Evaluation, EvaluationContext
from bert_tf.training.evaluation.evaluate import early_stopping, evaluator, measuring
from bert_tf.training.logging.flops import DevicePeak, measured_peak
from bert_tf.training.logging.run_log import HISTORY_NAME, REPORT_NAME, TENSORBOARD_NAME, RunLog
from bert_tf.training.loop.callback import Intervals, TrainingCallback
from bert_tf.training.loop.checkpoints import CheckpointStore, NotFiniteError, TrainingError
from bert_tf.training.loop.nan_recovery import MOST, RECOVERY_NAME, NanRecovery
from bert_tf.training.loop.preemption import PreemptionHandler
from bert_tf.training.loop.profiler import StepProfile, check_profiled_steps
from bert_tf.training.losses import CLASSIFICATION, PRETRAINING, Objective, TrainingModel
from bert_tf.training.optim.build import keep_averages, make_optimizer, set_halved
from bert_tf.training.validation import validate_config

CHECKPOINTS_NAME = "checkpoints"
# All names that a run's output directory may hold: files of this module and of the commands.
OUTPUT_NAMES = frozenset(
    {CHECKPOINTS_NAME, RECOVERY_NAME, HISTORY_NAME, REPORT_NAME, TENSORBOARD_NAME, "run.json", "preset"}
    | {"augment", "dev", "features", "result.json", "skipped.tsv", "trial.json"}
)
# Called with the output directory, the settings of the run, its total steps and the last evaluation.
FinishHook = Callable[[Path, Mapping[str, Any], int, Evaluation | None], object]


@dataclass(frozen=True)
class TrainResult:
    """The result of a run.

    Args:
        model: the trained model.
        step: finished steps.
        loss: training loss, averaged over the last logging interval.
        tokens_per_second: throughput in tokens without padding; the first step is not timed.
        evaluation: metrics on held-out data, None without evaluation.
        seconds: wall time of this call.
        is_chief: True in the process of the run that writes files.

    Example:
        >>> config = bert_tf.BertConfig.from_size("tiny", vocabulary_size=100)
        >>> def build():
        ...     return bert_tf.BertPretrainer(bert_tf.BertBackbone(config))
        >>> def batches(step):
        ...     return bert_tf.pretraining_dataset("data", "train", batch_size=4, seed=1, start_step=step)
        >>> result = bert_tf.pretrain(build, batches, bert_tf.TrainingConfig(steps=2, batch_size=4), "runs/new")
        >>> result.step, result.loss > 0
        (2, True)
    """

    model: keras.Model
    step: int
    loss: float
    tokens_per_second: float
    evaluation: dict[str, float] | None
    seconds: float
    is_chief: bool = True


@dataclass(frozen=True)
class Packing:
    """Packing of several examples into a row.

    Args:
        model: returns a model for packed batches that shares the variables of a model for unpacked ones.
        batches: returns the packed batches of a dataset; their rows are a multiple of the second argument.
    """

    model: Callable[[keras.Model], keras.Model]
    batches: Callable[[Dataset, int], Dataset]

    def around(self, make: Callable[[int], Dataset], multiple: int) -> Callable[[int], Dataset]:
        """Returns a function that packs the datasets of `make`; equal datasets return the same packed dataset."""
        packed: Callable[..., Dataset] = functools.cache(lambda dataset: self.batches(dataset, multiple))
        return lambda start: packed(make(start))


def pretrain(
    build_model: Callable[[], keras.Model],
    make_dataset: Callable[[int], Dataset],
    config: TrainingConfig,
    output: str | Path,
    *,
    objective: Objective = PRETRAINING,
    validation: Callable[[int], Dataset] | None = None,
    identity: Mapping[str, Any] | None = None,
    flops: Callable[[int, float], float] | None = None,
    boundaries: Sequence[int] = (),
    packing: Packing | None = None,
    evaluation_context: EvaluationContext | None = None,
    on_finish: FinishHook | None = None,
) -> TrainResult:
    """Pre-trains for `config.steps` steps, or for the remaining steps of the run in `output`.

    Args:
        build_model: builds a model with the outputs of `objective`; called once, in scope of strategy and precision.
        make_dataset: returns endless batches (inputs, targets, weights) from a step on.
        config: training configuration.
        output: output directory: new, empty, or of the same run.
        objective: outputs to train: `mlm_logits` (B, P, V) and `nsp_logits` (B, 2), or those of one head.
        validation: returns the held-out batches for a training batch number.
        identity: all other values that the run depends on (model, data), as JSON values. A checkpoint in `output` is
            resumed only if they and `config` are equal.
        flops: returns the floating-point operations of a step from the batch number and the number of positions, for
            model FLOPs utilization; None records none.
        boundaries: numbers of the batches, counted from 0, from which on batches have another shape.
        packing: packing of several examples into a row; None leaves the batches unchanged.
        evaluation_context: baselines and sample predictions to report with every evaluation; None reports none.
        on_finish: called at the end of the run, such as `bert_tf.reports.training.write_report`; None for nothing.

    Returns:
        The result. If `output` holds the finished run, it is evaluated again without training.

    Raises:
        ConfigError: if the output directory holds other files, or a checkpoint of another run.
        TrainingError: if a loss is not finite, or the data ends too early.
        RuntimeError: if another process is training in `output`.

    Example:
        >>> config = bert_tf.BertConfig.from_size("tiny", vocabulary_size=100)
        >>> def build():
        ...     return bert_tf.BertPretrainer(bert_tf.BertBackbone(config))
        >>> def batches(step):
        ...     return bert_tf.pretraining_dataset("data", "train", batch_size=4, seed=1, start_step=step)
        >>> bert_tf.pretrain(build, batches, bert_tf.TrainingConfig(steps=2, batch_size=4), "runs/new").step
        2
    """
    every = config.evaluate_every
    run = RunSpec(
        objective,
        config.steps,
        every,
        identity or {},
        flops,
        tuple(boundaries),
        packing,
        evaluation_context,
        on_finish=on_finish,
    )
    return _fit(build_model, make_dataset, validation, config, local_path(output), run)


def finetune(
    build_model: Callable[[], keras.Model],
    train_dataset: Callable[[int], Dataset],
    config: TrainingConfig,
    output: str | Path,
    steps: int,
    *,
    objective: Objective = CLASSIFICATION,
    measure: Callable[[Model, int], Mapping[str, float]] | None = None,
    metric: str = "accuracy",
    identity: Mapping[str, Any] | None = None,
    on_finish: FinishHook | None = None,
) -> TrainResult:
    """Fine-tunes for `steps` steps and measures after each of `config.epochs` epochs.

    Args:
        build_model: as for `pretrain`.
        train_dataset: returns batches (inputs, targets, weights) from a step on; targets and weights are one tensor
            each if the model returns one tensor.
        config: training configuration; `steps` and `evaluate_every` are ignored. With `patience` the run may end early.
        output: as for `pretrain`.
        steps: total steps: `epochs` times the batches of one epoch.
        objective: outputs to train.
        measure: returns metrics after a number of steps from the model, a function from a dictionary of numpy arrays to
            numpy arrays; None measures nothing.
        metric: the metric, higher is better, that `patience` monitors.
        identity: as for `pretrain`.
        on_finish: as for `pretrain`.

    Returns:
        The result, with the model and the metrics of the last step.

    Raises:
        ConfigError: as for `pretrain`, or if `steps` is less than 1.
        TrainingError: as for `pretrain`.

    Example:
        >>> config = bert_tf.BertConfig.from_size("tiny", vocabulary_size=100)
        >>> def build():
        ...     return bert_tf.BertTextClassifier(bert_tf.BertBackbone(config), num_classes=2)
        >>> ids = np.array([[2, 5, 6, 3], [2, 7, 3, 0]])
        >>> inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 1 * (ids > 0)}
        >>> def batches(step):
        ...     rows = tf.data.Dataset.from_tensors((inputs, np.array([1, 0]), np.ones(2, "float32")))
        ...     return rows.repeat().skip(step)
        >>> bert_tf.finetune(build, batches, bert_tf.TrainingConfig(epochs=1), "runs/new", steps=2).step
        2
    """
    if steps < 1:
        raise ConfigError(f"`steps` must be at least 1. Received: {steps}")
    run = RunSpec(
        objective,
        steps,
        math.ceil(steps / config.epochs),
        identity or {},
        measure=measure,
        enough=functools.partial(early_stopping, metric=metric, patience=config.patience),
        on_finish=on_finish,
    )
    return _fit(build_model, train_dataset, None, config, local_path(output), run)


def weights_sha256(model: keras.Model) -> str:
    """Returns the SHA-256 over the float32 little-endian bytes of the trainable weights, in order.

    Example:
        >>> config = bert_tf.BertConfig.from_size("tiny", vocabulary_size=100)
        >>> keras.utils.set_random_seed(1)
        >>> first = bert_tf.weights_sha256(bert_tf.BertBackbone(config))
        >>> keras.utils.set_random_seed(1)
        >>> bert_tf.weights_sha256(bert_tf.BertBackbone(config)) == first
        True
    """
    digest = hashlib.sha256()
    for variable in model.trainable_weights:
        digest.update(keras.ops.convert_to_numpy(variable).astype("<f4").tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class RunSpec:
    """Settings of a run that are not in its configuration.

    Args:
        objective: losses and metrics.
        steps: total steps.
        evaluate_every: steps between two evaluations.
        identity: values that must be equal for a run to be resumed.
        flops: see `pretrain`.
        boundaries: see `pretrain`.
        packing: see `pretrain`.
        evaluation_context: see `pretrain`.
        measure: see `finetune`.
        enough: returns True if the metrics so far end the run early.
        on_finish: see `pretrain`.
    """

    objective: Objective
    steps: int
    evaluate_every: int
    identity: Mapping[str, Any]
    flops: Callable[[int, float], float] | None = None
    boundaries: tuple[int, ...] = ()
    packing: Packing | None = None
    evaluation_context: EvaluationContext | None = None
    measure: Callable[[Model, int], Mapping[str, float]] | None = None
    enough: Callable[[Sequence[Mapping[str, float]]], bool] = lambda _: False
    on_finish: FinishHook | None = None

    def settings(self, config: TrainingConfig) -> dict[str, Any]:
        """Returns all settings of the run, for its logs and its report."""
        return {"training": to_dict(config), **self.identity}


def _fit(
    build_model: Callable[[], keras.Model],
    make_dataset: Callable[[int], Dataset],
    validation: Callable[[int], Dataset] | None,
    config: TrainingConfig,
    output: Path,
    run: RunSpec,
) -> TrainResult:
    began = time.perf_counter()
    validate_config(config)
    check_profiled_steps(config, run.steps)
    check_output(output)
    backend = current_backend()
    with backend.build_scope(config):
        with precision_scope(config):
            keras.utils.set_random_seed(config.seed)
            model = build_model()
        trained = run.packing.model(model) if run.packing else model
        training = backend.training_model(trained, run.objective, config.accumulate)
        training.compile(optimizer=make_optimizer(config, run.steps, model.trainable_variables))
    store = CheckpointStore(
        output / CHECKPOINTS_NAME,
        {"model": model.variables, "optimizer": training.optimizer.variables},
        {"training": to_dict(config), "steps": run.steps, **_backend(), **run.identity},
        config.keep_checkpoints,
        backend.is_chief,
        backend.array_of,
    )
    if run.packing:
        rows = backend.rows_multiple(config)
        make_dataset = run.packing.around(make_dataset, rows)
        validation = validation and run.packing.around(validation, rows)
    if validation:
        validation = _spread(validation, backend, config.evaluate_steps)
    alone = only_writer(output, "training in") if backend.is_chief else contextlib.nullcontext()
    with backend.run_scope(), alone:
        events = _train(training, backend, model, store, make_dataset, validation, config, output, run)
        keep_averages(training.optimizer, model.trainable_variables)
    if backend.is_chief and run.on_finish:
        run.on_finish(output, run.settings(config), run.steps, events.evaluation)
    return TrainResult(
        model=model,
        step=events.step,
        loss=events.progress["loss"],
        tokens_per_second=events.progress["tokens_per_second"],
        evaluation=events.evaluation.figures if events.evaluation else None,
        seconds=time.perf_counter() - began,
        is_chief=backend.is_chief,
    )


def _backend() -> dict[str, str]:
    """Returns the checkpoint entry of a backend other than TensorFlow, whose variables and dropout masks differ."""
    backend = keras.backend.backend()
    return {} if backend == "tensorflow" else {"backend": backend}


def _train(
    training: TrainingModel,
    backend: Backend,
    model: keras.Model,
    store: CheckpointStore,
    make_dataset: Callable[[int], Dataset],
    validation: Callable[[int], Any] | None,
    config: TrainingConfig,
    output: Path,
    run: RunSpec,
) -> TrainingCallback:
    """Runs the remaining steps; returns to a checkpoint after a loss that is not finite, if `on_nan` allows it."""
    preemption = PreemptionHandler(backend.any_worker())
    evaluation = evaluator(training, model, validation, preemption, run.evaluation_context)
    if run.measure:
        evaluation = measuring(training, backend.compile_predict(model), run.measure)
    recovery = NanRecovery.load(output)
    while True:
        events = _events(training, backend, store, config, output, run, evaluation, preemption)
        set_halved(training.optimizer, recovery.halved)
        try:
            with contextlib.closing(events.log), preemption.watch():
                ends = [*map(recovery.step_of, run.boundaries), run.steps]
                batches = _spread(recovery.around(make_dataset), backend)
                with _profile(config, output, events, backend.is_chief) as profile:
                    _run_steps(training, backend, batches, events, ends, profile)
                if preemption:
                    events.stop()
                events.log.finish()
            return events
        except NotFiniteError as error:
            recovery = _next_recovery(recovery, error, store, config.on_nan)
            if backend.is_chief:
                recovery.save(output)


def _events(
    training: TrainingModel,
    backend: Backend,
    store: CheckpointStore,
    config: TrainingConfig,
    output: Path,
    run: RunSpec,
    evaluation: Callable[[int], Evaluation] | None,
    preemption: PreemptionHandler,
) -> TrainingCallback:
    """Restores the newest checkpoint; returns the callback that runs from there on."""
    start_step, progress = store.restore()
    backend.check_same_step(start_step)
    if start_step:
        print(f"{output}: resuming after step {start_step} of {run.steps}", file=sys.stderr)
    elif config.on_nan != "stop" and not store.steps():
        store.save(0, {})
    return TrainingCallback(
        training,
        store,
        RunLog(output, start_step, run.steps, backend.is_chief, run.settings(config)),
        evaluation,
        Intervals(config.log_every, config.checkpoint_every, run.evaluate_every),
        start_step,
        run.steps,
        preemption,
        progress,
        _share_of_peak(training, backend, config, run),
        run.enough,
    )


def _share_of_peak(
    training: TrainingModel, backend: Backend, config: TrainingConfig, run: RunSpec
) -> Callable[[int, float, float], float] | None:
    """Returns a function from step, positions and seconds to the share of all devices' peak that a step uses."""
    if run.flops is None or (config.strategy == "tpu" and not config.peak_flops):
        return None
    flops = run.flops
    devices, dtype = backend.num_devices, training.model.compute_dtype
    peak = DevicePeak(devices * config.peak_flops, lambda: devices * measured_peak(dtype))
    return lambda step, positions, seconds: peak.share(flops(step, positions), seconds)


def _next_recovery(recovery: NanRecovery, error: NotFiniteError, store: CheckpointStore, on_nan: str) -> NanRecovery:
    """Returns the recovery state with one more entry for `error`, or raises `error` again if none is allowed."""
    if on_nan == "stop" or len(recovery) >= MOST:
        batch = f"The step took batch {recovery.batch_of(error.step)}, counted from 0."
        hint = " Set `training.on_nan` to skip or halve to continue." if on_nan == "stop" else ""
        raise NotFiniteError(error.step, f"{error} {batch}{hint}") from error
    last = store.steps()[-1]
    extended = recovery.skip(error.step) if on_nan == "skip" else recovery.halve(last)
    action = f"skips batch {recovery.batch_of(error.step)}" if on_nan == "skip" else "halves the learning rate"
    print(f"{error} The run returns to step {last} and {action}.", file=sys.stderr)
    return extended


def _profile(
    config: TrainingConfig, output: Path, events: TrainingCallback, writes: bool
) -> contextlib.closing[StepProfile]:
    steps = config.profiled_steps if writes else range(0)
    return contextlib.closing(StepProfile(steps, output / TENSORBOARD_NAME, lambda: events.step))


def _run_steps(
    training: TrainingModel,
    backend: Backend,
    make_dataset: Callable[[int], Dataset],
    events: TrainingCallback,
    ends: Sequence[int],
    profile: StepProfile,
) -> None:
    """Runs the remaining steps, one `fit` call for each batch shape; the shapes end at `ends`."""
    if events.step == ends[-1] or events.should_stop:
        events.evaluate_once()
        return
    # Traced again, because the halved learning rates may have changed.
    training.make_train_function(force=True)
    for end in ends:
        if events.step < end:
            steps = end - events.step
            with backend.raise_on_lost_worker(lambda: events.step):
                callbacks = [profile, events]
                training.fit(
                    make_dataset(events.step), steps_per_epoch=steps, shuffle=False, verbose=0, callbacks=callbacks
                )
        if events.should_stop:
            return
        if events.step < end:
            raise TrainingError(
                f"step {events.step}: the training data ended before step {end}. Use a dataset that repeats."
            )


def _spread(make: Callable[[int], Dataset], backend: Backend, batches: int = 0) -> Callable[[int], Any]:
    """Returns a function for the same batches in the form that `fit` takes, or for the first `batches` of them."""
    return lambda start: backend.batches(make(start).take(batches or -1))


def check_output(output: Path) -> None:
    """Creates the output directory of a run.

    Args:
        output: the output directory.

    Raises:
        ConfigError: if `output` is not a directory, or holds files that no run has written.
    """
    if output.exists() and not output.is_dir():
        raise ConfigError(f"`output` must be a directory. Received: {output}")
    output.mkdir(parents=True, exist_ok=True)
    other_files = sorted(p.name for p in output.iterdir() if p.name not in OUTPUT_NAMES and p.name[0] != ".")
    if other_files:
        raise ConfigError(
            f"{output}: the output directory must be new, empty or of this run, but it holds "
            f"{', '.join(other_files[:5])}. Choose another output directory."
        )

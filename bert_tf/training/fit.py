"""Runs `model.fit` for pre-training and fine-tuning; interrupted runs are resumed."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import keras

from bert_tf.config import TrainingConfig, to_dict
from bert_tf.config.files import only_writer
from bert_tf.config.preset_names import CHECKPOINTS_NAME
from bert_tf.encoding.rows import Model
from bert_tf.entry.amounts import available_cores, plural
from bert_tf.layers.computation import set_computation
from bert_tf.optim.build import averaged_weights, averages, keep_averages, make_optimizer, set_halved
from bert_tf.storage import refresh, settle, working_copy
from bert_tf.training.backends import current_backend, precision_scope
from bert_tf.training.evaluation.baselines import Evaluation
from bert_tf.training.evaluation.evaluate import early_stopping, evaluate
from bert_tf.training.logging.flops import DevicePeak, measured_peak
from bert_tf.training.logging.run_log import RunLog
from bert_tf.training.logging.run_status import RunStatus, StatusReporter, run_name
from bert_tf.training.loop.callback import Events, Intervals, TrainingCallback
from bert_tf.training.loop.checkpoints import CheckpointStore, NotFiniteError, TrainingError, Writing
from bert_tf.training.loop.extension import Extension, with_former_warmup
from bert_tf.training.loop.nan_recovery import NanRecovery
from bert_tf.training.loop.preemption import PreemptionHandler
from bert_tf.training.loop.profiler import StepProfile, check_profiled_steps
from bert_tf.training.output import TENSORBOARD_NAME, is_chief, make_output
from bert_tf.training.run_spec import RunSpec, TrainingData
from bert_tf.training.validation import validate_config


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
        >>> def batches(first):
        ...     return bert_tf.pretraining_dataset("data", "train", batch_size=4, seed=1, start_step=first)
        >>> run = bert_tf.RunSpec(build, bert_tf.TrainingData(batches))
        >>> result = bert_tf.fit(run, bert_tf.TrainingConfig(steps=2, batch_size=4), "runs/new")
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


def fit(run: RunSpec, config: TrainingConfig, output: str | Path) -> TrainResult:
    """Trains for all steps of a run, or for the remaining steps of the run in `output`.

    Args:
        run: model, data, objective and evaluations.
        config: training configuration. With `patience` a run that measures a metric may end early.
        output: output directory, or its URL: new, empty, or of the same run.

    Returns:
        The result. If `output` holds the finished run, it is evaluated again without training.

    Raises:
        ConfigError: if settings conflict, or the output directory holds other files or a checkpoint of another run.
        TrainingError: if a loss is not finite, or the data ends too early.
        RuntimeError: if another process is training in `output`.

    Example:
        >>> config = bert_tf.BertConfig.from_size("tiny", vocabulary_size=100)
        >>> def build():
        ...     return bert_tf.BertPretrainer(bert_tf.BertBackbone(config))
        >>> def batches(first):
        ...     return bert_tf.pretraining_dataset("data", "train", batch_size=4, seed=1, start_step=first)
        >>> run = bert_tf.RunSpec(build, bert_tf.TrainingData(batches))
        >>> bert_tf.fit(run, bert_tf.TrainingConfig(steps=2, batch_size=4), "runs/new").step
        2
    """
    with working_copy(output, writes=is_chief(config.strategy)) as directory:
        return _fit(run, config, directory)


def _fit(run: RunSpec, config: TrainingConfig, output: Path) -> TrainResult:
    began = time.perf_counter()
    trainer = _Trainer(run, with_former_warmup(config, output) if run.common_batches else config, output)
    writer = only_writer(output, "training in") if trainer.is_chief else contextlib.nullcontext()
    with trainer.backend.run_scope(), writer, trainer.reporter.watch():
        events = trainer.train()
        keep_averages(trainer.training.optimizer, trainer.model.trainable_variables)
    return TrainResult(
        model=trainer.model,
        step=events.step,
        loss=events.progress["loss"],
        tokens_per_second=events.progress["tokens_per_second"],
        evaluation=events.evaluation.figures if events.evaluation else None,
        seconds=time.perf_counter() - began,
        is_chief=trainer.is_chief,
    )


class _Trainer:
    """The built parts of a run: backend, model, optimizer, checkpoints and data."""

    def __init__(self, run: RunSpec, config: TrainingConfig, output: Path) -> None:
        self._run, self._config, self._output = run, config, output
        self.steps = config.steps if run.steps is None else run.steps
        validate_config(config)
        check_profiled_steps(config, self.steps)
        make_output(output)
        self.backend = backend = current_backend()
        with backend.build_scope(config):
            backend.check_same_run({"training": to_dict(config), "steps": self.steps, **run.identity})
            with precision_scope(config):
                keras.utils.set_random_seed(config.seed)
                self.model = run.build_model()
            set_computation(
                self.model, config.attention_kernel, config.rematerialize, config.pad_vocabulary, config.normalization
            )
            trained = run.data.packing.model(self.model) if run.data.packing else self.model
            self.training = backend.training_model(trained, run.objective, config.accumulate, backend.uses_xla(config))
            optimizer = make_optimizer(config, self.steps, self.model.trainable_variables)
            self.training.compile(optimizer=optimizer)
        self.is_chief = backend.is_chief
        self._data = run.data.on(backend, config)
        self._preemption = PreemptionHandler(backend.agreement())
        self.reporter = StatusReporter(output, self._status(), run.on_report if backend.is_chief else None)
        extension = Extension(config, run.common_batches)
        self._keep_step = extension.keep_step
        # Variables and dropout masks of other backends differ.
        named = {} if (name := keras.backend.backend()) == "tensorflow" else {"backend": name}
        self._store = CheckpointStore(
            output / CHECKPOINTS_NAME,
            {"model": self.model.variables, "optimizer": self.training.optimizer.variables},
            {"training": to_dict(config), "steps": self.steps, **named, **run.identity},
            Writing(
                config.keep_checkpoints,
                config.keep_every,
                self._keep_step,
                backend.is_chief,
                backend.array_of,
                run.describe and functools.partial(run.describe, self.model),
                self._weights,
            ),
            backend.free_settings,
            extension.common_steps,
        )

    def train(self) -> TrainingCallback:
        """Runs the remaining steps; returns to a checkpoint after a loss that is not finite, if `on_nan` allows it."""
        self._share_checkpoints()
        recovery = NanRecovery.load(self._output)
        while True:
            events = self._restore()
            set_halved(self.training.optimizer, recovery.halved)
            try:
                with contextlib.closing(events.log), self._preemption.watch():
                    if self.is_chief and events.step < self.steps:
                        events.log.say(*self._announced())
                    self._run_steps(events, self._data.without(recovery))
                    if self._preemption:
                        events.stop()
                    events.log.finish()
                return events
            except NotFiniteError as error:
                self._share_checkpoints()
                recovery = recovery.after(error, self._config.on_nan, self._store.steps())
                if self.is_chief:
                    recovery.save(self._output)

    def _share_checkpoints(self) -> None:
        """Makes the checkpoints of the chief available to all workers, whose copies of a store may be older."""
        if self.backend.workers:
            settle(self._output)
            self.backend.workers.wait()
        refresh(self._output)

    def _status(self) -> RunStatus:
        """Returns the facts of the run for its reports."""
        model = {
            "kind": type(self.model).__name__,
            "parameters": self.model.count_params(),
            "backend": keras.backend.backend(),
            "devices": self.backend.num_devices,
        }
        settings = self._run.settings(self._config)
        return RunStatus(run_name(self._output), self.steps, model=model, data=self._run.facts, settings=settings)

    def _announced(self) -> list[str]:
        """Returns lines about devices, model and data."""
        kind, devices = self.backend.device_kind, self.backend.num_devices
        cores = f", {plural(available_cores(), 'core')}" if kind == "CPU" else ""
        count = f"{devices} x " if devices > 1 else ""
        return [
            f"device: {count}{kind}{cores}, {keras.backend.backend()}, {self._config.precision}",
            f"model: {type(self.model).__name__}, {plural(self.model.count_params(), 'parameter')}",
            *(self._run.announce(lambda: bool(self._preemption)) if self._run.announce else ()),
        ]

    def _restore(self) -> TrainingCallback:
        """Restores the newest checkpoint; returns the callback that runs from there on."""
        start_step, progress = self._store.restore()
        self.backend.check_same_step(start_step)
        config, evaluation = self._config, self._run.evaluation
        if start_step:
            print(f"{self._output}: resuming after step {start_step} of {self.steps}", file=sys.stderr)
        elif config.on_nan != "stop" and not self._store.steps():
            self._store.save(0, {})
        events = Events(
            self._store,
            RunLog(self._output, start_step, self.steps, self.is_chief, self._run.settings(config)),
            self._preemption,
            self._evaluate,
            self._share_of_peak(),
            self._is_enough,
            self.reporter.update,
        )
        self.reporter.start(start_step)
        every = config.evaluate_every if evaluation.every is None else evaluation.every
        intervals = Intervals(config.log_every, config.checkpoint_every, every, self.steps, self._keep_step)
        return TrainingCallback(self.training, events, intervals, start_step, progress)

    def _run_steps(self, events: TrainingCallback, data: TrainingData) -> None:
        """Runs the remaining steps, one `fit` call for each batch shape."""
        if events.step == self.steps or events.should_stop:
            events.evaluate_once()
            return
        # Traced again, because the halved learning rates may have changed.
        self.training.make_train_function(force=True)
        profiled = self._config.profiled_steps if self.is_chief else range(0)
        directory = self._output / TENSORBOARD_NAME
        profile = StepProfile(profiled, directory, lambda: events.step, self.training.wait)
        with contextlib.closing(profile):
            for end in data.ends(self.steps):
                if events.step < end:
                    batches, count = data.from_step(events.step), end - events.step
                    with self.backend.raise_on_lost_worker(lambda: events.step):
                        self.training.fit(
                            batches, steps_per_epoch=count, shuffle=False, verbose=0, callbacks=[profile, events]
                        )
                if events.should_stop:
                    return
                if events.step < end:
                    raise TrainingError(
                        f"step {events.step}: the training data ended before step {end}. Use a dataset that repeats."
                    )
                # The next `fit` resets the metrics.
                events.check_finite()

    def _weights(self, step: int) -> dict[str, keras.Variable]:
        """Returns the variables with the weights to evaluate after a step, by their path in the model."""
        weights = {variable.path: variable for variable in self.model.weights}
        # The averages begin with the first step.
        return weights | averages(self.training.optimizer, self.model.trainable_variables) if step else weights

    def _evaluate(self, batch: int) -> Evaluation | None:
        """Evaluates after a training batch number, on moving averages of the weights if the optimizer keeps them."""
        evaluation = self._run.evaluation
        if not evaluation.measure and self._data.held_out is None:
            return None
        with averaged_weights(self.training.optimizer, self.training.trainable_variables):
            if evaluation.measure:
                return Evaluation(dict(evaluation.measure(self._predict, batch + 1)))
            held_out = self._data.held_out_at(batch, self._config.evaluate_steps)
            metrics = evaluate(self.training, held_out, self._preemption)
            if evaluation.context is None:
                return Evaluation(metrics)
            return evaluation.context.of(self.model, batch, metrics, lambda: bool(self._preemption))

    @functools.cached_property
    def _predict(self) -> Model:
        return self.backend.compile_predict(self.model)

    def _is_enough(self, history: Sequence[Mapping[str, float]]) -> bool:
        metric = self._run.evaluation.metric
        return metric is not None and early_stopping(history, metric, self._config.patience)

    def _share_of_peak(self) -> Callable[[int, float, float], float] | None:
        """Returns a function from step, positions and seconds to the share of all devices' peak that a step uses."""
        config, flops = self._config, self._run.flops
        if flops is None or (config.strategy == "tpu" and not config.peak_flops):
            return None
        devices, dtype = self.backend.num_devices, self.training.model.compute_dtype
        peak = DevicePeak(devices * config.peak_flops, lambda: devices * measured_peak(dtype))
        return lambda step, positions, seconds: peak.share(flops(step, positions), seconds)


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

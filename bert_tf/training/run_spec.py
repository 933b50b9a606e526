"""Input of `fit` besides the configuration: the model, its data and its evaluations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import keras

from bert_tf.config import ConfigError, TrainingConfig, to_dict
from bert_tf.data.input import own_rows
from bert_tf.data.input.dataset import ALL_ROWS, Dataset, RowShare
from bert_tf.encoding.rows import Model
from bert_tf.training.backends import Backend
from bert_tf.training.evaluation.baselines import EvaluationContext
from bert_tf.training.logging.run_status import ReportHook
from bert_tf.training.loop.nan_recovery import NanRecovery
from bert_tf.training.losses import PRETRAINING, Objective

# Called with the model, the directory of a checkpoint, and the number of finished steps.
DescribeHook = Callable[[keras.Model, Path, int], None]


@dataclass(frozen=True)
class Packing:
    """Packing of several examples into a row.

    Args:
        model: returns a model for packed batches that shares the variables of a model for unpacked ones.
        batches: returns the packed batches of a dataset; their rows are a multiple of the second argument.
    """

    model: Callable[[keras.Model], keras.Model]
    batches: Callable[[Dataset, int], Dataset]


@dataclass(frozen=True)
class TrainingData:
    """All batches that `fit` reads: those to train on, numbered from 0, and held-out ones.

    A step takes the next batch. NaN recovery skips batches, so step and batch numbers may differ.

    Args:
        batches: returns the endless batches (inputs, targets, weights) from a batch number on. Targets and weights are
            one tensor each if the model returns one tensor.
        held_out: returns the finite held-out batches for a training batch number, in the same shapes; None without
            evaluation on held-out batches.
        takes_share: True if `batches` and `held_out` take a `RowShare` as second argument and return its rows only.
            Otherwise each process of a run makes whole batches and keeps its rows.
        boundaries: numbers of the batches from which on batches have another shape.
        packing: packing of several examples into a row; None leaves the batches unchanged.
        recovery: batches to skip.
        backend: distributes the batches over the devices; None returns them as they are.
        multiple: number that divides the rows of a packed batch.
        share: rows of each batch that this process reads.

    Example:
        >>> def batches(first):
        ...     return bert_tf.pretraining_dataset("data", "train", batch_size=4, seed=1, start_step=first)
        >>> data = bert_tf.TrainingData(batches)
        >>> inputs, targets, weights = next(iter(data.from_step(10)))  # the batch of the eleventh step
        >>> inputs["token_ids"].shape
        TensorShape([4, 32])
    """

    batches: Callable[..., Dataset]
    held_out: Callable[..., Dataset] | None = None
    takes_share: bool = False
    boundaries: Sequence[int] = ()
    packing: Packing | None = None
    recovery: NanRecovery = field(default_factory=NanRecovery)
    backend: Backend | None = None
    multiple: int = 1
    share: RowShare = ALL_ROWS
    _prepared: dict[Dataset, Dataset] = field(default_factory=dict, init=False, repr=False, compare=False)

    def on(self, backend: Backend, config: TrainingConfig) -> TrainingData:
        """Returns the data for the devices of a backend whose build scope was entered."""
        return replace(self, backend=backend, multiple=backend.rows_multiple(config), share=backend.share)

    def without(self, recovery: NanRecovery) -> TrainingData:
        """Returns the data without the batches that `recovery` skips."""
        return replace(self, recovery=recovery)

    def from_step(self, step: int) -> Any:
        """Returns the batches of the steps after `step` finished ones, in the form that Keras's `fit` takes."""
        first = self.recovery.batch_of(step)
        pieces = []
        for skipped in self.recovery.skipped:
            if skipped >= first:
                pieces.append(self._prepare(self._own(self.batches, first)).take(skipped - first))
                first = skipped + 1
        dataset = self._prepare(self._own(self.batches, first))
        for piece in reversed(pieces):
            dataset = piece.concatenate(dataset)
        return self._distribute(dataset)

    def held_out_at(self, batch: int, count: int) -> Any:
        """Returns the first `count` held-out batches, or all for 0, in the shapes of a training batch number."""
        if self.held_out is None:
            raise ValueError("the run has no held-out batches.")
        dataset = self._own(self.held_out, batch)
        if dataset not in self._prepared:
            self._prepared[dataset] = self._prepare(dataset)
        return self._distribute(self._prepared[dataset].take(count or -1))

    def ends(self, steps: int) -> list[int]:
        """Returns the steps at which batches of one shape end, the last one being `steps`."""
        return [*map(self.recovery.step_of, self.boundaries), steps]

    def _own(self, made: Callable[..., Dataset], batch: int) -> Dataset:
        return made(batch, self.share) if self.takes_share else made(batch)

    def _prepare(self, dataset: Dataset) -> Dataset:
        """Returns the rows of this process, packed if the run packs."""
        dataset = dataset if self.takes_share else own_rows(dataset, self.share)
        return self.packing.batches(dataset, self.multiple) if self.packing else dataset

    def _distribute(self, dataset: Dataset) -> Any:
        return self.backend.batches(dataset) if self.backend else dataset


@dataclass(frozen=True)
class EvaluationSpec:
    """Evaluations of a run: metrics of the objective on held-out batches, or those that a function measures.

    Args:
        every: steps between two evaluations; 0 evaluates only at the end; None takes `training.evaluate_every`.
        context: baselines and sample predictions to report with evaluations on held-out batches; None reports none.
        measure: returns metrics after a number of steps from the model, a function from a dictionary of numpy arrays to
            numpy arrays; None evaluates on the held-out batches of the data, if any.
        metric: the metric of `measure`, higher is better, that `training.patience` monitors; None never ends the run
            early.

    Example:
        >>> ids, labels = np.array([[2, 5, 6, 3], [2, 7, 3, 0]]), np.array([1, 0])
        >>> def measure(model, step):
        ...     logits = model({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 1 * (ids > 0)})
        ...     return {"accuracy": float(np.mean(np.argmax(logits, axis=-1) == labels))}
        >>> evaluation = bert_tf.EvaluationSpec(every=100, measure=measure, metric="accuracy")
        >>> evaluation.measure(lambda inputs: np.array([[0.0, 1.0], [2.0, 1.0]]), 100)
        {'accuracy': 1.0}
    """

    every: int | None = None
    context: EvaluationContext | None = None
    measure: Callable[[Model, int], Mapping[str, float]] | None = None
    metric: str | None = None


@dataclass(frozen=True)
class RunSpec:
    """A run: all that `fit` needs besides the training configuration.

    Args:
        build_model: builds a model with the outputs of `objective`; called once, in scope of strategy and precision.
        data: batches to train and evaluate on.
        steps: total steps; None takes `training.steps`.
        objective: outputs to train: `mlm_logits` (B, P, V) and `nsp_logits` (B, 2), or those of one head.
        evaluation: evaluations during the run and at its end.
        identity: all other values that the run depends on (model, data), as JSON values. A checkpoint is resumed only
            if they and the training configuration are equal.
        flops: returns the floating-point operations of a step from the batch number and the number of positions, for
            model FLOPs utilization; None records none.
        facts: facts about the data that do not determine the run, for its report: `data_name`, `train_examples`,
            `max_sequence_length`, `lowercase`. Any of them may be missing.
        announce: returns lines to print before the first step, once model and data are built; takes a function that
            returns True when the run is asked to stop. None prints none.
        describe: writes the files of a preset other than the weights, so that a checkpoint can be loaded as a preset;
            takes the model, the directory of the checkpoint and the number of finished steps. None writes none.
        common_batches: returns the number of first batches that a run with other training settings has too, so that
            runs can be extended; None if they cannot.
        on_report: called at the start of the run, at evaluations, from time to time between them, and at its end, such
            as `bert_tf.reports.training.write_report`; None for nothing.

    Raises:
        ConfigError: if `steps` is less than 1.

    Example:
        >>> from bert_tf.training.run_spec import RunSpec, TrainingData
        >>> run = RunSpec(build_model=lambda: None, data=TrainingData(lambda batch: []), steps=100)
        >>> run.objective.outputs
        {'mlm_logits': 'mlm', 'nsp_logits': 'nsp'}
    """

    build_model: Callable[[], keras.Model]
    data: TrainingData
    steps: int | None = None
    objective: Objective = PRETRAINING
    evaluation: EvaluationSpec = EvaluationSpec()
    identity: Mapping[str, Any] = field(default_factory=dict)
    flops: Callable[[int, float], float] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    announce: Callable[[Callable[[], bool]], Sequence[str]] | None = None
    describe: DescribeHook | None = None
    on_report: ReportHook | None = None
    common_batches: Callable[[TrainingConfig], int] | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 1:
            raise ConfigError(f"`steps` must be at least 1. Received: {self.steps}")

    def settings(self, config: TrainingConfig) -> dict[str, Any]:
        """Returns all settings of the run, for its logs and its report."""
        return {"training": to_dict(config), **self.identity}

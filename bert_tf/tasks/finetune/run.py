"""Fine-tunes a preset on a task: reads files, trains, writes a preset, predictions and metrics."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras

from bert_tf.config import ConfigError, TrainingConfig, local_path, save_json, to_dict
from bert_tf.config.preset_names import CONFIG_NAME, RUN_PRESET_NAME
from bert_tf.config.training import check_finetuning
from bert_tf.encoding.batches import batches_in_epoch, training_batches
from bert_tf.encoding.inference import outputs_of
from bert_tf.encoding.rows import EncodedRows, Model
from bert_tf.models import BertFeatureTagger, Preset, load_preset, save_preset
from bert_tf.models.preset_header import write_header
from bert_tf.models.presets import encoder_of
from bert_tf.reports.tasks.answers import ANSWERS_NAME
from bert_tf.reports.training import write_report
from bert_tf.tasks.base import Task
from bert_tf.tasks.entry import TaskFiles
from bert_tf.tasks.example_scores import EXAMPLE_SCORES_NAME, write_example_scores
from bert_tf.tasks.features.rows import PooledFeatures
from bert_tf.tasks.finetune.diagnostics import detect_chance, detect_collapse, next_step
from bert_tf.tasks.finetune.facts import data_facts, sample_inputs
from bert_tf.tasks.finetune.init import FinetuneInit, builder
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.predictor import TaskPredictor
from bert_tf.text.byte_pairs import tokenizer_of
from bert_tf.training.backends import current_backend
from bert_tf.training.fit import TrainResult, fit, weights_sha256
from bert_tf.training.output import make_output
from bert_tf.training.run_spec import EvaluationSpec, RunSpec, TrainingData

logger = logging.getLogger(__name__)
# In a run's output directory: predictions and metrics on the development set.
DEV_NAME = "dev"
RESULT_NAME = "result.json"
AUGMENT_NAME = "augment"
# Skipped input errors, one on each line.
PROBLEMS_NAME = "skipped.tsv"
# Advice for a model on the features of an encoder.
_TRAIN = "Next: use other layers (`--features`), or train the encoder, without --features and --probe."


@dataclass(frozen=True)
class Finetuned:
    """Result of a fine-tuning run: the preset, and official metrics on the development set.

    `remark` is a warning about the predictions, or empty. `seconds` is the wall time of the last process.
    """

    preset: Path
    metrics: dict[str, float]
    dev_examples: int
    remark: str
    step: int
    seconds: float


def finetune_task(
    task: Task,
    sources: TaskFiles,
    start: FinetuneInit,
    config: TrainingConfig,
    output: str | Path,
    input_errors: InputErrors | None = None,
) -> Finetuned:
    """Fine-tunes an encoder on a task.

    Args:
        task: the task, before `fit_labels`.
        sources: the task's files.
        start: encoder and initialization.
        config: `epochs`, `batch_size`, learning rate and other settings.
        output: output directory; an interrupted run is resumed. The preset is written to `output/preset`, predictions
            and metrics on the development set to `output/dev`, a summary to `output/result.json`.
        input_errors: collects errors of the files; None raises them.

    Returns:
        The result on the development set.

    Raises:
        ValueError: for an error in a file, with file and line.
        ConfigError: for invalid settings, or an output directory of another run (see `training.fit.fit`).
        TrainingError: if training fails (see `training.fit.fit`).

    Example:
        >>> result = bert_tf.finetune_task(
        ...     bert_tf.task_class("classify")(),
        ...     bert_tf.TaskFiles(train="my_task/train.tsv", dev="my_task/dev.tsv"),
        ...     bert_tf.FinetuneInit("runs/laptop"),
        ...     bert_tf.TrainingConfig(epochs=1, batch_size=4),
        ...     "runs/new",
        ... )
        >>> result.dev_examples, sorted(result.metrics)
        (4, ['accuracy', 'macro_f1', 'majority'])
    """
    check_finetuning(config)
    output = local_path(output)
    input_errors = InputErrors() if input_errors is None else input_errors
    if sources.augment:
        start = _augmented(task, sources, start, config, output / AUGMENT_NAME, input_errors)
    source = load_preset(start.preset)
    # The encoder is frozen in presets that were trained on features.
    encoder_of(source.model).trainable = True
    tokenizer = tokenizer_of(source.vocabulary, source.lowercase)
    length = start.tokens(task, source.config.max_sequence_length)
    examples = [example for path in sources.training for example in task.read(path, input_errors)]
    task.validate_examples(examples, local_path(sources.train))
    task = start.adapted(task, source.config).fit_labels(examples)
    dev = _examples(task, local_path(sources.dev), input_errors)
    # Read before training, so that errors in these files do not waste a run.
    further = {name: _examples(task, local_path(path), input_errors) for name, path in sources.further.items()}
    most_widths = current_backend().most_widths
    rows = [replace(task.encode(part, tokenizer, length), most_widths=most_widths) for part in (examples, dev)]
    if start.features:
        make_output(output)
        start.features.check(task)
        rows = [start.features.rows(part, encoder_of(source.model), output) for part in rows]
    train, dev_rows = rows
    build = builder(task, source, start)
    facts = data_facts(sources, examples, source)
    trains_encoder = start.features is None
    preset = output / RUN_PRESET_NAME
    best = _Best(task, dev, dev_rows, source, build, length, config, trains_encoder, preset, facts)
    return _finish(best, further, _trained(best, start, train, config, output), output, input_errors)


def _augmented(
    task: Task, sources: TaskFiles, start: FinetuneInit, config: TrainingConfig, output: Path, input_errors: InputErrors
) -> FinetuneInit:
    """Fine-tunes on the `augment` files and returns an initialization from the result."""
    if start.features and start.features.pooling:
        raise ConfigError("a linear classifier does not support `augment`: it trains on all files at once.")
    first = TaskFiles(sources.augment[0], sources.dev, more_train=sources.augment[1:])
    finetune_task(task, first, start, config, output, input_errors)
    return replace(start, preset=output, from_scratch=False, keep_head=True)


def _trained(best: _Best, start: FinetuneInit, train: EncodedRows, config: TrainingConfig, output: Path) -> TrainResult:
    if isinstance(train, PooledFeatures):
        from bert_tf.tasks.features.probe import train_probe

        return train_probe(best.task, best.build, train, best.evaluate, best.measure)
    steps = config.epochs * batches_in_epoch(train, config.largest_batch)
    run = RunSpec(
        best.build,
        TrainingData(lambda start_step: training_batches(train, config.largest_batch, config.seed, start_step)),
        steps,
        best.task.objective,
        EvaluationSpec(every=math.ceil(steps / config.epochs), measure=best.measure, metric=best.task.metric),
        _identity(best.task, best.source, start) | {"data": train.fingerprint},
        facts={**best.facts, "max_sequence_length": best.length, "lowercase": best.source.lowercase},
        # The checkpoints of a tagger on features hold no encoder.
        describe=None if start.features else best.describe,
        on_report=write_report,
    )
    return fit(run, config, output)


def _identity(task: Task, source: Preset, start: FinetuneInit) -> dict[str, Any]:
    """Returns the identity of a run besides data and configuration: model, initial weights and task."""
    optional = {
        "features": to_dict(replace(start.features, folder=None)) if start.features else None,
        "bilstm_dim": start.bilstm_dim,
    }
    return {
        "model": to_dict(source.config),
        "start": "random" if start.from_scratch else weights_sha256(source.model),
        "keep_head": start.keep_head,
        "frozen_layers": start.frozen_layers,
        "task": {"name": task.name, **task.description()},
        **{name: value for name, value in optional.items() if value is not None},
    }


def _examples(task: Task, path: Path, input_errors: InputErrors) -> list[Any]:
    examples = list(task.read(path, input_errors))
    if not examples:
        raise ValueError(f"{path}: no examples.")
    return examples


@dataclass
class _Best:
    """Evaluates a model on the development set and saves its preset; with early stopping, only the best one."""

    task: Task
    examples: Sequence[Any]
    rows: EncodedRows
    source: Preset
    build_model: Callable[[], keras.Model]
    length: int
    config: TrainingConfig
    trains_encoder: bool
    preset: Path
    facts: Mapping[str, Any]
    _model: keras.Model | None = None
    _measured: tuple[int, Task, list[Any]] | None = None

    def build(self) -> keras.Model:
        """Builds and stores the whole model; returns its trained part."""
        self._model = self.build_model()
        return self._model.tagger if isinstance(self._model, BertFeatureTagger) else self._model

    def evaluate(self, model: Model) -> dict[str, float]:
        """Returns the official metrics without saving the model."""
        task, answers = self._answered(model)
        return task.score(self.examples, answers)

    def measure(self, model: Model, step: int) -> dict[str, float]:
        """Returns the official metrics after `step`, and saves the model if it is the best one so far."""
        task, answers = self._answered(model)
        metrics = task.score(self.examples, answers)
        kept = self._kept() if self.config.patience > 0 else None
        if kept is None or kept["step"] >= step or metrics[task.metric] > kept["metrics"][task.metric]:
            self._save(task, step, metrics)
            self._measured = step, task, answers
        return metrics

    def answers(self) -> tuple[Task, list[Any]]:
        """Returns the task calibrated on the development set, and the predictions of the saved model."""
        kept = self._kept()
        if self._measured and kept and self._measured[0] == kept["step"]:
            return self._measured[1:]
        # Saved by an earlier process that was interrupted.
        predictor = TaskPredictor(self.preset)
        return predictor.task, predictor.predict_examples(self.examples)

    def _answered(self, model: Model) -> tuple[Task, list[Any]]:
        outputs = outputs_of(model, self.rows, self.source.config, self.task.by_token)
        answers = self.task.answers(self.examples, self.rows, outputs)
        task = self.task.calibrate(self.examples, answers)
        return task, answers if task == self.task else task.answers(self.examples, self.rows, outputs)

    def _kept(self) -> dict[str, Any] | None:
        """Returns step and metrics of the saved preset; None if there is no saved preset."""
        path = self.preset / CONFIG_NAME
        return json.loads(path.read_text(encoding="utf-8"))["info"] if path.is_file() else None

    def describe(self, model: keras.Model, directory: Path, step: int) -> None:
        """Writes the files of a preset other than the weights; the task is not calibrated."""
        source, task = self.source, self._task_json(self.task)
        write_header(model, directory, source.vocabulary, source.lowercase, task, {"step": step})

    def _save(self, task: Task, step: int, metrics: Mapping[str, float]) -> None:
        save_preset(
            self._model,
            self.preset,
            self.source.vocabulary,
            self.source.lowercase,
            task=self._task_json(task),
            info={
                "step": step,
                "metrics": dict(metrics),
                "dev_examples": len(self.examples),
                **self.facts,
                "example": sample_inputs(self.task, self.examples),
            },
        )

    def _task_json(self, task: Task) -> dict[str, Any]:
        return {"task": task.name, "max_sequence_length": self.length, **task.description()}


def _finish(
    best: _Best, further: Mapping[str, Sequence[Any]], result: TrainResult, output: Path, input_errors: InputErrors
) -> Finetuned:
    """Writes predictions and metrics of the development set, the result and the HTML page."""
    task, answers = best.answers()
    folder = output / DEV_NAME
    folder.mkdir(exist_ok=True)
    task.write(folder / task.predictions_name, iter([(best.examples, answers)]))
    write_example_scores(folder / EXAMPLE_SCORES_NAME, task.example_scores(best.examples, answers))
    official = task.score(best.examples, answers)
    metrics = official | _further(further, output)
    scored = task.score_details(best.examples, answers)
    if remark := detect_collapse(scored) or detect_chance(scored):
        ways = next_step(best.config, best.source.config.hidden_dim, result.step) if best.trains_encoder else _TRAIN
        remark = f"{remark}. {ways}"
        logger.warning("%s: %s", output, remark)
    if len(input_errors):
        input_errors.write(output / PROBLEMS_NAME)
    summary = {"metrics": metrics, "dev_examples": len(best.examples), "remark": remark, "skipped": len(input_errors)}
    save_json(
        {"task": task.name, "step": result.step, "seconds": round(result.seconds, 1), **summary}, output / RESULT_NAME
    )
    task.write_page(folder / ANSWERS_NAME, f"{task.name} on the development set", scored, official, remark)
    print(f"predictions page: {folder / ANSWERS_NAME}", file=sys.stderr)
    print(f"{output}: {metrics}", file=sys.stderr)
    return Finetuned(output / RUN_PRESET_NAME, metrics, len(best.examples), remark, result.step, result.seconds)


def _further(further: Mapping[str, Sequence[Any]], output: Path) -> dict[str, float]:
    """Writes predictions for the further files and returns their metrics, with the file's name as suffix."""
    metrics: dict[str, float] = {}
    if not further:
        return metrics
    predictor = TaskPredictor(output / RUN_PRESET_NAME)
    task = predictor.task
    for name, examples in further.items():
        answers = predictor.predict_examples(examples)
        task.write(output / DEV_NAME / f"{name}_{task.predictions_name}", iter([(examples, answers)]))
        metrics |= {f"{metric}_{name}": value for metric, value in task.score(examples, answers).items()}
    return metrics

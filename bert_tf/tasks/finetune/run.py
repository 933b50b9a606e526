"""Fine-tuning a preset on any task: from files to a preset, predictions on the development set and their figures."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import keras

from bert_tf.config import ConfigError, TrainingConfig, local_path, save_json, to_dict
from bert_tf.models import BertFeatureTagger, Preset, load_preset, save_preset
from bert_tf.models.presets import CONFIG_NAME, RUN_PRESET_NAME, encoder_of
from bert_tf.reports.tasks.answers import ANSWERS_NAME, write_answers_page
from bert_tf.reports.training.page import write_report
from bert_tf.tasks.base import Task
from bert_tf.tasks.features.config import Features
from bert_tf.tasks.features.rows import PooledFeatures
from bert_tf.tasks.finetune.diagnostics import detect_collapse
from bert_tf.tasks.finetune.init import FinetuneInit, builder
from bert_tf.tasks.inference import outputs_of
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.predictor import TaskPredictor
from bert_tf.tasks.rows import EncodedRows, batches_in_epoch, training_batches
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.training.backends import Model, current_backend
from bert_tf.training.fit import TrainResult, check_output, finetune, weights_sha256

logger = logging.getLogger(__name__)
# In a run's output: predictions and figures on the development set.
DEV_NAME = "dev"
RESULT_NAME = "result.json"
AUGMENT_NAME = "augment"
# Faults of the files that were skipped, one a line.
PROBLEMS_NAME = "skipped.tsv"


@dataclass(frozen=True)
class TaskFiles:
    """Files of a task, each in the task's own format.

    Args:
        train: examples to learn from.
        dev: examples that choose between epochs and runs.
        further: other labelled files to score at the end, by name, as MNLI's mismatched ones.
        augment: files to learn from first, in a run of its own.
        more_train: files to learn from together with `train`.
    """

    train: str | Path
    dev: str | Path
    further: Mapping[str, str | Path] = field(default_factory=dict)
    augment: tuple[str | Path, ...] = ()
    more_train: tuple[str | Path, ...] = ()

    @property
    def training(self) -> tuple[Path, ...]:
        """All files to learn from in one run."""
        return tuple(map(local_path, (self.train, *self.more_train)))


@dataclass(frozen=True)
class Finetuned:
    """What a run gave.

    Args:
        preset: its folder.
        metrics: official figures on the development set.
        dev_examples: how many it has.
        remark: what is wrong with the answers as a whole, as that they are all the same; empty where nothing is.
        step: steps taken.
        seconds: wall time of the last process.
    """

    preset: Path
    metrics: dict[str, float]
    dev_examples: int
    remark: str
    step: int
    seconds: float


@dataclass(frozen=True)
class _Part:
    """Examples with their rows."""

    examples: Sequence[Any]
    rows: EncodedRows


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
        task: the task, not fitted yet.
        sources: its files.
        start: the encoder.
        config: `epochs`, `batch_size`, rate and the rest.
        output: folder of the run, which a run that was broken off goes on in. The preset goes to `output/preset`,
            predictions and figures of the development set to `output/dev`, a summary to `output/result.json`.
        problems: takes faults of the files; None refuses them.

    Returns:
        The result on the development set.

    Raises:
        ValueError: for faults of the files, naming file and line.
        ConfigError, TrainingError: as `training.fit.finetune` does.
    """
    if config.strategy == "multi_worker":
        raise ConfigError("fine-tuning takes one process: `training.strategy` must not be multi_worker.")
    output = local_path(output)
    input_errors = InputErrors() if input_errors is None else input_errors
    if sources.augment:
        start = _augmented(task, sources, start, config, output / AUGMENT_NAME, input_errors)
    source = load_preset(start.preset)
    # In a preset that was trained on features it is frozen.
    encoder_of(source.model).trainable = True
    tokenizer = BertTokenizer(source.vocabulary, source.lowercase)
    length = start.tokens(task, source.config.max_sequence_length)
    examples = [example for path in sources.training for example in task.read(path, input_errors)]
    task.validate_examples(examples, local_path(sources.train))
    task = start.adapted(task, source.config).fit_labels(examples)
    train = _encoded(task, examples, tokenizer, length)
    dev = _part(task, local_path(sources.dev), tokenizer, length, input_errors)
    # Read before there is anything to lose.
    further = {name: _examples(task, local_path(path), input_errors) for name, path in sources.further.items()}
    if start.features:
        check_output(output)
        train, dev = _on_features(task, start.features, source, train, dev, output)
    best = _Best(task, dev, source, length, config.patience > 0, output / RUN_PRESET_NAME)
    result = _trained(best, task, source, start, train, config, output)
    return _finish(best, further, result, output, input_errors)


def _augmented(
    task: Task, sources: TaskFiles, start: FinetuneInit, config: TrainingConfig, output: Path, input_errors: InputErrors
) -> FinetuneInit:
    """Fine-tunes on the files of `augment`, and returns a start from the result."""
    if start.features and start.features.pooling:
        raise ConfigError("a linear classifier learns from all files at once, not from some of them first.")
    first = TaskFiles(sources.augment[0], sources.dev, more_train=sources.augment[1:])
    finetune_task(task, first, start, config, output, input_errors)
    return replace(start, preset=output, from_scratch=False, keep_head=True)


def _on_features(
    task: Task, features: Features, source: Preset, train: EncodedRows, dev: _Part, output: Path
) -> tuple[EncodedRows, _Part]:
    """Returns training and development rows as features."""
    features.check(task)
    encoder = encoder_of(source.model)
    rows = [features.rows(rows, encoder, output) for rows in (train, dev.rows)]
    return rows[0], _Part(dev.examples, rows[1])


def _trained(
    best: _Best,
    task: Task,
    source: Preset,
    start: FinetuneInit,
    train: EncodedRows,
    config: TrainingConfig,
    output: Path,
) -> TrainResult:
    build = best.building(builder(task, source, start))
    if isinstance(train, PooledFeatures):
        from bert_tf.tasks.features.probe import train_probe

        return train_probe(task, build, train, best.figures, best.measure)
    return finetune(
        build,
        lambda start_step: training_batches(train, config.batch_size, config.seed, start_step),
        config,
        output,
        config.epochs * batches_in_epoch(train, config.batch_size),
        objective=task.objective,
        measure=best.measure,
        metric=task.metric,
        identity=_identity(task, source, start) | {"data": train.fingerprint},
        on_finish=write_report,
    )


def _identity(task: Task, source: Preset, start: FinetuneInit) -> dict[str, Any]:
    """Returns what a run depends on beside its data and its configuration."""
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


def _part(task: Task, path: Path, tokenizer: BertTokenizer, length: int, input_errors: InputErrors) -> _Part:
    examples = _examples(task, path, input_errors)
    return _Part(examples, _encoded(task, examples, tokenizer, length))


def _encoded(task: Task, examples: Sequence[Any], tokenizer: BertTokenizer, length: int) -> EncodedRows:
    return replace(task.encode(examples, tokenizer, length), most_widths=current_backend().most_widths)


def _examples(task: Task, path: Path, input_errors: InputErrors) -> list[Any]:
    examples = list(task.read(path, input_errors))
    if not examples:
        raise ValueError(f"{path}: no examples.")
    return examples


class _Best:
    """Measures a model, and keeps the best one's preset where several epochs are to be chosen from."""

    def __init__(self, task: Task, dev: _Part, source: Preset, length: int, keeps_best: bool, preset: Path) -> None:
        self._task, self._dev, self._preset = task, dev, preset
        self._source, self._length, self._keeps_best = source, length, keeps_best
        self._model: keras.Model | None = None
        self._measured: tuple[int, Task, list[Any]] | None = None

    @property
    def dev_examples(self) -> Sequence[Any]:
        """The development set."""
        return self._dev.examples

    def building(self, build: Callable[[], keras.Model]) -> Callable[[], keras.Model]:
        """Returns what builds the part to be trained, remembering the whole that `build` builds."""

        def remembered() -> keras.Model:
            self._model = build()
            return self._model.tagger if isinstance(self._model, BertFeatureTagger) else self._model

        return remembered

    def figures(self, model: Model) -> dict[str, float]:
        """Returns the official figures, and keeps nothing."""
        task, answers = self._answered(model)
        return task.score(self._dev.examples, answers)

    def measure(self, model: Model, step: int) -> dict[str, float]:
        """Returns the official figures after `step`, and keeps the model where it is the best one so far."""
        task, answers = self._answered(model)
        metrics = task.score(self._dev.examples, answers)
        kept = self._kept() if self._keeps_best else None
        if kept is None or kept["step"] >= step or metrics[task.metric] > kept["metrics"][task.metric]:
            self._save(task, step, metrics)
            self._measured = step, task, answers
        return metrics

    def answers(self) -> tuple[Task, list[Any]]:
        """Returns the task, with what it learnt of the development set, and the answers of the model that is kept."""
        kept = self._kept()
        if self._measured and kept and self._measured[0] == kept["step"]:
            return self._measured[1:]
        # Kept by a process that was broken off later.
        answerer = TaskPredictor(self._preset)
        return answerer.task, answerer.answers(self._dev.examples)

    def _answered(self, model: Model) -> tuple[Task, list[Any]]:
        outputs = outputs_of(model, self._dev.rows, self._source.config, self._task.by_token)
        answers = self._task.answers(self._dev.examples, self._dev.rows, outputs)
        task = self._task.calibrate(self._dev.examples, answers)
        return task, answers if task == self._task else task.answers(self._dev.examples, self._dev.rows, outputs)

    def _kept(self) -> dict[str, Any] | None:
        """Returns the step and the figures of the preset that is kept."""
        path = self._preset / CONFIG_NAME
        return json.loads(path.read_text(encoding="utf-8"))["info"] if path.is_file() else None

    def _save(self, task: Task, step: int, metrics: Mapping[str, float]) -> None:
        save_preset(
            self._model,
            self._preset,
            self._source.vocabulary,
            self._source.lowercase,
            task={"task": task.name, "max_sequence_length": self._length, **task.description()},
            info={"step": step, "metrics": dict(metrics), "dev_examples": len(self._dev.examples)},
        )


def _finish(
    best: _Best, further: Mapping[str, Sequence[Any]], result: TrainResult, output: Path, input_errors: InputErrors
) -> Finetuned:
    """Writes predictions and figures of the development set, and what is said of the run."""
    task, answers = best.answers()
    examples = best.dev_examples
    folder = output / DEV_NAME
    folder.mkdir(exist_ok=True)
    task.write(folder / task.predictions_name, iter([(examples, answers)]))
    official = task.score(examples, answers)
    metrics = official | _further(further, output)
    scored = task.score_details(examples, answers)
    remark = detect_collapse(scored)
    if remark:
        logger.warning("%s: %s", output, remark)
    if len(input_errors):
        input_errors.write(output / PROBLEMS_NAME)
    summary = {"metrics": metrics, "dev_examples": len(examples), "remark": remark, "skipped": len(input_errors)}
    save_json(
        {"task": task.name, "step": result.step, "seconds": round(result.seconds, 1), **summary}, output / RESULT_NAME
    )
    write_answers_page(folder / ANSWERS_NAME, f"{task.name} on the development set", scored, official, remark)
    print(f"answers to look at: {folder / ANSWERS_NAME}", file=sys.stderr)
    print(f"{output}: {metrics}", file=sys.stderr)
    return Finetuned(output / RUN_PRESET_NAME, metrics, len(examples), remark, result.step, result.seconds)


def _further(further: Mapping[str, Sequence[Any]], output: Path) -> dict[str, float]:
    """Returns the figures on the examples of further files, named after these; writes their predictions."""
    metrics: dict[str, float] = {}
    if not further:
        return metrics
    answerer = TaskPredictor(output / RUN_PRESET_NAME)
    task = answerer.task
    for name, examples in further.items():
        answers = answerer.answers(examples)
        task.write(output / DEV_NAME / f"{name}_{task.predictions_name}", iter([(examples, answers)]))
        metrics |= {f"{figure}_{name}": value for figure, value in task.score(examples, answers).items()}
    return metrics

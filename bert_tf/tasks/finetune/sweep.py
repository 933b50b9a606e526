"""Sweeps of one task: the paper's grid, random restarts, and selection on the development set."""

from __future__ import annotations

import gc
import itertools
import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bert_tf.config import ConfigError, TrainingConfig, local_path, save_json, to_dict
from bert_tf.config.files import sha256_of
from bert_tf.models.preset_files import replace_directory
from bert_tf.models.presets import CONFIG_NAME, RUN_PRESET_NAME, WEIGHTS_NAME, preset_directory
from bert_tf.reports.tasks.results import RunRow
from bert_tf.reports.tasks.sweep import write_results
from bert_tf.tasks.base import Task
from bert_tf.tasks.entry import TaskFiles
from bert_tf.tasks.finetune.init import FinetuneInit
from bert_tf.tasks.finetune.run import Finetuned, finetune_task
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.training.loop.checkpoints import TrainingError
from bert_tf.training.output import CHECKPOINTS_NAME

RUNS_NAME = "runs"
# Settings and result of a finished run.
TRIAL_NAME = "trial.json"
# arXiv 1810.04805, A.3.
PAPER_BATCHES, PAPER_RATES, PAPER_EPOCHS = (16, 32), (5e-5, 3e-5, 2e-5), (2, 3, 4)


@dataclass(frozen=True)
class Trial:
    """One run of a sweep.

    Args:
        config: the run's configuration.
    """

    config: TrainingConfig

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that differ between runs."""
        return {name: getattr(self.config, name) for name in ("batch_size", "learning_rate", "epochs", "seed")}

    @property
    def name(self) -> str:
        """Name of the run's directory."""
        return "_".join(f"{name}_{value:g}" for name, value in self.settings.items())


def trials(config: TrainingConfig, paper_grid: bool, restarts: int) -> list[Trial]:
    """Returns the runs of a sweep.

    Args:
        config: the shared configuration.
        paper_grid: whether to use the paper's batch sizes, learning rates and epochs instead of those of `config`.
        restarts: number of runs for each setting; seeds count up from the seed of `config`.

    Raises:
        ValueError: if `restarts` is less than 1.
    """
    if restarts < 1:
        raise ValueError(f"`restarts` must be at least 1. Received: {restarts}")
    return [
        Trial(replace(setting, seed=config.seed + number))
        for setting in _settings(config, paper_grid)
        for number in range(restarts)
    ]


def _settings(config: TrainingConfig, paper_grid: bool) -> Iterator[TrainingConfig]:
    if not paper_grid:
        yield config
        return
    for batch, rate, epochs in itertools.product(PAPER_BATCHES, PAPER_RATES, PAPER_EPOCHS):
        yield replace(config, batch_size=batch, learning_rate=rate, epochs=epochs)


@dataclass(frozen=True)
class Outcome:
    """Outcome of a trial: a `result`, or the message of its `failure`."""

    trial: Trial
    result: Finetuned | None
    failure: str = ""


def finetune_trials(
    task: Task,
    sources: TaskFiles,
    start: FinetuneInit,
    runs: Sequence[Trial],
    output: str | Path,
    input_errors: InputErrors,
) -> tuple[Trial, Finetuned, list[Outcome]]:
    """Runs a sweep; writes the best preset to `output/preset`, with a table and an HTML page of all runs.

    A run whose loss is not finite counts as failed, and the sweep continues. If the output directory holds an earlier
    sweep, finished runs are reused and an interrupted run is resumed. Checkpoints of finished runs are deleted, because
    those of eighteen runs of BERT base would take more than 20 GB.

    Args:
        task: the task, before `fit_labels`.
        sources: the task's files.
        start: encoder and initialization.
        runs: the runs, from `trials`.
        output: output directory; each run has its own directory in `output/runs`.
        input_errors: collects errors of the files.

    Returns:
        The best trial by the task's metric on the development set (the first of equal ones), its result, and all
        outcomes.

    Raises:
        ConfigError: if the output directory holds a run with other settings or files.
        TrainingError: if no run finished.
    """
    outcomes: list[Outcome] = []
    began = time.monotonic()
    files = _fingerprints(sources, start)
    output = local_path(output)
    output.mkdir(parents=True, exist_ok=True)
    for number, trial in enumerate(runs, start=1):
        folder = output / RUNS_NAME / trial.name
        spent = time.monotonic() - began
        left = f", about {spent / (number - 1) * (len(runs) - number + 1):.0f} s left" if number > 1 else ""
        print(f"\nrun {number} of {len(runs)}: {trial.name}{left}", file=sys.stderr, flush=True)
        settings = {"task": {"name": task.name, **task.description()}, "training": to_dict(trial.config), **files}
        try:
            result = _stored_result(folder, settings) or finetune_task(
                task, sources, start, trial.config, folder, input_errors
            )
            save_json({"settings": settings, "result": _plain(result)}, folder / TRIAL_NAME)
            shutil.rmtree(folder / CHECKPOINTS_NAME, ignore_errors=True)
            outcomes.append(Outcome(trial, result))
        except TrainingError as error:
            outcomes.append(Outcome(trial, None, str(error)))
        # Models and their graphs form reference cycles; several of them would not fit into memory.
        gc.collect()
        page = write_results(output, task.name, _rows(outcomes, task.metric), task.metric)
    finished = _finished(outcomes)
    if not finished:
        raise TrainingError(f"none of {len(runs)} runs finished. The last one: {outcomes[-1].failure}")
    trial, result = max(finished, key=lambda run: run[1].metrics[task.metric])
    replace_directory(output / RUN_PRESET_NAME, lambda staging: _copy(result.preset, staging))
    print(f"page of all runs: {page}", file=sys.stderr)
    return trial, result, outcomes


def _finished(outcomes: Sequence[Outcome]) -> list[tuple[Trial, Finetuned]]:
    return [(outcome.trial, outcome.result) for outcome in outcomes if outcome.result]


def _rows(outcomes: Sequence[Outcome], metric: str) -> list[RunRow]:
    """Returns the rows of the table."""
    best = max((result.metrics[metric] for _, result in _finished(outcomes)), default=None)
    rows: list[RunRow] = []
    for outcome in outcomes:
        trial, result = outcome.trial, outcome.result
        if result is None:
            rows.append(RunRow(trial.name, trial.settings, None, 0, 0.0, outcome.failure))
            continue
        is_best = result.metrics[metric] == best and not any(row.is_best for row in rows)
        values = (result.metrics, result.step, result.seconds, result.remark)
        rows.append(RunRow(trial.name, trial.settings, *values, is_best))
    return rows


def _stored_result(folder: Path, settings: Mapping[str, Any]) -> Finetuned | None:
    """Returns the result of a finished run with these settings; None if there is no finished run."""
    path = folder / TRIAL_NAME
    if not path.is_file():
        return None
    stored = json.loads(path.read_text(encoding="utf-8"))
    if stored["settings"] != json.loads(json.dumps(settings)):
        raise ConfigError(
            f"{folder}: holds a run with other settings or files. Remove it, or use another output directory."
        )
    return Finetuned(**stored["result"] | {"preset": folder / RUN_PRESET_NAME})


def _plain(result: Finetuned) -> dict[str, Any]:
    return {**vars(result), "preset": RUN_PRESET_NAME}


def _fingerprints(sources: TaskFiles, start: FinetuneInit) -> dict[str, Any]:
    """Returns hashes of the files that runs depend on, and their initialization."""
    directory = preset_directory(start.preset)
    paths = [Path(path) for path in (*sources.training, sources.dev, *sources.further.values(), *sources.augment)]
    paths += [directory / name for name in (CONFIG_NAME, WEIGHTS_NAME)]
    features = start.features and replace(start.features, folder=None)
    init = json.loads(json.dumps(asdict(replace(start, preset=Path(), features=features)), default=str))
    return {"files": {str(path): sha256_of(path) for path in paths if path.is_file()}, "start": init}


def _copy(source: Path, staging: Path) -> None:
    for path in source.iterdir():
        shutil.copy2(path, staging / path.name)

"""Sweeps of one task: the paper's grid, random restarts, and selection on the development set."""

from __future__ import annotations

import gc
import itertools
import json
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bert_tf.config import ConfigError, TrainingConfig, local_path, save_json, to_dict
from bert_tf.config.files import replace_directory, sha256_of
from bert_tf.config.preset_names import CHECKPOINTS_NAME, RUN_PRESET_NAME
from bert_tf.models.preset_sources import open_preset
from bert_tf.reports.tasks.sweep import RunRow, write_results
from bert_tf.tasks.base import Task
from bert_tf.tasks.entry import TaskFiles
from bert_tf.tasks.finetune.init import FinetuneInit
from bert_tf.tasks.finetune.run import Finetuned, finetune_task
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.training.loop.checkpoints import TrainingError

RUNS_NAME = "runs"
# Settings and result of a finished run.
TRIAL_NAME = "trial.json"
# arXiv 1810.04805, A.3.
PAPER_BATCHES, PAPER_RATES, PAPER_EPOCHS = (16, 32), (5e-5, 3e-5, 2e-5), (2, 3, 4)


@dataclass(frozen=True)
class Trial:
    """One run of a sweep, by its configuration."""

    config: TrainingConfig

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that differ between runs."""
        return {name: getattr(self.config, name) for name in ("batch_size", "learning_rate", "epochs", "seed")}

    @property
    def name(self) -> str:
        """Name of the run's directory."""
        return "_".join(f"{name}_{value:g}" for name, value in self.settings.items())


def trials(config: TrainingConfig, paper_grid: bool, restarts: int, rate_scale: float = 1.0) -> list[Trial]:
    """Returns the runs of a sweep.

    `paper_grid` replaces batch size, learning rate and epochs of `config` by all of the paper's, whose rates are
    multiplied by `rate_scale`. Each setting has `restarts` runs, whose seeds count up from that of `config`. Raises
    ValueError if `restarts` is less than 1.
    """
    if restarts < 1:
        raise ValueError(f"`restarts` must be at least 1. Received: {restarts}")
    grid: Iterable[tuple] = [(config.batch_size, config.learning_rate, config.epochs)]
    if paper_grid:
        rates = [float(f"{rate * rate_scale:.2g}") for rate in PAPER_RATES]
        grid = itertools.product(PAPER_BATCHES, rates, PAPER_EPOCHS)
    return [
        Trial(replace(config, batch_size=batch, learning_rate=rate, epochs=epochs, seed=config.seed + number))
        for batch, rate, epochs in grid
        for number in range(restarts)
    ]


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
    sweep, finished runs are reused and an interrupted run is resumed. Each run has its own directory in `output/runs`.
    Checkpoints of finished runs are deleted, because those of eighteen runs of BERT base would take more than 20 GB.

    Returns the best trial by the task's metric on the development set (the first of equal ones), its result, and all
    outcomes. Raises ConfigError if the output directory holds a run with other settings or files, and TrainingError if
    no run finished.
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
            stored = {"settings": settings, "result": {**vars(result), "preset": RUN_PRESET_NAME}}
            save_json(stored, folder / TRIAL_NAME)
            shutil.rmtree(folder / CHECKPOINTS_NAME, ignore_errors=True)
            outcomes.append(Outcome(trial, result))
        except TrainingError as error:
            outcomes.append(Outcome(trial, None, str(error)))
        # Models and their graphs form reference cycles; several of them would not fit into memory.
        gc.collect()
        page = write_results(output, task.name, _rows(outcomes, task.metric), task.metric)
    best = _best(outcomes, task.metric)
    if best is None or best.result is None:
        raise TrainingError(f"none of {len(runs)} runs finished. The last one: {outcomes[-1].failure}")
    preset = best.result.preset

    def copy(staging: Path) -> None:
        shutil.copytree(preset, staging, dirs_exist_ok=True)

    replace_directory(output / RUN_PRESET_NAME, copy)
    print(f"page of all runs: {page}", file=sys.stderr)
    return best.trial, best.result, outcomes


def _best(outcomes: Sequence[Outcome], metric: str) -> Outcome | None:
    """Returns the first of the finished runs with the largest metric."""
    finished = [(outcome.result.metrics[metric], outcome) for outcome in outcomes if outcome.result]
    return max(finished, key=lambda pair: pair[0])[1] if finished else None


def _rows(outcomes: Sequence[Outcome], metric: str) -> list[RunRow]:
    """Returns the rows of the table."""
    best, rows = _best(outcomes, metric), []
    for outcome in outcomes:
        row = RunRow(outcome.trial.name, outcome.trial.settings, None, 0, 0.0, outcome.failure)
        if result := outcome.result:
            row = replace(row, metrics=result.metrics, step=result.step, seconds=result.seconds, remark=result.remark)
        rows.append(replace(row, is_best=outcome is best))
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


def _fingerprints(sources: TaskFiles, start: FinetuneInit) -> dict[str, Any]:
    """Returns hashes of the files that runs depend on, and their initialization."""
    paths = [Path(path) for path in (*sources.training, sources.dev, *sources.further.values(), *sources.augment)]
    features = start.features and replace(start.features, folder=None)
    init = json.loads(json.dumps(asdict(replace(start, preset=Path(), features=features)), default=str))
    files = {str(path): sha256_of(path) for path in paths if path.is_file()}
    return {"files": files, "preset": _identity(start), "start": init}


def _identity(start: FinetuneInit) -> dict[str, Any]:
    """Returns the header of the preset, and the SHA-256 of its weights."""
    source = open_preset(start.preset)
    return {"header": to_dict(source.header), "weights": source.weights.sha256()}

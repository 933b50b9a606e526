"""Several runs of one task: the paper's grid, random restarts, and the best of them on the development set."""

from __future__ import annotations

import gc
import hashlib
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
from bert_tf.models.preset_files import replace_directory
from bert_tf.models.presets import CONFIG_NAME, RUN_PRESET_NAME, WEIGHTS_NAME, preset_directory
from bert_tf.reports.tasks.sweep import write_results
from bert_tf.tasks.base import Task
from bert_tf.tasks.finetune.init import FinetuneInit
from bert_tf.tasks.finetune.results import RunRow
from bert_tf.tasks.finetune.run import Finetuned, TaskFiles, finetune_task
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.training.fit import CHECKPOINTS_NAME
from bert_tf.training.loop.checkpoints import TrainingError

RUNS_NAME = "runs"
# What a run that came to its end leaves of itself: settings and result.
TRIAL_NAME = "trial.json"
# arXiv 1810.04805, A.3.
PAPER_BATCHES, PAPER_RATES, PAPER_EPOCHS = (16, 32), (5e-5, 3e-5, 2e-5), (2, 3, 4)


@dataclass(frozen=True)
class Trial:
    """One run of several.

    Args:
        config: of the run.
    """

    config: TrainingConfig

    @property
    def settings(self) -> dict[str, Any]:
        """What runs differ in."""
        return {name: getattr(self.config, name) for name in ("batch_size", "learning_rate", "epochs", "seed")}

    @property
    def name(self) -> str:
        """Name of its folder."""
        return "_".join(f"{name}_{value:g}" for name, value in self.settings.items())


def trials(config: TrainingConfig, paper_grid: bool, restarts: int) -> list[Trial]:
    """Returns the runs to make.

    Args:
        config: what they share.
        paper_grid: whether to try the batch sizes, rates and epochs of the paper, and not those of `config`.
        restarts: runs of each setting, with the seeds from that of `config` on.

    Raises:
        ValueError: for fewer than one restart.
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
    """What came of a trial: `result`, or the `failure` that ended it."""

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
    """Makes several runs; the best one's preset goes to `output/preset`, a table and a page of all beside it.

    A run that ends in a loss that is not finite is counted as failed, and the others go on. Given the same output
    again, runs that came to their end are not made again, and one that was broken off goes on. Checkpoints of runs that
    came to their end are deleted: those of eighteen runs of BERT base would take more than 20 GB.

    Args:
        task, sources, start, problems: as for `finetune_task`.
        runs: from `trials`.
        output: folder of all; each run has its own in `output/runs`.

    Returns:
        The best by the task's metric on the development set (of equal ones the first), its result, and all outcomes.

    Raises:
        TrainingError: where no run came to its end.
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
            result = _former(folder, settings) or finetune_task(
                task, sources, start, trial.config, folder, input_errors
            )
            save_json({"settings": settings, "result": _plain(result)}, folder / TRIAL_NAME)
            shutil.rmtree(folder / CHECKPOINTS_NAME, ignore_errors=True)
            outcomes.append(Outcome(trial, result))
        except TrainingError as error:
            outcomes.append(Outcome(trial, None, str(error)))
        # Models are in cycles with their graphs; several of them would not fit into memory.
        gc.collect()
        page = write_results(output, task.name, _rows(outcomes, task.metric), task.metric)
    whole = _whole(outcomes)
    if not whole:
        raise TrainingError(f"none of {len(runs)} runs came to its end; the last: {outcomes[-1].failure}")
    trial, result = max(whole, key=lambda made: made[1].metrics[task.metric])
    replace_directory(output / RUN_PRESET_NAME, lambda staging: _copy(result.preset, staging))
    print(f"a page of all runs to look at: {page}", file=sys.stderr)
    return trial, result, outcomes


def _whole(outcomes: Sequence[Outcome]) -> list[tuple[Trial, Finetuned]]:
    return [(outcome.trial, outcome.result) for outcome in outcomes if outcome.result]


def _rows(outcomes: Sequence[Outcome], metric: str) -> list[RunRow]:
    """Returns the lines of the table."""
    best = max((result.metrics[metric] for _, result in _whole(outcomes)), default=None)
    rows: list[RunRow] = []
    for outcome in outcomes:
        trial, result = outcome.trial, outcome.result
        if result is None:
            rows.append(RunRow(trial.name, trial.settings, None, 0, 0.0, outcome.failure))
            continue
        is_best = result.metrics[metric] == best and not any(row.is_best for row in rows)
        told = (result.metrics, result.step, result.seconds, result.remark)
        rows.append(RunRow(trial.name, trial.settings, *told, is_best))
    return rows


def _former(folder: Path, settings: Mapping[str, Any]) -> Finetuned | None:
    """Returns the result of a run with these settings that came to its end, None where there is none."""
    path = folder / TRIAL_NAME
    if not path.is_file():
        return None
    told = json.loads(path.read_text(encoding="utf-8"))
    if told["settings"] != json.loads(json.dumps(settings)):
        raise ConfigError(f"{folder}: holds a run with other settings or files; remove it, or take another output.")
    return Finetuned(**told["result"] | {"preset": folder / RUN_PRESET_NAME})


def _plain(result: Finetuned) -> dict[str, Any]:
    return {**vars(result), "preset": RUN_PRESET_NAME}


def _fingerprints(sources: TaskFiles, start: FinetuneInit) -> dict[str, Any]:
    """Returns what identifies the files that runs depend on, and how they start."""
    directory = preset_directory(start.preset)
    paths = [Path(path) for path in (*sources.training, sources.dev, *sources.further.values(), *sources.augment)]
    paths += [directory / name for name in (CONFIG_NAME, WEIGHTS_NAME)]
    features = start.features and replace(start.features, folder=None)
    how = json.loads(json.dumps(asdict(replace(start, preset=Path(), features=features)), default=str))
    return {"files": {str(path): _sha256(path) for path in paths if path.is_file()}, "start": how}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _copy(source: Path, staging: Path) -> None:
    for path in source.iterdir():
        shutil.copy2(path, staging / path.name)

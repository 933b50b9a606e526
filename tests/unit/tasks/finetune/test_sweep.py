"""Sweeps of a task: list of runs, selection of the best one, failed runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.tasks.classify.task import ClassifyTask
from bert_tf.tasks.entry import TaskFiles
from bert_tf.tasks.features.config import Features
from bert_tf.tasks.finetune import sweep
from bert_tf.tasks.finetune.init import FinetuneInit
from bert_tf.tasks.finetune.run import Finetuned
from bert_tf.tasks.finetune.sweep import finetune_trials, trials
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.training.loop.checkpoints import TrainingError

CONFIG = TrainingConfig(batch_size=8, learning_rate=1e-4, epochs=5, seed=7)


def test_rates_of_the_grid_are_scaled_to_the_width() -> None:
    rates = {trial.config.learning_rate for trial in trials(CONFIG, paper_grid=True, restarts=1, rate_scale=14.7)}
    assert rates == {7.3e-4, 4.4e-4, 2.9e-4}


def test_grid_is_that_of_the_paper() -> None:
    """ArXiv 1810.04805, A.3: batch size 16, 32; rate 5e-5, 3e-5, 2e-5; 2, 3, 4 epochs."""
    configs = [trial.config for trial in trials(CONFIG, paper_grid=True, restarts=1)]
    settings = {(config.batch_size, config.learning_rate, config.epochs) for config in configs}
    assert settings == {(b, r, e) for b in (16, 32) for r in (5e-5, 3e-5, 2e-5) for e in (2, 3, 4)}
    assert len(configs) == 18
    assert {config.seed for config in configs} == {7}


def test_restarts_differ_only_in_their_seeds() -> None:
    sweep_trials = trials(CONFIG, paper_grid=False, restarts=3)
    assert [trial.config.seed for trial in sweep_trials] == [7, 8, 9]
    assert {trial.name.rpartition("_seed_")[0] for trial in sweep_trials} == {
        "batch_size_8_learning_rate_0.0001_epochs_5"
    }
    assert len({trial.name for trial in sweep_trials}) == 3
    assert len({trial.name for trial in trials(CONFIG, paper_grid=True, restarts=2)}) == 36


def test_empty_sweep_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`restarts` must be at least 1. Received: 0"):
        trials(CONFIG, paper_grid=False, restarts=0)


@pytest.fixture
def started_runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the names of the executed runs; their accuracy is that of `FIGURES` by seed, and None fails."""
    names: list[str] = []

    def run(task, sources, start, config, output: Path, input_errors: InputErrors) -> Finetuned:
        names.append(output.name)
        if config.seed in INTERRUPTED_SEEDS:
            INTERRUPTED_SEEDS.remove(config.seed)
            raise KeyboardInterrupt
        figure = FIGURES[config.seed]
        if figure is None:
            raise TrainingError("the loss is nan")
        (output / "preset").mkdir(parents=True)
        (output / "preset/config.json").write_text(str(config.seed), "utf-8")
        (output / "checkpoints").mkdir()
        return Finetuned(output / "preset", {"accuracy": figure}, 10, "", 3, 0.5)

    monkeypatch.setattr(sweep, "finetune_task", run)
    monkeypatch.setattr(sweep, "_identity", lambda start: str(start.preset))
    return names


FIGURES = {7: 0.5, 8: None, 9: 0.8, 10: 0.8}
INTERRUPTED_SEEDS: set[int] = set()


def four(home: Path, start: FinetuneInit = FinetuneInit(Path("p"))) -> tuple:  # noqa: B008 it is frozen
    (home / "data").mkdir(exist_ok=True)
    for name in ("train", "dev"):
        (home / "data" / name).write_text(name, "utf-8")
    files = TaskFiles(home / "data/train", home / "data/dev")
    runs = trials(CONFIG, paper_grid=False, restarts=4)
    return finetune_trials(ClassifyTask(), files, start, runs, home / "out", InputErrors())


def test_best_run_is_kept_and_failures_do_not_stop_the_sweep(started_runs: list[str], tmp_path: Path) -> None:
    best, result, outcomes = four(tmp_path)
    assert started_runs == [outcome.trial.name for outcome in outcomes]
    assert (best.config.seed, result.metrics) == (9, {"accuracy": 0.8})
    assert (tmp_path / "out/preset/config.json").read_text("utf-8") == "9"
    assert [outcome.failure for outcome in outcomes] == ["", "the loss is nan", "", ""]
    assert not list(tmp_path.rglob("checkpoints"))
    summary = json.loads((tmp_path / "out/results.json").read_text("utf-8"))
    assert [run["is_best"] for run in summary["runs"]] == [False, False, True, False]


@pytest.mark.integration
def test_finished_runs_are_not_repeated(started_runs: list[str], tmp_path: Path) -> None:
    INTERRUPTED_SEEDS.add(9)
    with pytest.raises(KeyboardInterrupt):
        four(tmp_path)
    best, result, _ = four(tmp_path)
    seeds = [int(name.rsplit("_", 1)[1]) for name in started_runs]
    assert seeds == [7, 8, 9, 8, 9, 10]
    assert (best.config.seed, result.step, result.preset.parent.name) == (9, 3, started_runs[2])


def test_sweep_with_another_initialisation_is_refused(started_runs: list[str], tmp_path: Path) -> None:
    four(tmp_path)
    with pytest.raises(ConfigError, match="holds a run with other settings or files"):
        four(tmp_path, FinetuneInit(Path("p"), features=Features("last")))


def test_sweep_with_other_files_is_refused(
    started_runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    four(tmp_path)
    monkeypatch.setattr(Path, "write_text", lambda path, text, encoding: path.write_bytes(b"another"))
    with pytest.raises(ConfigError, match="holds a run with other settings or files"):
        four(tmp_path)


def test_sweep_with_only_failures_is_an_error(started_runs: list[str], tmp_path: Path) -> None:
    runs = [trial for trial in trials(CONFIG, paper_grid=False, restarts=4) if FIGURES[trial.config.seed] is None]
    files = TaskFiles(Path("train"), Path("dev"))
    with pytest.raises(TrainingError, match="none of 1 runs finished.* the loss is nan"):
        finetune_trials(ClassifyTask(), files, FinetuneInit(Path("p")), runs, tmp_path, InputErrors())
    assert not (tmp_path / "preset").exists()

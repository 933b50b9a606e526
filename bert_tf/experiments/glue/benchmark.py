"""The benchmark: executes the runs, predicts the test sets, and writes table, page and submission."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bert_tf.config import ConfigError, save_json
from bert_tf.config.preset_names import CHECKPOINTS_NAME
from bert_tf.experiments.glue.compare import compare
from bert_tf.experiments.glue.plan import (
    PAGE_NAME,
    RESULTS_NAME,
    SUBMISSION,
    ZIP_NAME,
    GlueSettings,
    RateTrial,
    prediction_runs,
    trials_of,
)
from bert_tf.experiments.glue.results import (
    best_result,
    copy_predictions,
    diagnostic_result,
    most_frequent_label,
)
from bert_tf.experiments.glue.table import GlueResults, page_of
from bert_tf.experiments.glue.tasks import AX, DIAGNOSTIC, DIAGNOSTIC_TASK, WNLI, TaskData
from bert_tf.experiments.runs import Executor, Run, Runs, Status
from bert_tf.reports.glue import write_glue_page
from bert_tf.tasks.glue.submission import TEST_SETS, bundle


def run_benchmark(
    settings: GlueSettings,
    data: Sequence[TaskData],
    missing: Mapping[str, str],
    executor: Executor,
    other: Path | None = None,
) -> tuple[GlueResults, Path | None]:
    """Executes the runs that have no results, and writes `glue.json`, `glue.html` and `submission.zip`.

    Args:
        settings: settings of the benchmark.
        data: the tasks and their files.
        missing: reasons for what is missing, by task or file.
        executor: executes the command of a run.
        other: output directory of a benchmark to compare with.

    Returns:
        The results, and the path of the submission; None if it would not be complete.

    Raises:
        ConfigError: if no task has a result.
    """
    results = GlueResults(settings, missing=dict(missing), other=other)
    trials = {one.task.name: trials_of(settings, one) for one in data}
    runs = Runs(settings.output, [trial.run for group in trials.values() for trial in group])
    runs.execute_all(lambda run: _without_checkpoints(run, runs, executor))
    for one in data:
        _note_failures(results, runs, trials[one.task.name])
        result = best_result(runs, trials[one.task.name], settings.output)
        if one.task.name == WNLI and not settings.train_wnli:
            result = most_frequent_label(one, settings.output)
        if result is not None:
            results.tasks[one.task.name] = result
    if not results.tasks:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in results.missing.items())
        raise ConfigError(f"{settings.output}: no task has a result: {reasons}")
    _predict(results, executor)
    _score_diagnostic(results)
    if other is not None:
        _compare(results, other)
    zipped = _submission(results)
    save_json(results.to_json(), settings.output / RESULTS_NAME)
    write_glue_page(settings.output / PAGE_NAME, page_of(results))
    return results, zipped


def _without_checkpoints(run: Run, runs: Runs, executor: Executor) -> Mapping[str, Any]:
    """Executes a run and deletes its checkpoints, which would take three times the space of the preset."""
    summary = executor(run)
    shutil.rmtree(runs.folder(run) / CHECKPOINTS_NAME, ignore_errors=True)
    return summary


def _note_failures(results: GlueResults, runs: Runs, trials: Sequence[RateTrial]) -> None:
    for trial in trials:
        state = runs.state(trial.run)
        if state.status is not Status.FINISHED:
            results.missing[trial.run.name] = f"{state.status}: {state.reason}"


def _predict(results: GlueResults, executor: Executor) -> None:
    """Predicts the test sets with the best run of each task."""
    best = (result.best for result in results.tasks.values())
    predictions = {
        file: run for trial in best if trial for file, run in prediction_runs(results.settings, trial).items()
    }
    if predictions:
        print("\npredictions of the test sets", file=sys.stderr, flush=True)
    runs = Runs(results.settings.output, list(predictions.values()))
    runs.execute_all(executor)
    results.missing |= copy_predictions(runs, predictions, results.settings.output)


def _score_diagnostic(results: GlueResults) -> None:
    trained = results.tasks.get(DIAGNOSTIC_TASK)
    if trained is None or trained.data.diagnostic is None or DIAGNOSTIC in results.missing:
        return
    try:
        results.tasks[AX.name] = diagnostic_result(trained, trained.data.diagnostic, results.settings.output)
    except ValueError as error:
        results.missing[AX.title] = str(error)


def _compare(results: GlueResults, other: Path) -> None:
    for name, result in results.tasks.items():
        try:
            results.comparisons[name] = compare(result, results.settings.output, other)
        except ValueError as error:
            results.missing[f"comparison of {result.data.task.title}"] = str(error)


def _submission(results: GlueResults) -> Path | None:
    """Writes the submission; None if the predictions of a test set are missing or have another number of rows."""
    output = results.settings.output
    absent = [name for name in TEST_SETS if not (output / SUBMISSION / name).is_file()]
    if absent:
        results.missing[ZIP_NAME] = f"no predictions {', '.join(absent)}"
        return None
    try:
        bundle(output / SUBMISSION, output / ZIP_NAME)
    except ValueError as error:
        results.missing[ZIP_NAME] = str(error)
        return None
    return output / ZIP_NAME

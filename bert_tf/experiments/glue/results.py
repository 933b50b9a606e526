"""Results of the runs on GLUE: the best run of each task, spread over seeds, and averages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_tf.config.files import write_file
from bert_tf.experiments.glue.plan import DEV, SUBMISSION, RateTrial
from bert_tf.experiments.glue.published import WITHOUT_WNLI
from bert_tf.experiments.glue.tasks import DIAGNOSTIC, TASKS, TaskData
from bert_tf.experiments.runs import Record, Runs, Status
from bert_tf.experiments.statistics import Spread, spread
from bert_tf.tasks.base import Task
from bert_tf.tasks.glue.files import write_predictions
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.registry import task_class


@dataclass(frozen=True)
class TaskResult:
    """Result of a task on its development set.

    Args:
        data: the task and its files.
        metrics: metrics of the best run.
        best: the best run; None for the prediction of the most frequent label.
        records: the finished runs with their records.
        over_seeds: mean and deviation of the score over the seeds of the best learning rate, in percent; None without
            runs.
        remark: warning about the predictions of the best run, or the label that was always predicted.
    """

    data: TaskData
    metrics: Mapping[str, float]
    best: RateTrial | None
    records: Sequence[tuple[RateTrial, Record]]
    over_seeds: Spread | None
    remark: str

    @property
    def score(self) -> float:
        """The score in percent."""
        return self.data.task.score(self.metrics)

    def to_json(self) -> dict[str, Any]:
        """Returns the result as JSON values."""
        best, over_seeds = self.best, self.over_seeds
        return {
            "score": self.score,
            "metrics": dict(self.metrics),
            "best": best and {"run": best.run.name, "learning_rate": best.rate, "seed": best.seed},
            "over_seeds": over_seeds and vars(over_seeds),
            "remark": self.remark,
            "runs": {
                trial.run.name: {"score": score_of(trial, record), "seconds": record.seconds, "command": record.command}
                for trial, record in self.records
            },
        }


def score_of(trial: RateTrial, record: Record) -> float | None:
    """Returns the score of a run in percent, None if a metric is not a number.

    Args:
        trial: the run.
        record: its record.
    """
    task, metrics = trial.data.task, (record.result or {}).get("metrics", {})
    return None if any(metrics.get(name) is None for name in task.metrics) else task.score(metrics)


def best_result(runs: Runs, trials: Sequence[RateTrial], output: Path) -> TaskResult | None:
    """Returns the result of the best run of a task, whose predictions are copied; None if no run finished.

    Args:
        runs: the runs of the benchmark.
        trials: the runs of the task.
        output: output directory of the benchmark.
    """
    finished = runs.results()
    records = [(trial, finished[trial.run.name]) for trial in trials if trial.run.name in finished]
    scored = [(score, trial, record) for trial, record in records if (score := score_of(trial, record)) is not None]
    if not scored:
        return None
    _, best, record = max(scored, key=lambda one: one[0])
    for file, name in best.data.task.dev_predictions.items():
        _copy(runs.folder(best.run) / name, output / DEV / file)
    result = record.result or {}
    over_seeds = spread([score for score, trial, _ in scored if trial.rate == best.rate])
    return TaskResult(best.data, result["metrics"], best, records, over_seeds, result.get("remark", ""))


def most_frequent_label(data: TaskData, output: Path) -> TaskResult:
    """Returns the result of predicting the most frequent training label; writes predictions of all files.

    Args:
        data: a classification task and its files.
        output: output directory of the benchmark.
    """
    task: Any = task_class(data.task.name)()
    counts = Counter(str(example.label) for example in task.read(data.train, InputErrors()))
    label = max(sorted(counts), key=counts.__getitem__)
    metrics = {}
    for folder, files in ((DEV, data.dev), (SUBMISSION, data.tests)):
        for file, path in files.items():
            examples = list(task.read(path, InputErrors(), labelled=folder == DEV))
            (output / folder).mkdir(parents=True, exist_ok=True)
            write_predictions(output / folder / file, ((example.key, label) for example in examples))
            if folder == DEV:
                metrics = task.metrics_of([str(example.label) for example in examples], [label] * len(examples))
    return TaskResult(data, metrics, None, (), None, f"not trained: the label {label} for all examples")


def diagnostic_result(trained: TaskResult, data: TaskData, output: Path) -> TaskResult:
    """Returns the result of the best MNLI run on the diagnostic set, whose predictions are copied.

    Args:
        trained: result of MNLI.
        data: the labelled diagnostic set.
        output: output directory of the benchmark, with the predictions of the submission.

    Raises:
        ValueError: if the predictions are not those of the labelled examples.
    """
    _copy(output / SUBMISSION / DIAGNOSTIC, output / DEV / DIAGNOSTIC)
    task, examples = dev_examples(data, DIAGNOSTIC)
    metrics = task.score(examples, task.read_answers(output / DEV / DIAGNOSTIC, examples))
    return TaskResult(data, metrics, trained.best, (), None, "predicted by the best run of MNLI")


def copy_predictions(runs: Runs, predictions: Mapping[str, Any], output: Path) -> dict[str, str]:
    """Copies finished predictions of test sets to the directory of the submission; returns reasons for missing ones.

    Args:
        runs: the runs of the predictions.
        predictions: runs by the leaderboard's file.
        output: output directory of the benchmark.
    """
    missing = {}
    for file, run in predictions.items():
        state = runs.state(run)
        if state.status is Status.FINISHED:
            _copy(runs.folder(run).with_name(file), output / SUBMISSION / file)
        else:
            missing[file] = state.reason
    return missing


def averages(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Returns the averages with and without WNLI, None if a task is missing, and the mean of the tasks that are there.

    The diagnostic set is not part of them.

    Args:
        scores: scores by the names of the tasks.
    """
    present = tuple(name for name in TASKS if name in scores)
    whole = {"average": tuple(TASKS), "average_without_wnli": WITHOUT_WNLI, "mean_of_tasks": present}
    return {
        name: sum(scores[task] for task in tasks) / len(tasks) if tasks and set(tasks) <= scores.keys() else None
        for name, tasks in whole.items()
    }


def dev_examples(data: TaskData, file: str) -> tuple[Task, list[Any]]:
    """Returns the task and its development examples.

    Args:
        data: the task and its files.
        file: the leaderboard's file, as in `TaskData.dev`.
    """
    task: Any = task_class(data.task.name)()
    return task, list(task.read(data.dev[file], InputErrors(skip=True)))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    write_file(target, source.read_bytes())

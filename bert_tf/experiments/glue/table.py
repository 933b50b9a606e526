"""Results of a benchmark and their tables, for the page and the terminal: scores, comparison and runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bert_tf.config.base import read_json_object
from bert_tf.entry.amounts import plural
from bert_tf.experiments.glue.compare import TaskComparison
from bert_tf.experiments.glue.plan import COMPARED, RESULTS_NAME, GlueSettings
from bert_tf.experiments.glue.published import PUBLISHED, WITHOUT_WNLI, Published
from bert_tf.experiments.glue.results import TaskResult, averages, score_of
from bert_tf.experiments.glue.tasks import ALL_TASKS, AX, TASKS
from bert_tf.experiments.runs import duration
from bert_tf.reports.glue import ComparisonRow, GluePage, ModelRow, RunRow, TaskRow

_DEV = "development sets"
NONE = "–"


@dataclass
class GlueResults:
    """Results of a benchmark.

    Args:
        settings: its settings.
        tasks: results by the names of the tasks.
        missing: reasons for what is missing, by task, run or file.
        comparisons: comparisons with another benchmark by the names of the tasks.
        other: output directory of the other benchmark.
    """

    settings: GlueSettings
    tasks: dict[str, TaskResult] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    comparisons: dict[str, TaskComparison] = field(default_factory=dict)
    other: Path | None = None

    @property
    def scores(self) -> dict[str, float]:
        """Scores in percent by the names of the tasks."""
        return {name: result.score for name, result in self.tasks.items()}

    @property
    def other_name(self) -> str:
        """Name of the other benchmark: its preset if it belongs to this benchmark, otherwise its directory."""
        if self.other == self.settings.output / COMPARED:
            return str(read_json_object(self.other / RESULTS_NAME)["preset"])
        return str(self.other or "")

    def to_json(self) -> dict[str, Any]:
        """Returns the results as JSON values."""
        settings = self.settings
        return {
            "preset": str(settings.preset),
            "from_scratch": settings.from_scratch,
            "split": "dev",
            **averages(self.scores),
            "tasks": {name: result.to_json() for name, result in self.tasks.items()},
            "missing": self.missing,
            "other": self.other and str(self.other),
            "comparisons": {name: one.to_json() for name, one in self.comparisons.items()},
        }


def page_of(results: GlueResults) -> GluePage:
    """Returns the content of the page.

    Args:
        results: the results of a benchmark.
    """
    settings, tasks = results.settings, results.tasks
    averaged = tuple(name for name in TASKS if name in tasks)
    weights = "random weights of the size of " if settings.from_scratch else ""
    return GluePage(
        heading=f"GLUE: {weights}{settings.preset}",
        titles={name: task.title for name, task in TASKS.items()},
        diagnostics={AX.name: AX.title},
        averages=averages(results.scores),
        models=[ours(results), *_other(results), *(_published(row, averaged) for row in PUBLISHED)],
        tasks=[_task_row(result) for result in tasks.values()],
        comparisons=[_comparison_row(results, name) for name in results.comparisons],
        other=results.other_name,
        runs=[
            RunRow(result.data.task.title, trial.rate, trial.seed, score_of(trial, record), record.seconds,
                   trial is result.best, (record.result or {}).get("remark", ""))
            for result in tasks.values()
            for trial, record in result.records
        ],
        missing=results.missing,
    )  # fmt: skip


def ours(results: GlueResults) -> ModelRow:
    """Returns the row of this benchmark.

    Args:
        results: the results of a benchmark.
    """
    cells = {name: "/".join(_percent(100 * result.metrics[metric]) for metric in result.data.task.metrics)
             for name, result in results.tasks.items()}  # fmt: skip
    means = averages(results.scores)
    return ModelRow("this preset", _DEV, cells, results.scores, tuple(means.values()), "ours")


def _other(results: GlueResults) -> list[ModelRow]:
    if not results.comparisons:
        return []
    scores = {name: one.other for name, one in results.comparisons.items()}
    means = averages(scores)
    cells = {name: _percent(score) for name, score in scores.items()}
    same = scores.keys() == results.tasks.keys()
    row = (means["average"], means["average_without_wnli"], means["mean_of_tasks"] if same else None)
    return [ModelRow(results.other_name, f"{_DEV}; mean of the metrics", cells, scores, row, "other")]


def _published(row: Published, tasks: tuple[str, ...]) -> ModelRow:
    cells = {
        name: "/".join(NONE if value is None else _percent(value) for value in values)
        for name, values in row.metrics.items()
        if any(value is not None for value in values)
    }
    # Models without a published metric are drawn by the others.
    scores = {
        name: sum(known) / len(known) for name in cells if (known := [v for v in row.metrics[name] if v is not None])
    }
    without = row.mean(WITHOUT_WNLI)
    means = (row.mean(tuple(TASKS)), row.average if without is None else without, row.mean(tasks))
    return ModelRow(row.name, f"test sets; {row.source}", cells, scores, means, "published")


def _comparison_row(results: GlueResults, name: str) -> ComparisonRow:
    title, one = ALL_TASKS[name].title, results.comparisons[name]
    result = one.comparison
    interval = (result.low, result.high)
    score = results.tasks[name].score
    return ComparisonRow(title, score, one.other, result.difference, interval, result.p_value, one.mcnemar)


def _task_row(result: TaskResult) -> TaskRow:
    best, spread = result.best, result.over_seeds
    return TaskRow(
        result.data.task.title,
        " and ".join(result.data.task.metrics).replace("_", " "),
        result.data.examples,
        result.score,
        best.rate if best else None,
        best.seed if best else None,
        spread.mean if spread and spread.count > 1 else None,
        spread.deviation if spread else None,
        sum(record.seconds for _, record in result.records),
        result.remark,
    )


def text_table(results: GlueResults) -> str:
    """Returns the scores beside the published ones as lines of text.

    Args:
        results: the results of a benchmark.
    """
    page = page_of(results)
    names = [name for name in ALL_TASKS if name in results.tasks]
    head = ["", *(ALL_TASKS[name].title for name in names), "average", "without WNLI", "mean of these"]
    rows = [
        [model.name, *(model.cells.get(name, NONE) for name in names), *map(_percent, model.means)]
        for model in page.models
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)]
    seconds = sum(row.seconds for row in page.runs)
    lines.append(f"this preset: {_DEV}; published: test sets. {plural(len(page.runs), 'run')}, {duration(seconds)}")
    for row in page.comparisons:
        lines.append(
            f"{row.title}: {row.difference:+.1f} compared with {page.other} (95% interval {row.interval[0]:+.1f} to "
            f"{row.interval[1]:+.1f}, p {row.p_value:.3f}): {row.verdict}"
        )
    return "\n".join(lines + [f"missing: {name}: {reason}" for name, reason in results.missing.items()])


def _percent(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f}"

"""Page of a benchmark on GLUE: scores beside published ones, comparison of two presets, tasks and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_tf.entry.amounts import plural
from bert_tf.reports.charts import Chart, strip_chart
from bert_tf.reports.page import render, write_page
from bert_tf.reports.text import cut

_NONE = "–"
_AVERAGES = ("Average", "Without WNLI", "Mean of these tasks")


@dataclass(frozen=True)
class ModelRow:
    """Scores of a model by the names of the tasks, in percent.

    Args:
        name: name of the model.
        note: data of the scores, and their source.
        cells: metrics as text, for example `81.1/71.1`.
        scores: numbers to draw.
        means: average of all tasks, average without WNLI, and mean of the tasks of this benchmark; None if unknown.
        kind: `ours`, `other` or `published`.
    """

    name: str
    note: str
    cells: Mapping[str, str]
    scores: Mapping[str, float]
    means: tuple[float | None, ...]
    kind: str


@dataclass(frozen=True)
class TaskRow:
    """Result of a task: the best run, and the spread over the seeds of its learning rate; scores in percent."""

    title: str
    metric: str
    examples: int
    score: float
    rate: float | None
    seed: int | None
    mean: float | None
    deviation: float | None
    seconds: float
    remark: str


@dataclass(frozen=True)
class ComparisonRow:
    """Comparison of two presets on a task, in percent.

    Args:
        title: title of the task.
        score: score of this preset.
        other: score of the other preset.
        difference: difference of the two.
        interval: its confidence interval.
        p_value: p-value of the paired bootstrap.
        mcnemar: p-value of McNemar's test; None for tasks without labels.
    """

    title: str
    score: float
    other: float
    difference: float
    interval: tuple[float, float]
    p_value: float
    mcnemar: float | None

    @property
    def verdict(self) -> str:
        """Result of the comparison in words."""
        if self.interval[0] <= 0 <= self.interval[1]:
            return "within noise"
        return "better" if self.difference > 0 else "worse"


@dataclass(frozen=True)
class RunRow:
    """A run: its task, learning rate, seed, score in percent (None if it is not a number), time and remark."""

    title: str
    rate: float
    seed: int
    score: float | None
    seconds: float
    is_best: bool
    remark: str


@dataclass(frozen=True)
class GluePage:
    """Content of the page.

    Args:
        heading: title.
        titles: titles of all tasks of the averages by their names.
        diagnostics: titles of tasks that are not in the averages.
        averages: averages by name; None if a task is missing.
        models: this benchmark first, then others.
        tasks: results of the tasks.
        comparisons: comparisons with another benchmark.
        other: the other benchmark.
        runs: all finished runs.
        missing: reasons for what is missing.
    """

    heading: str
    titles: Mapping[str, str]
    diagnostics: Mapping[str, str]
    averages: Mapping[str, float | None]
    models: Sequence[ModelRow]
    tasks: Sequence[TaskRow]
    comparisons: Sequence[ComparisonRow]
    other: str
    runs: Sequence[RunRow]
    missing: Mapping[str, str]


def write_glue_page(path: str | Path, page: GluePage) -> None:
    """Writes the page, atomically.

    Args:
        path: the page.
        page: its content.
    """
    write_page(path, _rendered(page))


def _rendered(page: GluePage) -> str:
    mine = page.models[0]
    names = [name for name in page.titles if name in mine.scores]
    whole = len(names) == len(page.titles)
    titles = {**page.titles, **page.diagnostics}
    shown = [*names, *(name for name in page.diagnostics if name in mine.scores)]
    # The mean of these tasks equals the average if none is missing.
    kept = [number for number in range(len(_AVERAGES)) if number < 2 or not whole]
    if not whole:
        kept = [number for number in kept if mine.means[number] is not None]
    hours = sum(run.seconds for run in page.runs) / 3600
    return render(
        "glue.html.jinja",
        heading=cut(page.heading, 200),
        lead=f"{len(names)} of {plural(len(page.titles), 'task')}, {plural(len(page.runs), 'run')}, "
        f"{hours:.2g} hours in total. Scores are percentages.",
        boxes=[
            *((_AVERAGES[number], _percent(mine.means[number]), "development sets") for number in kept),
            ("Tasks", f"{len(names)} of {len(page.titles)}", "with a result"),
        ],
        chart=_chart(page, shown, titles),
        columns=[
            ("Model", ""),
            *((titles[name], "n") for name in shown),
            *((_AVERAGES[number], "n") for number in kept),
        ],
        models=[(model, _cells(model, shown, kept)) for model in page.models],
        page=page,
    )


def _cells(model: ModelRow, names: Sequence[str], kept: Sequence[int]) -> list[str]:
    return [*(model.cells.get(name, _NONE) for name in names), *(_percent(model.means[number]) for number in kept)]


def _percent(value: float | None) -> str:
    return _NONE if value is None else f"{value:.1f}"


def _chart(page: GluePage, names: Sequence[str], titles: Mapping[str, str]) -> Chart:
    """Draws the score of every model, one row for each task."""
    texts = "; ".join(f"{titles[name]} {_percent(page.models[0].scores[name])}" for name in names)
    values = [model.scores[name] for model in page.models for name in names if name in model.scores]
    chart, x, heights = strip_chart("Scores by task", texts, values, [titles[name] for name in names])
    for name, y in zip(names, heights, strict=True):
        # This model is drawn last, over the others.
        for model in reversed(page.models):
            if (score := model.scores.get(name)) is not None:
                _draw(chart, model, x(score), y, f"{cut(model.name, 60)}: {model.cells[name]}")
    return chart


def _draw(chart: Chart, model: ModelRow, x: float, y: float, tip: str) -> None:
    shapes: dict[str, Any] = {
        "ours": lambda: chart.dot("dot", x, y, 6, tip),
        "other": lambda: chart.dot("run best", x, y, 6, tip),
        "published": lambda: chart.line("mean published", (x, x), (y - 7, y + 7), tip),
    }
    shapes[model.kind]()

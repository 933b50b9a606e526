"""Report on a sweep: the best run, the spread of each setting, and a table of all runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bert_tf.config.files import staged_file
from bert_tf.reports.charts import WIDTH, Chart, Scale, axis_of
from bert_tf.reports.page import render, write_page
from bert_tf.reports.tasks.results import (
    RunRow,
    Setting,
    figure_names,
    markdown,
    measured,
    ordered,
    setting_names,
    settings_of,
    summary,
    written,
)
from bert_tf.reports.text import cut, format_metric, plural

RESULTS_JSON, RESULTS_MARKDOWN, RESULTS_PAGE = "results.json", "results.md", "results.html"
_MOST_METRICS = 6
# Maximum settings in the chart, the best first.
_MOST_DRAWN = 40


def write_results(folder: Path, title: str, rows: Sequence[RunRow], metric: str) -> Path:
    """Writes `results.json`, `results.md` and `results.html`, each atomically, and returns the path of the page.

    `rows` are finished and failed runs in any order; later calls may add runs. `metric` ranks the runs; larger is
    better.
    """
    for name, content in ((RESULTS_JSON, summary), (RESULTS_MARKDOWN, markdown)):
        with staged_file(folder / name) as file:
            file.write(content(title, rows, metric).encode(errors="replace"))
    write_page(folder / RESULTS_PAGE, _page(title, rows, metric))
    return folder / RESULTS_PAGE


def _page(title: str, rows: Sequence[RunRow], metric: str) -> str:
    settings = settings_of(rows, metric)
    hours = sum(row.seconds for row in rows) / 3600
    runs, tried = plural(len(rows), "run"), plural(len(settings), "setting")
    names, metrics = setting_names(rows), figure_names(rows, metric)[:_MOST_METRICS]
    columns = [("Run", ""), *((cut(name, 40), "n") for name in (*names, *metrics)), ("Step", "n"), ("Seconds", "n")]
    return render(
        "sweep.html.jinja",
        heading=cut(title, 200),
        lead=cut(f"{runs} of {tried}, {hours:.2g} hours in total, ranked by {metric}."),
        failures=_failure_summary(rows),
        best=_best(rows, metric),
        metric=metric,
        settings=settings,
        drawn=_MOST_DRAWN,
        strips=_strips(settings[:_MOST_DRAWN]) if any(one.values for one in settings) else None,
        run_columns=columns,
        runs=[(row, _cells(row, names, metrics)) for row in ordered(rows, metric)],
    )


def _failure_summary(rows: Sequence[RunRow]) -> str:
    collapsed, failed = sum(row.collapsed for row in rows), sum(row.metrics is None for row in rows)
    counts = [f"{count} {what}" for count, what in ((collapsed, "collapsed"), (failed, "failed")) if count]
    return f"{' and '.join(counts)} of {plural(len(rows), 'run')}: see their remarks below." if counts else ""


def _best(rows: Sequence[RunRow], metric: str) -> list[tuple[str, str, str]]:
    """Returns name, value and note of the metrics and settings of the best run, empty without one."""
    for row in rows:
        if row.is_best:
            others = {name: format_metric(value) for name, value in (row.metrics or {}).items() if name != metric}
            boxes = [*((name, written(value)) for name, value in row.settings.items()), *others.items()]
            first = (cut(metric, 40), measured(row.value(metric)), f"the best run, {cut(row.name, 60)}")
            return [first, *((cut(name, 40), value, "") for name, value in boxes[:_MOST_METRICS])]
    return []


def _cells(row: RunRow, names: Sequence[str], metrics: Sequence[str]) -> list[str]:
    """Returns the cells of a run without its name."""
    settings = (cut(written(row.settings.get(name))) for name in names)
    values = (measured((row.metrics or {}).get(name)) for name in metrics)
    return [*settings, *values, f"{row.step:,}", f"{row.seconds:,.0f}"]


def _strips(settings: Sequence[Setting]) -> Chart:
    """Draws the ranking metric of every run, one row per setting."""
    metric = settings[0].metric
    low, high, ticks = axis_of([value for one in settings for value in one.values])
    top, floor = 8.0, 8.0 + 40.0 * len(settings)
    means = "; ".join(f"{one.name}: {measured(one.mean)}" for one in settings)
    chart = Chart(f"{metric} by setting", cut(means, 2000), floor + 24)
    x = Scale(low, high, 16, WIDTH - 40)
    for tick in ticks:
        chart.line("grid", (x(tick), x(tick)), (top, floor))
        chart.label(f"{tick:.6g}", x(tick), floor + 18)
    for number, one in enumerate(settings):
        y = top + 40.0 * number + 27
        chart.label(cut(one.name, 64), x.start, y - 13, "start", "name beside")
        if one.mean is not None:
            if one.deviation:
                ends = (max(one.mean - one.deviation, low), min(one.mean + one.deviation, high))
                chart.line("spread", (x(ends[0]), x(ends[1])), (y, y))
            tip = f"{cut(one.name)}: mean {written(one.mean)}, standard deviation {measured(one.deviation)}"
            chart.line("mean", (x(one.mean), x(one.mean)), (y - 8, y + 8), tip)
        for row in one.rows:
            _draw_run(chart, row, row.value(metric), x, y)
    return chart


def _draw_run(chart: Chart, row: RunRow, value: float | None, x: Scale, y: float) -> None:
    if value is None:
        return
    at = x(value)
    tip = f"{cut(row.name)}: {measured(value)}{f', {cut(row.remark)}' if row.remark else ''}"
    if row.collapsed:
        left, right, above, below = at - 5, at + 5, y - 5, y + 5
        path = f"M{left:.1f},{above:.1f}L{right:.1f},{below:.1f}M{left:.1f},{below:.1f}L{right:.1f},{above:.1f}"
        chart.mark("path", "cross", tip, d=path)
    else:
        chart.dot("run", at, y, 5, tip)
    if row.is_best:
        chart.dot("run best", at, y, 9)

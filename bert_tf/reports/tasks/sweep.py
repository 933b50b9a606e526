"""Report on a sweep as JSON, Markdown and HTML: the best run, the spread of each setting, and a table of all runs."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bert_tf.config.files import staged_file
from bert_tf.entry.amounts import plural
from bert_tf.reports.charts import Chart, Scale, strip_chart
from bert_tf.reports.page import render, write_page
from bert_tf.reports.text import cut, format_metric

RESULTS_JSON, RESULTS_MARKDOWN, RESULTS_PAGE = "results.json", "results.md", "results.html"
_MOST_METRICS = 6
# Maximum settings in the chart, the best first.
_MOST_DRAWN = 40
# Prefix of the remark of a collapsed run (see `diagnostics.detect_collapse`).
COLLAPSED = "collapsed"
# The setting that differs between restarts.
SEED = "seed"
# Placeholder for a missing metric.
NONE = "–"


@dataclass(frozen=True)
class RunRow:
    """One run of a comparison; `metrics`, on the development set, are None if it failed.

    `settings` are those that differ between runs, for example `learning_rate`. Restarts differ only in `seed`, or in a
    name that ends in `.seed`. `remark` begins with `collapsed` if the predictions are all alike. `is_best` is about the
    development set.
    """

    name: str
    settings: Mapping[str, Any]
    metrics: Mapping[str, float] | None
    step: int
    seconds: float
    remark: str = ""
    is_best: bool = False

    @property
    def collapsed(self) -> bool:
        """True if the predictions are all alike."""
        return self.remark.startswith(COLLAPSED)

    @property
    def without_seed(self) -> dict[str, Any]:
        """The settings without the seed."""
        return {name: value for name, value in self.settings.items() if name.rpartition(".")[2] != SEED}

    def value(self, metric: str) -> float | None:
        """Returns a metric; None if it is missing or not finite."""
        value = (self.metrics or {}).get(metric)
        return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True)
class Setting:
    """Runs that differ only in the seed, in order, with the values of the selection metric and their statistics.

    Values include those of collapsed runs; `deviation` is that of the sample. A statistic without values is None.
    """

    settings: Mapping[str, Any]
    rows: Sequence[RunRow]
    values: Sequence[float]
    mean: float | None
    deviation: float | None
    mean_uncollapsed: float | None
    best: float | None
    collapsed: int
    failed: int

    @property
    def name(self) -> str:
        """The settings as text."""
        return ", ".join(f"{name} {written(value)}" for name, value in self.settings.items()) or "all runs"

    def summary(self) -> dict[str, Any]:
        """Returns the settings and statistics as JSON values."""
        return {
            "settings": dict(self.settings),
            "runs": len(self.rows),
            "failed": self.failed,
            "collapsed": self.collapsed,
            "mean": self.mean,
            "standard_deviation": self.deviation,
            "mean_uncollapsed": self.mean_uncollapsed,
            "best": self.best,
        }


def _setting(rows: Sequence[RunRow], metric: str) -> Setting:
    values = [value for row in rows if (value := row.value(metric)) is not None]
    uncollapsed = [value for row in rows if not row.collapsed and (value := row.value(metric)) is not None]
    return Setting(
        settings=rows[0].without_seed,
        rows=rows,
        values=values,
        mean=statistics.fmean(values) if values else None,
        deviation=statistics.stdev(values) if len(values) > 1 else None,
        mean_uncollapsed=statistics.fmean(uncollapsed) if uncollapsed else None,
        best=max(values, default=None),
        collapsed=sum(row.collapsed for row in rows),
        failed=sum(row.metrics is None for row in rows),
    )


def settings_of(rows: Sequence[RunRow], metric: str) -> list[Setting]:
    """Returns the runs grouped by settings, sorted by descending mean; settings without metrics come last."""
    groups: dict[str, list[RunRow]] = {}
    for row in rows:
        groups.setdefault(json.dumps(row.without_seed, sort_keys=True, default=str), []).append(row)
    return sorted(
        (_setting(group, metric) for group in groups.values()),
        key=lambda one: -math.inf if one.mean is None else one.mean,
        reverse=True,
    )


def ordered(rows: Sequence[RunRow], metric: str) -> list[RunRow]:
    """Returns the runs, best first; runs without metrics come last."""
    return sorted(rows, key=lambda row: (row.is_best, row.value(metric) is not None, row.value(metric)), reverse=True)


def summary(title: str, rows: Sequence[RunRow], metric: str) -> str:
    """Returns settings and runs as JSON; numbers that are not finite are written as null."""
    whole = {
        "title": title,
        "metric": metric,
        "best": next((row.name for row in rows if row.is_best), None),
        "settings": [one.summary() for one in settings_of(rows, metric)],
        "runs": [asdict(row) for row in rows],
    }
    return json.dumps(_plain(whole), indent=2, ensure_ascii=False, default=str) + "\n"


def markdown(title: str, rows: Sequence[RunRow], metric: str) -> str:
    """Returns the tables of settings and of runs as Markdown."""
    settings = settings_of(rows, metric)
    names, metrics = setting_names(rows), figure_names(rows, metric)
    lines = [f"# {_cell(title)}", "", f"By settings, {_cell(metric)}:", ""]
    lines += _table(
        ["settings", "runs", "mean", "standard deviation", "best", "collapsed", "failed"],
        ([one.name, len(one.rows), measured(one.mean), measured(one.deviation), measured(one.best), one.collapsed,
          one.failed] for one in settings),
    )  # fmt: skip
    lines += ["", "Runs, best first:", ""]
    lines += _table(
        ["run", *names, *metrics, "step", "seconds", "remark"],
        ([f"**{row.name}**" if row.is_best else row.name, *(row.settings.get(name) for name in names),
          *(measured((row.metrics or {}).get(name)) for name in metrics), row.step, round(row.seconds), row.remark]
         for row in ordered(rows, metric)),
    )  # fmt: skip
    return "\n".join(lines) + "\n"


def setting_names(rows: Sequence[RunRow]) -> list[str]:
    """Returns the names of all settings, in order of occurrence."""
    return list(dict.fromkeys(name for row in rows for name in row.settings))


def figure_names(rows: Sequence[RunRow], metric: str) -> list[str]:
    """Returns the names of all metrics, the selection metric first."""
    return list(dict.fromkeys([metric, *(name for row in rows for name in row.metrics or ())]))


def written(value: Any) -> str:
    """Formats a setting: `3e-05`, `0.1`, `–` for None."""
    if value is None:
        return NONE
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def measured(value: float | None) -> str:
    """Formats a metric: `0.9289`, `80.85`, `–` for None."""
    return NONE if value is None else format_metric(value)


def _table(names: Sequence[str], rows: Any) -> list[str]:
    head = [f"| {' | '.join(map(_cell, names))} |", f"|{'---|' * len(names)}"]
    return head + [f"| {' | '.join(_cell(written(value)) for value in row)} |" for row in rows]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _plain(value: Any) -> Any:
    """Converts to JSON values; numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_results(folder: Path, title: str, rows: Sequence[RunRow], metric: str) -> Path:
    """Writes `results.json`, `results.md` and `results.html`, each atomically, and returns the path of the page.

    `rows` are runs in any order; later calls may add runs. `metric` ranks the runs; larger is better.
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
        strips=_strips(settings[:_MOST_DRAWN], metric) if any(one.values for one in settings) else None,
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


def _strips(settings: Sequence[Setting], metric: str) -> Chart:
    """Draws the ranking metric of every run, one row per setting."""
    means = "; ".join(f"{one.name}: {measured(one.mean)}" for one in settings)
    chart, x, heights = strip_chart(
        f"{metric} by setting", means, [v for one in settings for v in one.values], [one.name for one in settings]
    )
    for one, y in zip(settings, heights, strict=True):
        if one.mean is not None:
            if one.deviation:
                ends = (max(one.mean - one.deviation, x.low), min(one.mean + one.deviation, x.high))
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

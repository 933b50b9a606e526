"""Comparison of runs: metrics by settings, as JSON and Markdown."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bert_tf.reports.text import format_metric

# Prefix of the remark of a collapsed run (see `diagnostics.detect_collapse`).
COLLAPSED = "collapsed"
# The setting that differs between restarts.
SEED = "seed"
# Placeholder for a missing metric.
NONE = "–"


@dataclass(frozen=True)
class RunRow:
    """One run of a comparison.

    Args:
        settings: settings that differ between runs, for example `learning_rate`. Restarts differ only in `seed`, or in
            a name that ends in `.seed`.
        metrics: metrics on the development set; None if the run failed.
        seconds: wall time.
        remark: the diagnostics; begins with `collapsed` if the predictions are all alike.
        is_best: whether the run is the best one on the development set.
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
    """Runs that differ only in the seed, in order, with the shared settings and the name of the selection metric."""

    settings: Mapping[str, Any]
    rows: Sequence[RunRow]
    metric: str

    @property
    def values(self) -> list[float]:
        """The selection metric of all runs that have it, collapsed ones included."""
        return [value for row in self.rows if (value := row.value(self.metric)) is not None]

    @property
    def mean(self) -> float | None:
        """Mean of the values."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation of the values; None for fewer than two."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def best(self) -> float | None:
        """Maximum of the values."""
        return max(self.values, default=None)

    @property
    def mean_uncollapsed(self) -> float | None:
        """Mean of the values without collapsed runs."""
        values = [v for row in self.rows if not row.collapsed and (v := row.value(self.metric)) is not None]
        return statistics.fmean(values) if values else None

    @property
    def collapsed(self) -> int:
        """Number of collapsed runs."""
        return sum(row.collapsed for row in self.rows)

    @property
    def failed(self) -> int:
        """Number of failed runs."""
        return sum(row.metrics is None for row in self.rows)

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


def settings_of(rows: Sequence[RunRow], metric: str) -> list[Setting]:
    """Returns the runs grouped by settings, sorted by descending mean; settings without metrics come last."""
    groups: dict[str, list[RunRow]] = {}
    for row in rows:
        groups.setdefault(json.dumps(row.without_seed, sort_keys=True, default=str), []).append(row)
    settings = [Setting(group[0].without_seed, group, metric) for group in groups.values()]
    return sorted(settings, key=lambda one: -math.inf if one.mean is None else one.mean, reverse=True)


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

"""Several runs beside each other: what they came to, by settings, as JSON and as Markdown."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bert_tf.reports.parts import figure

# How the remark of a run begins whose answers are all alike (see `verdict.collapse`).
COLLAPSED = "collapsed"
# The setting in which restarts differ.
SEED = "seed"
# What stands for a figure that there is none of.
NONE = "–"


@dataclass(frozen=True)
class RunRow:
    """One run.

    Args:
        name: its folder, or whatever names it.
        settings: what it differs from others in, for example `learning_rate`; restarts differ in `seed`, or a name that
            ends in `.seed`, alone.
        metrics: figures on the development set; None where the run failed.
        step: finished steps.
        seconds: wall time.
        remark: what is to be said of it; begins with `collapsed` where its answers are all alike.
        is_best: whether it is the one that the development set chose.
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
        """Whether its answers are all alike."""
        return self.remark.startswith(COLLAPSED)

    @property
    def without_seed(self) -> dict[str, Any]:
        """The settings that restarts share."""
        return {name: value for name, value in self.settings.items() if name.rpartition(".")[2] != SEED}

    def value(self, metric: str) -> float | None:
        """Returns a figure; None where there is none, or no finite one."""
        value = (self.metrics or {}).get(metric)
        return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True)
class Setting:
    """All runs of the same settings but for the seed.

    Args:
        settings: those that they share.
        rows: the runs, in their order.
        metric: name of the figure that decides.
    """

    settings: Mapping[str, Any]
    rows: Sequence[RunRow]
    metric: str

    @property
    def values(self) -> list[float]:
        """The deciding figure of all runs that have one, collapsed ones too."""
        return [value for row in self.rows if (value := row.value(self.metric)) is not None]

    @property
    def mean(self) -> float | None:
        """Their mean."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Their sample standard deviation; None of fewer than two."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def best(self) -> float | None:
        """The greatest of them."""
        return max(self.values, default=None)

    @property
    def mean_uncollapsed(self) -> float | None:
        """The mean over the runs that did not collapse."""
        values = [v for row in self.rows if not row.collapsed and (v := row.value(self.metric)) is not None]
        return statistics.fmean(values) if values else None

    @property
    def collapsed(self) -> int:
        """How many collapsed."""
        return sum(row.collapsed for row in self.rows)

    @property
    def failed(self) -> int:
        """How many have no figures."""
        return sum(row.metrics is None for row in self.rows)

    @property
    def name(self) -> str:
        """The settings in words."""
        return ", ".join(f"{name} {written(value)}" for name, value in self.settings.items()) or "all runs"

    def summary(self) -> dict[str, Any]:
        """Returns all of this as plain values."""
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
    """Returns the runs by settings, the best mean first; settings without figures come last."""
    groups: dict[str, list[RunRow]] = {}
    for row in rows:
        groups.setdefault(json.dumps(row.without_seed, sort_keys=True, default=str), []).append(row)
    found = [Setting(group[0].without_seed, group, metric) for group in groups.values()]
    return sorted(found, key=lambda one: -math.inf if one.mean is None else one.mean, reverse=True)


def ordered(rows: Sequence[RunRow], metric: str) -> list[RunRow]:
    """Returns the runs, the best first, those without figures last."""
    return sorted(rows, key=lambda row: (row.is_best, row.value(metric) is not None, row.value(metric)), reverse=True)


def summary(title: str, rows: Sequence[RunRow], metric: str) -> str:
    """Returns settings and runs as JSON, which has no number that is not finite: null stands for these."""
    whole = {
        "title": title,
        "metric": metric,
        "best": next((row.name for row in rows if row.is_best), None),
        "settings": [one.summary() for one in settings_of(rows, metric)],
        "runs": [asdict(row) for row in rows],
    }
    return json.dumps(_plain(whole), indent=2, ensure_ascii=False, default=str) + "\n"


def markdown(title: str, rows: Sequence[RunRow], metric: str) -> str:
    """Returns both tables, of settings and of runs, as Markdown."""
    settings = settings_of(rows, metric)
    names, figures = setting_names(rows), figure_names(rows, metric)
    lines = [f"# {_cell(title)}", "", f"By settings, {_cell(metric)}:", ""]
    lines += _table(
        ["settings", "runs", "mean", "standard deviation", "best", "collapsed", "failed"],
        ([one.name, len(one.rows), measured(one.mean), measured(one.deviation), measured(one.best), one.collapsed,
          one.failed] for one in settings),
    )  # fmt: skip
    lines += ["", "Runs, the best first:", ""]
    lines += _table(
        ["run", *names, *figures, "step", "seconds", "remark"],
        ([f"**{row.name}**" if row.is_best else row.name, *(row.settings.get(name) for name in names),
          *(measured((row.metrics or {}).get(name)) for name in figures), row.step, round(row.seconds), row.remark]
         for row in ordered(rows, metric)),
    )  # fmt: skip
    return "\n".join(lines) + "\n"


def setting_names(rows: Sequence[RunRow]) -> list[str]:
    """Returns the names of all settings, in the order in which they come."""
    return list(dict.fromkeys(name for row in rows for name in row.settings))


def figure_names(rows: Sequence[RunRow], metric: str) -> list[str]:
    """Returns the names of all figures, the deciding one first."""
    return list(dict.fromkeys([metric, *(name for row in rows for name in row.metrics or ())]))


def written(value: Any) -> str:
    """Returns a setting as it is shown: `3e-05`, `0.1`, `–` for none."""
    if value is None:
        return NONE
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def measured(value: float | None) -> str:
    """Returns a figure as it is shown: `0.9289`, `80.85`, `–` for none."""
    return NONE if value is None else figure(value)


def _table(names: Sequence[str], rows: Any) -> list[str]:
    head = [f"| {' | '.join(map(_cell, names))} |", f"|{'---|' * len(names)}"]
    return head + [f"| {' | '.join(_cell(written(value)) for value in row)} |" for row in rows]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _plain(value: Any) -> Any:
    """Returns plain values of JSON, which has no number that is not finite."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

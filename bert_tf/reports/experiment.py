"""Page of a reproduced table or figure: the paper's values beside the measured ones, and the compared rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bert_tf.config.files import staged_file
from bert_tf.reports.charts import WIDTH, Chart, Scale, axis_of, strip_chart
from bert_tf.reports.page import render, write_page
from bert_tf.reports.text import cut

# Outcomes of a comparison.
SAME, REVERSED, NOISE, ABSENT, UNKNOWN = (
    "same direction",
    "reversed",
    "within noise",
    "missing",
    "no direction in the paper",
)
_NONE = "–"


@dataclass(frozen=True)
class CellValues:
    """Values of a cell: one for each seed, or none with the reason in `missing`.

    `paper` is the paper's value. Values are percent, or perplexities. `settings` are those of the selected learning
    rate.
    """

    row: str
    column: str
    values: Sequence[float] = ()
    mean: float | None = None
    deviation: float | None = None
    paper: float | None = None
    missing: str = ""
    settings: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """Mean and deviation, for example `84.1 ± 0.3`."""
        if self.mean is None:
            return _NONE
        spread = "" if self.deviation is None else f" ± {self.deviation:.1f}"
        return f"{self.mean:.1f}{spread}"


@dataclass(frozen=True)
class Compared:
    """Difference of two rows in a column: of the paper, ours, and our 95 % interval (None for a single run)."""

    first: str
    second: str
    column: str
    paper: float | None
    difference: float | None
    interval: tuple[float, float] | None
    outcome: str


@dataclass(frozen=True)
class Experiment:
    """A reproduced table or figure.

    `points` are (series, step) of the rows of a figure by label; empty for a table. `notes` say what the columns were
    measured on, and `commands` has the command of every run by its name.
    """

    name: str
    title: str
    lead: str
    rows: Sequence[tuple[str, str]]  # label, and label in the paper
    columns: Sequence[str]
    cells: Sequence[CellValues]
    compared: Sequence[Compared]
    notes: Sequence[str]
    commands: Mapping[str, str]
    points: Mapping[str, tuple[str, int]]

    def cell(self, row: str, column: str) -> CellValues:
        """Returns the cell of a row and a column."""
        return next(cell for cell in self.cells if (cell.row, cell.column) == (row, column))


def write_experiment(folder: Path, experiment: Experiment) -> Path:
    """Writes `NAME.json`, `NAME.md`, `NAME.svg` and `NAME.html`, each atomically; returns the path of the page."""
    for suffix, text in (
        (".json", json.dumps(asdict(experiment), indent=1, ensure_ascii=False)),
        (".md", markdown(experiment)),
        (".svg", picture(experiment)),
    ):
        if not text:
            continue
        with staged_file(folder / f"{experiment.name}{suffix}") as file:
            file.write(f"{text}\n".encode())
    path = folder / f"{experiment.name}.html"
    write_page(path, page(experiment))
    return path


def markdown(experiment: Experiment) -> str:
    """Returns the table, the comparisons and the notes as Markdown."""
    lines = [f"| | {' | '.join(experiment.columns)} |", f"|---|{'---|' * len(experiment.columns)}"]
    for label, paper_label in experiment.rows:
        cells = [experiment.cell(label, column) for column in experiment.columns]
        lines.append(f"| {label} | {' | '.join(cell.text for cell in cells)} |")
        if any(cell.paper is not None for cell in cells):
            name = f"paper: {paper_label}" if paper_label else "paper"
            lines.append(f"| *{name}* | {' | '.join(_number(cell.paper) for cell in cells)} |")
    if experiment.compared:
        lines += ["", "| compared | column | paper | ours | 95 % interval | outcome |", "|---|---|---|---|---|---|"]
        for one in experiment.compared:
            lines.append(f"| {' | '.join(_compared_cells(one))} |")
    return "\n".join([*lines, "", *(f"- {note}" for note in experiment.notes)])


def picture(experiment: Experiment) -> str:
    """Returns the plot of a figure, or the differences of a table, as an SVG file; "" if there is nothing to draw."""
    legend, chart = "dot: ours; ring: the paper's; band: 95 % interval", _differences(experiment.compared)
    if experiment.points:
        legend, chart = "mean and standard deviation over the seeds", None
        if any(cell.values for cell in experiment.cells):
            chart = _figure(experiment, experiment.columns[0])
    if chart is None:
        return ""
    title = chart.find("title")
    if title is not None:
        title.text = f"{title.text} ({legend})"
    return chart._repr_svg_()


def page(experiment: Experiment) -> str:
    """Returns the page."""
    outcomes = Counter(one.outcome for one in experiment.compared)
    return render(
        "experiment.html.jinja",
        heading=cut(experiment.title, 200),
        lead=experiment.lead,
        counts=[(name, str(count), f"of {len(experiment.compared)} comparisons") for name, count in outcomes.items()],
        rows=[(label, paper, [experiment.cell(label, name) for name in experiment.columns])
              for label, paper in experiment.rows],
        columns=experiment.columns,
        compared=[(_compared_cells(one), one.outcome) for one in experiment.compared],
        differences=_differences(experiment.compared),
        charts=[(name, _figure(experiment, name) if experiment.points else _strips(experiment, name))
                for name in experiment.columns if any(experiment.cell(label, name).values
                                                      for label, _ in experiment.rows)],
        notes=experiment.notes,
        commands=experiment.commands,
        is_figure=bool(experiment.points),
    )  # fmt: skip


def _compared_cells(one: Compared) -> list[str]:
    interval = _NONE if one.interval is None else f"{one.interval[0]:+.1f} to {one.interval[1]:+.1f}"
    return [f"{one.first} − {one.second}", one.column, _signed(one.paper), _signed(one.difference), interval,
            one.outcome]  # fmt: skip


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _signed(value: float | None) -> str:
    return _NONE if value is None else f"{value:+.1f}"


def _strips(experiment: Experiment, column: str) -> Chart:
    """Draws the values of every seed, one line for each row of the table."""
    cells = [cell for label, _ in experiment.rows if (cell := experiment.cell(label, column)).values]
    means = "; ".join(f"{cell.row}: {cell.text}" for cell in cells)
    chart, x, heights = strip_chart(
        column, means, [value for cell in cells for value in cell.values], [cell.row for cell in cells]
    )
    for cell, y in zip(cells, heights, strict=True):
        mean = cell.mean or 0.0
        if cell.deviation:
            ends = max(mean - cell.deviation, x.low), min(mean + cell.deviation, x.high)
            chart.line("spread", (x(ends[0]), x(ends[1])), (y, y))
        chart.line("mean", (x(mean), x(mean)), (y - 8, y + 8), f"{cut(cell.row)}: {cell.text}")
        for value in cell.values:
            chart.dot("run", x(value), y, 5, f"{cut(cell.row)}: {value:.2f}")
    return chart


def _figure(experiment: Experiment, column: str) -> Chart:
    """Draws the mean of every step, one line for each series, with the deviations as bars."""
    cells = [(experiment.points[label], experiment.cell(label, column)) for label, _ in experiment.rows]
    found = [(series, step, cell) for (series, step), cell in cells if cell.mean is not None]
    low, high, ticks = axis_of([value for _, _, cell in found for value in cell.values])
    words = "; ".join(f"{series}, step {step}: {cell.text}" for series, step, cell in found)
    chart = Chart(column, cut(words, 2000), 254)
    steps = sorted({step for _, step, _ in found})
    x, y = Scale(0, max(steps), 62, WIDTH - 16), Scale(low, high, 190, 14)
    chart.rows(y, ticks, "{:.4g}".format, x)
    for step in steps:
        chart.label(f"{step:,}", x(step), 210)
    chart.label("steps of pre-training", (x.start + x.end) / 2, 228)
    for number, name in enumerate(dict.fromkeys(series for series, _, _ in found)):
        points = [(x(step), cell) for series, step, cell in found if series == name]
        path = " ".join(f"{at:.1f},{y(cell.mean or 0.0):.1f}" for at, cell in points)
        chart.mark("polyline", f"curve series{number}", points=path)
        for at, cell in points:
            spread = cell.deviation or 0.0
            mean = cell.mean or 0.0
            ends = y(max(mean - spread, low)), y(min(mean + spread, high))
            chart.line(f"error series{number}", (at, at), ends)
            chart.dot(f"group{number}", at, y(mean), 4, f"{cell.row}: {cell.text}")
        chart.dot(f"group{number}", x.start + 6 + 200 * number, 242, 4)
        chart.label(name, x.start + 16 + 200 * number, 246, "start")
    return chart


def _differences(compared: Sequence[Compared]) -> Chart | None:
    """Draws our differences with their intervals, and the paper's; None without intervals.

    Perplexities have none, and their differences are on another scale.
    """
    drawn = [one for one in compared if one.difference is not None and one.interval is not None]
    if not drawn:
        return None
    values = [0.0, *(value for one in drawn for value in (one.difference, one.paper, *(one.interval or ()))
                     if value is not None)]  # fmt: skip
    names = [f"{one.first} − {one.second}: {one.column}" for one in drawn]
    words = "; ".join(" ".join(_compared_cells(one)[:4]) for one in drawn)
    chart, x, heights = strip_chart("Differences", words, values, names)
    chart.line("ideal", (x(0), x(0)), (heights[0] - 27, heights[-1] + 13))
    for one, y in zip(drawn, heights, strict=True):
        cells = _compared_cells(one)
        if one.interval:
            chart.line("spread", (x(one.interval[0]), x(one.interval[1])), (y, y), f"95 % interval {cells[4]}")
        chart.dot("run", x(one.difference or 0.0), y, 5, f"ours {cells[3]}: {one.outcome}")
        if one.paper is not None:
            chart.dot("run best", x(one.paper), y, 6, f"paper {cells[2]}")
    return chart

"""Results of a plan: values of the cells, compared rows, and the page of each table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bert_tf.experiments.design import Table
from bert_tf.experiments.plan import Cell, Plan
from bert_tf.experiments.runs import Record, Run, Runs
from bert_tf.experiments.statistics import direction, paired_bootstrap, spread
from bert_tf.reports.experiment import CellValues, Compared, Experiment, write_experiment
from bert_tf.tasks.example_scores import EXAMPLE_SCORES_NAME, ExampleScores, read_example_scores
from bert_tf.tasks.finetune.run import DEV_NAME

# Number of resamples of the paired bootstrap.
RESAMPLES = 2_000
# Outcome of a comparison without runs.
MISSING = "missing"


def write_tables(plan: Plan, runs: Runs) -> list[Path]:
    """Writes the page of every table from the runs that are finished; returns the paths.

    Args:
        plan: the plan.
        runs: its runs.
    """
    records = runs.results()
    reasons = {name: state.reason for name, state in runs.states().items() if name not in records}
    return [_Results(plan, table, records, reasons).write() for table in plan.tables]


class _Results:
    """Results of one table."""

    def __init__(self, plan: Plan, table: Table, records: dict[str, Record], reasons: dict[str, str]) -> None:
        self._plan, self._table, self._records, self._reasons = plan, table, records, reasons
        self._cells = {(cell.row.label, cell.column.label): cell for cell in plan.cells[table.name]}
        self._trials = {place: self._best(cell) for place, cell in self._cells.items()}

    def write(self) -> Path:
        """Writes the page; returns its path."""
        table, scale = self._table, self._plan.scale
        compared = [
            self._compared(first, second, number) for first, second in table.comparisons
            for number in range(len(table.columns))
        ]  # fmt: skip
        experiment = Experiment(
            table.name,
            table.title,
            f"{table.source}, with runs of the {scale.name} scale: {self._plan.words(table)}.",
            [(row.label, row.paper_label) for row in table.rows],
            [column.label for column in table.columns],
            [self._values(cell) for cell in self._cells.values()],
            compared,
            self._notes(),
            {name: self._plan.runs[name].line for name in self._names()},
            {row.label: (row.series, row.step or 0) for row in table.rows} if table.figure else {},
        )
        return write_experiment(self._plan.directories.output, experiment)

    def _best(self, cell: Cell) -> Sequence[Run]:
        """Returns the finished runs of the learning rate with the best mean on the development set."""
        trials = [[run for run in trial if run.name in self._records] for trial in cell.trials]
        finished = [trial for trial in trials if trial]
        sign = -1 if cell.column.lower_is_better else 1
        return max(finished, key=lambda trial: sign * np.mean([self._value(run, cell) for run in trial]), default=[])

    def _value(self, run: Run, cell: Cell) -> float:
        result = self._records[run.name].result or {}
        if cell.task is None:
            return float(result[cell.column.metric])
        return _percent(float(result["metrics"][cell.column.metric]), cell)

    def _values(self, cell: Cell) -> CellValues:
        trial = self._trials[cell.row.label, cell.column.label]
        number = [column.label for column in self._table.columns].index(cell.column.label)
        values = [self._value(run, cell) for run in trial]
        over_seeds = spread(values) if values else None
        return CellValues(
            cell.row.label,
            cell.column.label,
            values,
            over_seeds.mean if over_seeds else None,
            over_seeds.deviation if over_seeds else None,
            cell.row.paper[number] if cell.row.paper else None,
            cell.missing or ("" if trial else self._reason(cell)),
            trial[0].settings if trial else None,
        )

    def _reason(self, cell: Cell) -> str:
        """Returns the first reason why a cell has no finished run."""
        runs = [run.name for trial in cell.trials for run in trial]
        reasons = [self._reasons[name] for name in runs if self._reasons.get(name)]
        return reasons[0] if reasons else "not run yet"

    def _compared(self, first: str, second: str, number: int) -> Compared:
        column = self._table.columns[number]
        trials = [self._trials[row, column.label] for row in (first, second)]
        paper = self._table.paper_difference(first, second, number)
        if not all(trials):
            return Compared(first, second, column.label, paper, None, None, MISSING)
        cell = self._cells[first, column.label]
        if cell.task is None:
            means = [np.mean([self._value(run, cell) for run in trial]) for trial in trials]
            difference = float(means[0] - means[1])
            return Compared(first, second, column.label, paper, difference, None, direction(difference, paper))
        systems = [[self._scores(run, cell) for run in trial] for trial in trials]
        sizes = {len(scores.rows) for system in systems for scores in system}
        if len(sizes) > 1:
            raise ValueError(
                f"{self._table.name}, {column.label}: all runs must have the same development examples. Received: "
                f"{sorted(sizes)} examples. Use another output directory."
            )
        one, other = ([scores.values for scores in system] for system in systems)
        result = paired_bootstrap(one, other, sizes.pop(), RESAMPLES)
        difference, low, high = (_percent(x, cell) for x in (result.difference, result.low, result.high))
        return Compared(first, second, column.label, paper, difference, (low, high), result.direction(paper))

    def _scores(self, run: Run, cell: Cell) -> ExampleScores:
        path = self._plan.directories.output / run.name / DEV_NAME / EXAMPLE_SCORES_NAME
        return read_example_scores(path)[cell.column.metric]

    def _names(self) -> list[str]:
        """Returns the names of the runs of the table, in the order of the plan."""
        own = {run.name for cell in self._cells.values() for trial in cell.trials for run in trial}
        return [name for name, run in self._plan.runs.items() if name in own or self._is_start(run)]

    def _is_start(self, run: Run) -> bool:
        return any(run.name.endswith(f"/{start.name}") for start in self._table.pretrainings) and not run.after

    def _notes(self) -> list[str]:
        notes = [self._table.notes] if self._table.notes else []
        for cell in {cell.column.label: cell for cell in self._cells.values()}.values():
            if cell.task and cell.task.stands_for:
                notes.append(f"{cell.column.label}: {cell.task.name}, in the place of {cell.task.stands_for}.")
            elif cell.missing:
                notes.append(f"{cell.column.label}: {cell.missing}.")
        for (row, column), cell in self._cells.items():
            trial = self._trials[row, column]
            if not cell.missing and not trial:
                notes.append(f"{row}, {column}: {self._reason(cell)}.")
            elif cell.trials and len(trial) < len(cell.trials[0]):
                notes.append(f"{row}, {column}: {len(trial)} of {len(cell.trials[0])} seeds; {self._reason(cell)}.")
        return notes


def _percent(value: float, cell: Cell) -> float:
    """Returns a metric in percent; those of SQuAD already are."""
    return value if cell.task and cell.task.task.startswith("squad") else 100 * value

"""Design of an experiment: the rows and columns of a table, and the runs that fill its cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Seeds of fine-tuning runs count up from this one.
FIRST_SEED = 1


@dataclass(frozen=True)
class Pretraining:
    """A pre-training run.

    Args:
        name: name of its directory, the same in every table that uses the run.
        size: model size, as in `bert-tf pretrain --model`.
        settings: values of `--set` by field, for example `training.nsp_weight`.
    """

    name: str
    size: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        label: heading, as in the paper.
        task: key of `tasks.OFFICIAL`; "" for a held-out metric of pre-training.
        metric: name of the metric.
        flags: further flags of `bert-tf finetune`.
        lower_is_better: whether smaller values are better.
    """

    label: str
    task: str
    metric: str
    flags: tuple[str, ...] = ()
    lower_is_better: bool = False


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Args:
        label: heading.
        start: pre-training run to fine-tune.
        paper: the paper's values, in the order of the columns; None where the paper has none.
        paper_label: heading of the row in the paper, if the scale changes it.
        step: fine-tune the checkpoint of this step; None uses the final weights.
        flags: further flags of `bert-tf finetune`.
        series: name of the line in a figure.
    """

    label: str
    start: Pretraining
    paper: tuple[float | None, ...] = ()
    paper_label: str = ""
    step: int | None = None
    flags: tuple[str, ...] = ()
    series: str = ""

    def start_name(self, steps: int) -> str:
        """Returns the name of the pre-training run, with the step of a checkpoint unless it is the last one.

        Args:
            steps: steps of the run.
        """
        return self.start.name if self.step in (None, steps) else f"{self.start.name}@{self.step}"


@dataclass(frozen=True)
class Table:
    """A table or figure of the paper at one scale.

    Args:
        name: name on the command line, for example `table5`.
        title: title of the page.
        source: place in the paper.
        columns: columns.
        rows: rows.
        comparisons: pairs of labels of rows to compare; the paper's values give the expected direction.
        notes: what differs from the paper's experiment at this scale.
        figure: whether the rows are points of lines: steps from left to right, one line per series.
    """

    name: str
    title: str
    source: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    comparisons: Sequence[tuple[str, str]] = ()
    notes: str = ""
    figure: bool = False

    def __post_init__(self) -> None:
        labels = [row.label for row in self.rows]
        if len(set(labels)) < len(labels):
            raise ValueError(f"{self.name}: the labels of rows must differ. Received: {labels}")
        for row in self.rows:
            if row.paper and len(row.paper) != len(self.columns):
                raise ValueError(
                    f"{self.name}, {row.label}: `paper` must have {len(self.columns)} values. Received: {row.paper}"
                )
        for pair in self.comparisons:
            if unknown := set(pair) - set(labels):
                raise ValueError(f"{self.name}: a comparison names an unknown row. Received: {sorted(unknown)}")

    def row(self, label: str) -> Row:
        """Returns the row with this label."""
        return next(row for row in self.rows if row.label == label)

    @property
    def pretrainings(self) -> list[Pretraining]:
        """The pre-training runs of the rows, without repetitions."""
        return list({row.start.name: row.start for row in self.rows}.values())

    def paper_difference(self, first: str, second: str, column: int) -> float | None:
        """Returns the paper's value of the first row minus that of the second; None if one is missing."""
        values = [row.paper[column] if row.paper else None for row in (self.row(first), self.row(second))]
        return None if values[0] is None or values[1] is None else values[0] - values[1]

"""Published scores on the test sets of GLUE, in percent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bert_tf.experiments.glue.tasks import ALL_TASKS, TASKS, WNLI

MINIATURES = "google-research/bert, README"
PAPER = "arXiv 1810.04805, table 1"


@dataclass(frozen=True)
class Published:
    """Scores of a published model on the test sets.

    Args:
        name: name of the model.
        source: origin of the scores.
        metrics: metrics of each task in percent, in the order of `BenchmarkTask.metrics`; None if not published.
        average: average that the source gives for all tasks without WNLI; None if it gives none.
    """

    name: str
    source: str
    metrics: Mapping[str, tuple[float | None, ...]]
    average: float | None = None

    def score(self, task: str) -> float | None:
        """Returns the score of a task, None if one of its metrics is not published.

        Args:
            task: name of the task.
        """
        values = [value for value in self.metrics.get(task, (None,)) if value is not None]
        return sum(values) / len(values) if len(values) == len(ALL_TASKS[task].metrics) else None

    def mean(self, tasks: tuple[str, ...]) -> float | None:
        """Returns the mean score of several tasks, None if one of them is not published.

        Args:
            tasks: names of the tasks.
        """
        scores = [score for task in tasks if (score := self.score(task)) is not None]
        return sum(scores) / len(tasks) if tasks and len(scores) == len(tasks) else None


def _row(name: str, source: str, values: str, average: float | None = None) -> Published:
    """Returns the scores of a line of a published table; `-` is a missing metric."""
    cells = (tuple(None if v == "-" else float(v) for v in cell.split("/")) for cell in values.split())
    return Published(name, source, dict(zip(ALL_TASKS, cells, strict=True)), average)


# CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI, AX. The paper gives only the F1 of MRPC and QQP and Spearman's
# correlation of STS-B, and its average is that of these metrics.
PUBLISHED = (
    _row("BERT Tiny", MINIATURES, "0.0 83.2 81.1/71.1 74.3/73.6 62.2/83.4 70.2/70.3 81.5 57.2 62.3 21.0"),
    _row("BERT Mini", MINIATURES, "0.0 85.9 81.1/71.8 75.4/73.3 66.4/86.2 74.8/74.3 84.1 57.9 62.3 26.1"),
    _row("BERT Small", MINIATURES, "27.8 89.7 83.4/76.2 78.8/77.0 68.1/87.0 77.6/77.0 86.4 61.8 62.3 28.6"),
    _row("BERT Medium", MINIATURES, "38.0 89.6 86.6/81.6 80.4/78.4 69.6/87.9 80.0/79.1 87.7 62.2 62.3 30.5"),
    _row("BERT Base", PAPER, "52.1 93.5 88.9/- -/85.8 71.2/- 84.6/83.4 90.5 66.4 - -", 79.6),
    _row("BERT Large", PAPER, "60.5 94.9 89.3/- -/86.5 72.1/- 86.7/85.9 92.7 70.1 - -", 82.1),
)
WITHOUT_WNLI = tuple(name for name in TASKS if name != WNLI)

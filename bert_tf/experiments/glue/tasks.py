"""Tasks of GLUE: folders, files, metrics, and the files of the leaderboard. Without Keras and TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bert_tf.tasks.glue.entry import ENTRIES, GlueEntry

TRAIN_FILE = "train.tsv"
_ENTRIES = {entry.name: entry for entry in ENTRIES}
# Suffix of the metrics of MNLI's second set. The mean over both sets is that of their accuracies.
MISMATCHED = "_mismatched"


@dataclass(frozen=True)
class BenchmarkTask:
    """A task of the benchmark.

    Args:
        name: name in `tasks.registry`.
        title: name in GLUE, which is also that of its folder.
        metrics: metrics of the leaderboard; their mean is the score of the task.
        small: whether it has fewer than 10,000 training examples.
        tests: test files by the names of the leaderboard's files; {} for `test.tsv`.
        header: whether the training file has a header line.
    """

    name: str
    title: str
    metrics: tuple[str, ...] = ("accuracy",)
    small: bool = False
    header: bool = True
    tests: Mapping[str, str] = field(default_factory=dict)

    @property
    def _entry(self) -> GlueEntry:
        return _ENTRIES[self.name]

    @property
    def test_files(self) -> Mapping[str, str]:
        """Test files in the task's folder, by the names of the leaderboard's files."""
        return self.tests or {f"{self.title}.tsv": "test.tsv"}

    @property
    def dev_files(self) -> dict[str, str]:
        """Development files in the task's folder, by the names of the leaderboard's files of the same examples."""
        files = (self._entry.dev, *self._entry.further.values())
        return dict(zip(self.test_files, files, strict=True))

    @property
    def dev_predictions(self) -> dict[str, str]:
        """Predictions of a fine-tuning run for `dev_files`, relative to its directory."""
        prefixes = ("", *(f"{name}_" for name in self._entry.further))
        return {file: f"dev/{prefix}predictions.tsv" for file, prefix in zip(self.test_files, prefixes, strict=True)}

    def score(self, metrics: Mapping[str, float]) -> float:
        """Returns the score in percent: the mean of the leaderboard's metrics.

        Args:
            metrics: metrics of a run by name.
        """
        return 100 * sum(metrics[name] for name in self.metrics) / len(self.metrics)


TASKS: dict[str, BenchmarkTask] = {
    task.name: task
    for task in (
        BenchmarkTask("cola", "CoLA", ("matthews",), small=True, header=False),
        BenchmarkTask("sst2", "SST-2"),
        BenchmarkTask("mrpc", "MRPC", ("f1", "accuracy"), small=True),
        BenchmarkTask("stsb", "STS-B", ("pearson", "spearman"), small=True),
        BenchmarkTask("qqp", "QQP", ("f1", "accuracy")),
        BenchmarkTask(
            "mnli",
            "MNLI",
            ("accuracy", f"accuracy{MISMATCHED}"),
            tests={"MNLI-m.tsv": "test_matched.tsv", "MNLI-mm.tsv": "test_mismatched.tsv"},
        ),
        BenchmarkTask("qnli", "QNLI"),
        BenchmarkTask("rte", "RTE", small=True),
        BenchmarkTask("wnli", "WNLI", small=True),
    )
}
WNLI = "wnli"
# The diagnostic set has no training examples and is not part of the averages; an MNLI model predicts it.
AX = BenchmarkTask("ax", "AX", ("matthews",))
DIAGNOSTIC, DIAGNOSTIC_TASK, DIAGNOSTIC_FOLDERS = "AX.tsv", "mnli", ("diagnostic", "AX")
ALL_TASKS = {**TASKS, AX.name: AX}


@dataclass(frozen=True)
class TaskData:
    """Files of a task that exist.

    Args:
        task: the task.
        folder: its folder.
        tests: existing test files by the names of the leaderboard's files.
        examples: number of training examples.
        diagnostic: the labelled diagnostic set, for MNLI; None if its file does not exist.
    """

    task: BenchmarkTask
    folder: Path
    tests: Mapping[str, Path]
    examples: int
    diagnostic: TaskData | None = None

    @property
    def train(self) -> Path:
        """The training file."""
        return self.folder / TRAIN_FILE

    @property
    def dev(self) -> dict[str, Path]:
        """The development files by the names of the leaderboard's files."""
        return {name: self.folder / file for name, file in self.task.dev_files.items()}


def find_data(data: Path, names: Sequence[str]) -> tuple[list[TaskData], dict[str, str]]:
    """Finds the files of tasks in the folder of GLUE.

    Args:
        data: folder of GLUE. The folders of the tasks may be in another case and without hyphens: `sst2`.
        names: names of the tasks.

    Returns:
        The files of each task that can be trained, and the reasons for what is missing, by the title of the task or the
        name of the leaderboard's file.
    """
    found, missing = [], {}
    for name in names:
        task = TASKS[name]
        folder = _folder(data, (task.title,))
        if folder is None:
            missing[task.title] = f"no folder {task.title} in {data}"
            continue
        files = (TRAIN_FILE, *task.dev_files.values())
        if absent := [file for file in files if not (folder / file).is_file()]:
            missing[task.title] = f"no {' and no '.join(absent)} in {folder}"
            continue
        tests = {file: folder / source for file, source in task.test_files.items()}
        diagnostic = None
        if name == DIAGNOSTIC_TASK:
            tests[DIAGNOSTIC], diagnostic = _diagnostic(data)
        missing |= {file: f"no {path}" for file, path in tests.items() if not path.is_file()}
        tests = {file: path for file, path in tests.items() if path.is_file()}
        found.append(TaskData(task, folder, tests, _lines(folder / TRAIN_FILE) - task.header, diagnostic))
    return found, missing


def _folder(data: Path, titles: Sequence[str]) -> Path | None:
    wanted = [_plain(title) for title in titles]
    folders = {_plain(path.name): path for path in sorted(data.iterdir()) if path.is_dir()}
    return next((folders[name] for name in wanted if name in folders), None)


def _diagnostic(data: Path) -> tuple[Path, TaskData | None]:
    """Returns the file to predict, which may be missing, and the labelled file if it exists."""
    folder = _folder(data, DIAGNOSTIC_FOLDERS) or data / DIAGNOSTIC_FOLDERS[0]
    published = folder / "diagnostic.tsv"
    path = published if published.is_file() else next(iter(sorted(folder.glob("*.tsv"))), published)
    labelled = TaskData(AX, folder, {}, 0)
    return path, labelled if labelled.dev[DIAGNOSTIC].is_file() else None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _lines(path: Path) -> int:
    """Returns the number of lines."""
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))

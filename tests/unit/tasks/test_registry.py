"""A task of one folder and one line in the registry runs through the commands."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from bert_tf.cli import main
from bert_tf.config import BertConfig
from bert_tf.export.kinds.texts import ClassifierSignatures
from bert_tf.export.signatures import signatures_of
from bert_tf.models import load_preset
from bert_tf.tasks.registry import (
    TASKS,
    command_line_tasks,
    entries_of,
    task_json_for_head,
    task_of,
    with_default_task,
)
from tests.support.tasks.text_examples import write_lines, write_preset

ENTRY = """
from bert_tf.tasks.entry import TaskEntry


class ToyEntry(TaskEntry):
    def add_arguments(self, parser):
        parser.add_argument("--separator", default="|", help="separator of text and label")

    def make_task(self, args):
        return self.task_class(separator=args.separator)


ENTRIES = (ToyEntry("toy", "a task of a test", "toy_task.task:ToyTask", items="lines", reads_txt=True),)
"""
TASK = """
from dataclasses import dataclass
from typing import ClassVar

from bert_tf.config.files import staged_file
from bert_tf.tasks import metrics
from bert_tf.tasks.classify.base import LabelAnswer, TextTask
from bert_tf.encoding.texts import TextExample


@dataclass(frozen=True)
class ToyTask(TextTask):
    name: ClassVar[str] = "toy"
    metric: ClassVar[str] = "correct"
    predictions_name: ClassVar[str] = "predictions.txt"
    max_sequence_length: ClassVar[int] = 8

    separator: str = "|"

    def read(self, path, input_errors, labelled=True):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            text, _, label = line.partition(self.separator)
            yield TextExample(f"{path}: line {number}", (text,), label if labelled else None)

    def score(self, examples, answers):
        return {"correct": metrics.accuracy([e.label for e in examples], [a.label for a in answers])}

    def write_page(self, path, title, scored, metrics, remark):
        path.write_text(f"{title}: {len(scored.rows)} rows, {metrics}")

    def write(self, path, answers):
        with staged_file(path) as file:
            for _, part in answers:
                file.write("".join(f"{answer.label}\\n" for answer in part).encode())

    def read_answers(self, path, examples):
        return [LabelAnswer(label, ()) for label in path.read_text("utf-8").splitlines()]
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the task `toy`, which is registered, and its files."""
    folder = tmp_path / "toy_task"
    folder.mkdir()
    for name, source in (("__init__", ""), ("entry", ENTRY), ("task", TASK)):
        (folder / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    # Stands for the line in the registry.
    monkeypatch.setitem(TASKS, "toy", entries_of("toy_task.entry")["toy"])
    chooser = random.Random(2)
    for name, count in (("train", 96), ("dev", 16), ("test", 16)):
        lines = [f"{' '.join(chooser.choices('ab' if n % 2 else 'yz', k=3))};{n % 2}" for n in range(count)]
        write_lines(tmp_path / f"{name}.txt", *lines)
    return tmp_path


def summary(capsys: pytest.CaptureFixture[str], *argv: object) -> dict:
    capsys.readouterr()
    assert main([str(part) for part in argv]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.integration
def test_a_toy_task_runs_through_the_commands(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder, run, output = write_preset(toy / "encoder", initializer_range=0.3), toy / "run", toy / "predictions.txt"
    trained = summary(
        capsys, "finetune", "toy", "--preset", encoder, "--output", run, "--separator=;",
        "--train", toy / "train.txt", "--dev", toy / "dev.txt", "--test", toy / "test.txt",
        "--set", "training.learning_rate=5e-3", "training.batch_size=8", "training.epochs=3",
    )  # fmt: skip
    assert trained["metrics"] == {"correct": 1.0, "correct_test": 1.0}
    assert (run / "dev/answers.html").read_text() == "toy on the development set: 16 rows, {'correct': 1.0}"
    preset = load_preset(run)
    assert preset.task["separator"] == ";" and preset.task["max_sequence_length"] == 8
    assert type(signatures_of(preset)) is ClassifierSignatures
    assert (
        summary(capsys, "predict", "--preset", run, "--input", toy / "test.txt", "--output", output)["examples"] == 16
    )
    scored = summary(capsys, "score", "toy", "--separator=;", "--data", toy / "test.txt", "--predictions", output)
    assert scored["metrics"] == {"correct": 1.0}


def test_a_converted_model_can_be_of_a_toy_task(toy: Path) -> None:
    task = command_line_tasks()["toy"].task_class()
    head = {"task": task.head, "labels": ["LABEL_0", "LABEL_1"]}
    description = task_json_for_head(task, head, BertConfig.from_size("tiny"), ("no", "yes"))
    assert description["task"] == "toy" and description["labels"] == ("no", "yes")


@pytest.mark.parametrize("name", TASKS)
def test_entries_name_their_class(name: str) -> None:
    assert TASKS[name].task_class.name == name
    assert not TASKS[name].help or command_line_tasks()[name] is TASKS[name]


@pytest.mark.parametrize(
    ("head", "name", "labels"),
    [
        (
            {"task": "sequence_classification", "labels": ["bad", "good"], "text_columns": 1},
            "classify",
            ("bad", "good"),
        ),
        ({"task": "sequence_classification", "labels": ["LABEL_0"], "text_columns": 1}, "regression", None),
        ({"task": "token_classification", "labels": ["O", "B-X", "I-X"]}, "ner", ("O", "B-X", "I-X")),
        ({"task": "multiple_choice"}, "swag", None),
    ],
)
def test_heads_of_other_programs_have_a_default_task(head: dict, name: str, labels: tuple | None) -> None:
    config = BertConfig(vocabulary_size=20, max_sequence_length=32)
    task, length = task_of(with_default_task(head, config))
    assert (task.name, length) == (name, 32)
    assert getattr(task, "labels", None) == labels or labels is None


def test_tasks_that_are_not_clear_stay() -> None:
    config = BertConfig(vocabulary_size=20)
    for description in ({"task": "question_answering"}, {"task": "sequence_classification"}, {"task": "mnli"}):
        assert with_default_task(description, config) is description

"""A small directory of GLUE, and a replacement of the commands that fine-tune and predict."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bert_tf.experiments.glue.tasks import DIAGNOSTIC, TASKS
from bert_tf.experiments.runs import Run
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.registry import task_class

WORDS = ("good film", "bad film", "dull day", "nice day", "a cat", "a dog")
LABELS = {
    "stsb": [f"{number / 4:.3f}" for number in range(20)],
    "mnli": ["contradiction", "entailment", "neutral"],
    "qnli": ["entailment", "not_entailment"],
    "rte": ["entailment", "not_entailment"],
}
ROWS = {"train.tsv": 24, "dev.tsv": 60, "test.tsv": 9}


def write_glue(root: Path, names: tuple[str, ...] = tuple(TASKS)) -> Path:
    """Writes the files of tasks, and of the diagnostic set."""
    for name in names:
        folder = root / TASKS[name].title
        folder.mkdir(parents=True)
        files = {"train.tsv", *TASKS[name].dev_files.values(), *TASKS[name].test_files.values()}
        for file in sorted(files):
            _write(folder / file, name)
    (root / "diagnostic").mkdir()
    _write(root / "diagnostic" / "diagnostic.tsv", "ax", "test.tsv")
    return root


def write_diagnostic_labels(root: Path) -> list[str]:
    """Writes the labelled file of the diagnostic set with the columns of GLUE's; returns the labels."""
    texts = [line.split("\t")[1:] for line in (root / "diagnostic/diagnostic.tsv").read_text().splitlines()[1:]]
    chooser = random.Random(0)
    labels = [chooser.choice(LABELS["mnli"]) for _ in texts]
    lines = ["Lexical Semantics\tDomain\tPremise\tHypothesis\tLabel"]
    lines += ["\t".join(["", "News", *pair, label]) for pair, label in zip(texts, labels, strict=True)]
    (root / "diagnostic/diagnostic-full.tsv").write_text("\n".join(lines) + "\n")
    return labels


def _write(path: Path, name: str, part: str = "") -> None:
    part = part or f"{path.name.removesuffix('.tsv').partition('_')[0]}.tsv"
    task: Any = task_class(name)()
    labelled = part != "test.tsv"
    chooser = random.Random(f"{name} {path.name}")
    header = [task.layout.key, *task.text_names, *([task.layout.label] if labelled else [])]
    if task.layout.headerless and labelled:
        header = list(task.layout.headerless)
    lines = [] if task.layout.headerless and labelled else ["\t".join(header)]
    labels = LABELS.get(name, ["0", "1"])
    for number in range(ROWS[part]):
        row = {task.layout.key: str(number), task.layout.label: chooser.choice(labels), "source": "x", "star": "*"}
        lines.append("\t".join(row.get(column) or chooser.choice(WORDS) for column in header))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


class FakeCommands:
    """Executor of `finetune` and `predict` without models.

    Args:
        accuracy: share of correct development predictions for the task, learning rate and seed of a run.
    """

    def __init__(self, accuracy: Callable[[str, float, int], float] = lambda name, rate, seed: 0.8) -> None:
        self.accuracy = accuracy
        self.names: list[str] = []

    def __call__(self, run: Run) -> dict[str, Any]:
        self.names.append(run.name)
        arguments = dict(zip(run.command, run.command[1:], strict=False))
        if run.command[0] == "predict":
            return self._predict(Path(arguments["--input"]), Path(arguments["--output"]))
        settings = dict(setting.split("=") for setting in run.command if "=" in setting)
        rate, seed = float(settings["training.learning_rate"]), int(settings["training.seed"])
        return self._finetune(run.command[1], Path(arguments["--data"]), Path(arguments["--output"]), rate, seed)

    def _finetune(self, name: str, data: Path, output: Path, rate: float, seed: int) -> dict[str, Any]:
        task: Any = task_class(name)()
        metrics: dict[str, float] = {}
        chooser = random.Random(f"{name} {rate} {seed}")
        (output / "dev").mkdir(parents=True)
        (output / "checkpoints").mkdir()
        (output / "preset").mkdir()
        (output / "preset" / "config.json").write_text(json.dumps({"format_version": 2, "run": output.name}))
        for file, path in TASKS[name].dev_predictions.items():
            examples = list(task.read(data / TASKS[name].dev_files[file], InputErrors()))
            wrong = LABELS.get(name, ["0", "1"])
            labels = [
                example.label
                if chooser.random() < self.accuracy(name, rate, seed)
                else chooser.choice([label for label in wrong if label != example.label])
                for example in examples
            ]
            answers = [task.answer_of(str(label)) for label in labels]
            task.write(output / path, iter([(examples, answers)]))
            suffix = "_mismatched" if file == "MNLI-mm.tsv" else ""
            metrics |= {f"{metric}{suffix}": value for metric, value in task.score(examples, answers).items()}
        return {"metrics": metrics, "remark": "", "output": str(output)}

    @staticmethod
    def _predict(path: Path, output: Path) -> dict[str, Any]:
        name = next(name for name, task in TASKS.items() if output.name in {*task.test_files, DIAGNOSTIC}
                    and (output.name != DIAGNOSTIC or name == "mnli"))  # fmt: skip
        task: Any = task_class(name)()
        examples = list(task.read(path, InputErrors(), labelled=False))
        labels = LABELS.get(name, ["0", "1"])[: 3 if output.name == DIAGNOSTIC else 1]
        answers = [task.answer_of(labels[number % len(labels)]) for number in range(len(examples))]
        task.write(output, iter([(examples, answers)]))
        return {"examples": len(examples)}

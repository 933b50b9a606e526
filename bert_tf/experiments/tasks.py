"""Files, flags and settings of the fine-tuning tasks of the paper.

Every path is relative to the directory of `--tasks`. Where official data is missing, other data of the same kind can
take its place at the laptop's scale; tables and pages name it.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_tf.config.files import staged_file
from bert_tf.experiments.glue.plan import PAPER_RATES
from bert_tf.experiments.glue.tasks import TASKS as GLUE
from bert_tf.experiments.glue.tasks import TRAIN_FILE
from bert_tf.experiments.scales import Scale
from bert_tf.tasks.registry import TASKS as ENTRIES

# Placeholders of flags: the directory of --tasks, and that of derived files.
TASKS, DERIVED = "{tasks}", "{derived}"
DERIVED_NAME = "task_files"
# One row in this many of a split file is for development.
_DEV_EVERY = 5

# arXiv 1810.04805, A.3: the learning rates of named entity recognition. Small models need higher ones.
_NER_RATES, _LAPTOP_RATE = (5e-5, 3e-5, 2e-5), 3e-4


@dataclass(frozen=True)
class TableTask:
    """A task of the paper on some files.

    Args:
        name: name in tables.
        task: name of the task on the command line, whose recipe has the paper's epochs and batch size.
        flags: its flags, with `TASKS` or `DERIVED` before paths.
        files: files that must exist.
        rates: learning rates to try, of which the best on the development set is reported; () for that of the recipe.
        laptop_epochs: epochs at the laptop's scale; None for those of the recipe.
        laptop_rate: learning rate at the laptop's scale.
        laptop_flags: further flags at the laptop's scale.
        split: file to split into `train.tsv` and `dev.tsv` in `DERIVED`, with the name of their directory.
        stands_for: official data in whose place these files are; "" for official data.
    """

    name: str
    task: str
    flags: tuple[str, ...]
    files: tuple[str, ...]
    rates: tuple[float, ...] = ()
    laptop_epochs: int | None = None
    laptop_rate: float = _LAPTOP_RATE
    laptop_flags: tuple[str, ...] = ()
    split: tuple[str, str] | None = None
    stands_for: str = ""

    def missing(self, tasks: Path) -> list[Path]:
        """Returns the files that do not exist."""
        return [tasks / name for name in self.files if not (tasks / name).exists()]

    def flags_of(self, scale: Scale) -> tuple[str, ...]:
        """Returns the flags at a scale, with placeholders."""
        return self.flags + (self.laptop_flags if scale.is_laptop else ())

    def arguments(self, tasks: Path, derived: Path, scale: Scale) -> list[str]:
        """Returns the flags with the directories."""
        return [flag.replace(TASKS, str(tasks)).replace(DERIVED, str(derived)) for flag in self.flags_of(scale)]

    def trials(self, scale: Scale) -> list[dict[str, Any]]:
        """Returns the training settings to try, one dictionary for each learning rate."""
        recipe = ENTRIES[self.task].recipe
        epochs, rates = recipe.epochs, self.rates or (recipe.learning_rate,)
        if scale.is_laptop:
            epochs, rates = self.laptop_epochs or epochs, (self.laptop_rate,)
        settings = {"training.batch_size": recipe.batch_size, "training.epochs": epochs}
        return [{"training.learning_rate": rate, **settings} for rate in rates]

    def size(self, tasks: Path) -> int:
        """Returns the bytes of the files, an upper limit of the training texts."""
        return sum((tasks / name).stat().st_size for name in self.files if (tasks / name).is_file())


def _glue(name: str, laptop_epochs: int | None = None) -> TableTask:
    """Returns a task of GLUE, whose folder has its title."""
    task = GLUE[name]
    folder = f"glue/{task.title}"
    files = tuple(f"{folder}/{file}" for file in (TRAIN_FILE, *task.dev_files.values()))
    return TableTask(task.title, name, ("--data", f"{TASKS}/{folder}"), files, PAPER_RATES, laptop_epochs)


def _pair(name: str, task: str, train: str, dev: str, **fields: Any) -> TableTask:
    """Returns a task with the flags --train and --dev."""
    return TableTask(name, task, ("--train", f"{TASKS}/{train}", "--dev", f"{TASKS}/{dev}"), (train, dev), **fields)


# Windows of 64 tokens, and one epoch, for the laptop's models.
_SHORT_WINDOWS: dict[str, Any] = {
    "laptop_epochs": 1,
    "laptop_flags": ("--doc_stride", "32", "--max_query_length", "24"),
}

OFFICIAL: dict[str, TableTask] = {
    **{name: _glue(name, laptop_epochs=1) for name in ("mnli", "qqp", "qnli", "sst2")},
    **{name: _glue(name) for name in ("cola", "stsb", "mrpc", "rte")},
    "squad1": _pair("SQuAD 1.1", "squad1", "squad/train-v1.1.json", "squad/dev-v1.1.json", **_SHORT_WINDOWS),
    "squad2": _pair("SQuAD 2.0", "squad2", "squad/train-v2.0.json", "squad/dev-v2.0.json", **_SHORT_WINDOWS),
    "swag": _pair("SWAG", "swag", "swag/train.csv", "swag/val.csv"),
    "ner": _pair(
        "CoNLL-2003",
        "ner",
        "ner/conll2003/train.txt",
        "ner/conll2003/valid.txt",
        rates=_NER_RATES,
        laptop_epochs=1,
    ),
}

STAND_INS: dict[str, TableTask] = {
    "mnli": TableTask(
        "SICK",
        "classify",
        ("--text_columns", "sentence_A", "sentence_B", "--label_column", "entailment_judgment")
        + ("--train", f"{DERIVED}/sick/train.tsv", "--dev", f"{DERIVED}/sick/dev.tsv"),
        ("sick/SICK.txt",),
        # Of 3, 5 and 10 epochs and rates of 3e-4 and 1e-3 the best for BERT (docs/reproduction.md).
        laptop_epochs=10,
        laptop_rate=1e-3,
        split=("sick/SICK.txt", "sick"),
        stands_for="MNLI",
    ),
    "qnli": TableTask(
        "QNLI's development set, split",
        "qnli",
        ("--data", f"{DERIVED}/qnli"),
        ("glue/QNLI/dev.tsv",),
        split=("glue/QNLI/dev.tsv", "qnli"),
        stands_for="QNLI",
    ),
    "squad1": _pair(
        "SQuADShifts Amazon, tested on XQuAD English",
        "squad1",
        "squad/squadshifts_amazon_reviews_v1.0.json",
        "squad/xquad.en.json",
        stands_for="SQuAD 1.1",
        **_SHORT_WINDOWS,
    ),
    "squad2": _pair(
        "a half of SQuAD 2.0's development set, split",
        "squad2",
        "squad/derived/train-v2.0.json",
        "squad/derived/dev-v2.0.json",
        stands_for="SQuAD 2.0",
        **_SHORT_WINDOWS,
    ),
    "swag": _pair(
        "CODAH",
        "swag",
        "multiple_choice/derived_swag_csv/codah_train.csv",
        "multiple_choice/derived_swag_csv/codah_val.csv",
        stands_for="SWAG",
    ),
    "ner": _pair(
        "WikiANN English",
        "ner",
        "ner/wikiann_en/train",
        "ner/wikiann_en/dev",
        laptop_epochs=1,
        stands_for="CoNLL-2003",
    ),
}


def find_task(name: str, tasks: Path, scale: Scale) -> TableTask | None:
    """Returns the files of a task that exist, official ones first; None if there are none.

    Args:
        name: key of `OFFICIAL`.
        tasks: directory of task data.
        scale: scale of the experiment, which allows other data or not.
    """
    choices = [OFFICIAL[name], *([STAND_INS[name]] if scale.stand_ins and name in STAND_INS else [])]
    return next((files for files in choices if not files.missing(tasks)), None)


def split_rows(source: Path, folder: Path) -> None:
    """Writes `train.tsv` and `dev.tsv` in `folder`: every fifth row of a file with a header, drawn by its text.

    Existing files are kept. Each is written atomically.
    """
    lines = source.read_bytes().splitlines(keepends=True)
    header, rows = lines[0], lines[1:]
    parts: dict[str, list[bytes]] = {"train.tsv": [header], "dev.tsv": [header]}
    for row in rows:
        parts["train.tsv" if zlib.crc32(row) % _DEV_EVERY else "dev.tsv"].append(row)
    for name, part in parts.items():
        if not (folder / name).is_file():
            folder.mkdir(parents=True, exist_ok=True)
            with staged_file(folder / name) as file:
                file.writelines(part)

"""Files, flags and settings of the fine-tuning tasks of the paper.

Every path is relative to the directory of `--tasks`. Where official data is missing, other data of the same kind can
take its place at the laptop's scale; tables and pages name it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bert_tf.config.files import staged_file
from bert_tf.experiments.scales import Scale

# Placeholders of flags: the directory of --tasks, and that of derived files.
TASKS, DERIVED = "{tasks}", "{derived}"
DERIVED_NAME = "task_files"
# One row in this many of a split file is for development.
_DEV_EVERY = 5

# arXiv 1810.04805, section 4 and A.3: epochs, batch sizes and learning rates.
_GLUE = {"training.batch_size": 32, "training.epochs": 3}
_GLUE_RATES = (5e-5, 4e-5, 3e-5, 2e-5)


@dataclass(frozen=True)
class TableTask:
    """A task of the paper on some files.

    Args:
        name: name in tables.
        task: name of the task on the command line.
        flags: its flags, with `TASKS` or `DERIVED` before paths.
        files: files that must exist.
        settings: training settings at the paper's scale.
        rates: learning rates to try; the best on the development set is reported.
        laptop: training settings at the laptop's scale, for models of a few million parameters.
        laptop_flags: further flags at the laptop's scale.
        split: file to split into `train.tsv` and `dev.tsv` in `DERIVED`, with the name of their directory.
        stands_for: official data in whose place these files are; "" for official data.
    """

    name: str
    task: str
    flags: tuple[str, ...]
    files: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=lambda: _GLUE)
    rates: tuple[float, ...] = _GLUE_RATES
    laptop: Mapping[str, Any] = field(default_factory=lambda: {"training.batch_size": 32, "training.epochs": 3})
    laptop_flags: tuple[str, ...] = ()
    split: tuple[str, str] | None = None
    stands_for: str = ""

    def missing(self, tasks: Path) -> list[Path]:
        """Returns the files that do not exist."""
        return [tasks / name for name in self.files if not (tasks / name).exists()]

    def arguments(self, tasks: Path, derived: Path, scale: Scale) -> list[str]:
        """Returns the flags with the directories."""
        flags = self.flags + (self.laptop_flags if scale.is_laptop else ())
        return [flag.replace(TASKS, str(tasks)).replace(DERIVED, str(derived)) for flag in flags]

    def trials(self, scale: Scale) -> list[dict[str, Any]]:
        """Returns the training settings to try, one dictionary for each learning rate."""
        if scale.is_laptop:
            return [{"training.learning_rate": _LAPTOP_RATE, **self.laptop}]
        return [{"training.learning_rate": rate, **self.settings} for rate in self.rates]

    def size(self, tasks: Path) -> int:
        """Returns the bytes of the files, an upper limit of the training texts."""
        return sum((tasks / name).stat().st_size for name in self.files if (tasks / name).is_file())


# Small models need higher rates than Base.
_LAPTOP_RATE = 3e-4


def _glue(name: str, folder: str, *more: str, laptop_epochs: int = 3, dev: str = "dev.tsv") -> TableTask:
    files = tuple(f"glue/{folder}/{file}" for file in ("train.tsv", dev, *more))
    laptop = {"training.batch_size": 32, "training.epochs": laptop_epochs}
    return TableTask(name, name.split("-")[0].lower(), ("--data", f"{TASKS}/glue/{folder}"), files, laptop=laptop)


def _pair(task: str, train: str, dev: str) -> dict[str, Any]:
    """Returns the fields of a task with the flags --train and --dev."""
    return {"task": task, "flags": ("--train", f"{TASKS}/{train}", "--dev", f"{TASKS}/{dev}"), "files": (train, dev)}


_SQUAD1 = {"training.batch_size": 32, "training.epochs": 3}
_SQUAD2 = {"training.batch_size": 48, "training.epochs": 2}
_SWAG = {"training.batch_size": 16, "training.epochs": 3}
_NER = {"training.batch_size": 32, "training.epochs": 4}
_ONE_EPOCH = {"training.batch_size": 32, "training.epochs": 1}

# For windows of 128 tokens, the positions of laptop models.
_SHORT_WINDOWS = ("--doc_stride", "48", "--max_query_length", "32")

OFFICIAL: dict[str, TableTask] = {
    "mnli": _glue("MNLI", "MNLI", "dev_mismatched.tsv", dev="dev_matched.tsv", laptop_epochs=1),
    "qqp": _glue("QQP", "QQP", laptop_epochs=1),
    "qnli": _glue("QNLI", "QNLI", laptop_epochs=1),
    "sst2": TableTask(
        "SST-2",
        "sst2",
        ("--data", f"{TASKS}/glue/SST-2"),
        ("glue/SST-2/train.tsv", "glue/SST-2/dev.tsv"),
        laptop=_ONE_EPOCH,
    ),
    "cola": _glue("CoLA", "CoLA"),
    "stsb": TableTask(
        "STS-B", "stsb", ("--data", f"{TASKS}/glue/STS-B"), ("glue/STS-B/train.tsv", "glue/STS-B/dev.tsv")
    ),
    "mrpc": _glue("MRPC", "MRPC"),
    "rte": _glue("RTE", "RTE"),
    "squad1": TableTask(
        "SQuAD 1.1",
        **_pair("squad1", "squad/train-v1.1.json", "squad/dev-v1.1.json"),
        settings=_SQUAD1,
        rates=(5e-5,),
        laptop=_ONE_EPOCH,
        laptop_flags=_SHORT_WINDOWS,
    ),
    "squad2": TableTask(
        "SQuAD 2.0",
        **_pair("squad2", "squad/train-v2.0.json", "squad/dev-v2.0.json"),
        settings=_SQUAD2,
        rates=(5e-5,),
        laptop=_ONE_EPOCH,
        laptop_flags=_SHORT_WINDOWS,
    ),
    "swag": TableTask(
        "SWAG",
        **_pair("swag", "swag/train.csv", "swag/val.csv"),
        settings=_SWAG,
        rates=(2e-5,),
        laptop=_SWAG,
    ),
    # The paper's grid for NER: section 5.3 and A.3.
    "ner": TableTask(
        "CoNLL-2003",
        **_pair("ner", "ner/conll2003/train.txt", "ner/conll2003/valid.txt"),
        settings=_NER,
        rates=(5e-5, 3e-5, 2e-5),
        laptop=_ONE_EPOCH,
    ),
}

STAND_INS: dict[str, TableTask] = {
    "mnli": TableTask(
        "SICK",
        "classify",
        ("--text_columns", "sentence_A", "sentence_B", "--label_column", "entailment_judgment")
        + ("--train", f"{DERIVED}/sick/train.tsv", "--dev", f"{DERIVED}/sick/dev.tsv"),
        ("sick/SICK.txt",),
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
    "squad1": TableTask(
        "SQuADShifts Amazon, tested on XQuAD English",
        **(_pair("squad1", "squad/squadshifts_amazon_reviews_v1.0.json", "squad/xquad.en.json")),
        laptop=_ONE_EPOCH,
        laptop_flags=_SHORT_WINDOWS,
        stands_for="SQuAD 1.1",
    ),
    "squad2": TableTask(
        "a half of SQuAD 2.0's development set, split",
        **_pair("squad2", "squad/derived/train-v2.0.json", "squad/derived/dev-v2.0.json"),
        laptop=_ONE_EPOCH,
        laptop_flags=_SHORT_WINDOWS,
        stands_for="SQuAD 2.0",
    ),
    "swag": TableTask(
        "CODAH",
        **_pair(
            "swag",
            "multiple_choice/derived_swag_csv/codah_train.csv",
            "multiple_choice/derived_swag_csv/codah_val.csv",
        ),
        laptop=_SWAG,
        stands_for="SWAG",
    ),
    "ner": TableTask(
        "WikiANN English",
        **_pair("ner", "ner/wikiann_en/train", "ner/wikiann_en/dev"),
        laptop=_ONE_EPOCH,
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

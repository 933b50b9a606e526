"""Validates prediction files and zips them for GLUE's leaderboard."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

from bert_tf.config import local_path
from bert_tf.config.files import staged_file
from bert_tf.tasks.classify.files import lines_of
from bert_tf.tasks.glue import tasks
from bert_tf.tasks.glue.files import read_predictions

# Fixed date of files in the archive, so that equal predictions produce equal bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class TestSet:
    """One file of a submission: its task, and the number of rows in the official test set."""

    task: tasks.GlueTask | tasks.StsbTask
    rows: int


TEST_SETS: dict[str, TestSet] = {
    "CoLA.tsv": TestSet(tasks.ColaTask(), 1063),
    "SST-2.tsv": TestSet(tasks.Sst2Task(), 1821),
    "MRPC.tsv": TestSet(tasks.MrpcTask(), 1725),
    "STS-B.tsv": TestSet(tasks.StsbTask(), 1379),
    "QQP.tsv": TestSet(tasks.QqpTask(), 390965),
    "MNLI-m.tsv": TestSet(tasks.MnliTask(), 9796),
    "MNLI-mm.tsv": TestSet(tasks.MnliTask(), 9847),
    "QNLI.tsv": TestSet(tasks.QnliTask(), 5463),
    "RTE.tsv": TestSet(tasks.RteTask(), 3000),
    "WNLI.tsv": TestSet(tasks.WnliTask(), 146),
    "AX.tsv": TestSet(tasks.DiagnosticTask(), 1104),
}


def bundle(predictions: str | Path, output: str | Path) -> dict[str, int]:
    """Validates the predictions of all test sets in a directory, zips them, and returns the rows of each file.

    The zip file is written atomically. Raises ValueError for missing files, with their names; and for another header,
    an unknown label, an index that is out of order, or a wrong number of rows, with file and line.
    """
    predictions, output = local_path(predictions), local_path(output)
    missing = [name for name in TEST_SETS if not (predictions / name).is_file()]
    if missing:
        raise ValueError(f"{predictions}: a submission needs {len(TEST_SETS)} files. Missing: {', '.join(missing)}")
    rows = {name: check(predictions / name, test_set) for name, test_set in TEST_SETS.items()}
    with staged_file(output) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in TEST_SETS:
            entry = zipfile.ZipInfo(name, _DATE)
            text = "".join(f"{line}\n" for _, line in lines_of(predictions / name))
            archive.writestr(entry, text, zipfile.ZIP_DEFLATED)
    return rows


def check(path: Path, test_set: TestSet) -> int:
    """Validates a prediction file and returns its number of rows. Raises ValueError like `bundle`."""
    count = 0
    for line, key, _ in read_predictions(path, test_set.task.answer_of):
        if key != str(count):
            raise ValueError(f"{path}: line {line}: the index must be {count}. Received: {key!r}")
        count += 1
    if count != test_set.rows:
        raise ValueError(f"{path}: must have {test_set.rows} rows, as in the official test set. Received: {count}")
    return count

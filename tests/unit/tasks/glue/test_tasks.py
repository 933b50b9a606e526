"""GLUE's files, metrics and prediction files, task by task."""

from __future__ import annotations

import math
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bert_tf.cli import main
from bert_tf.data.schema import SINGLE_OUTPUT
from bert_tf.encoding.rows import EncodedRows
from bert_tf.encoding.texts import LabelAnswer, NumberAnswer, TextExample
from bert_tf.tasks.glue import submission
from bert_tf.tasks.glue.tasks import StsbTask
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.registry import TASKS, task_class, task_of
from tests.support.tasks.text_examples import write_lines

PARSES = ["promptID", "pairID", "genre", *(f"sentence{n}_{kind}" for kind in ("binary_parse", "parse") for n in (1, 2))]
# Task to header, a row, and the example read from it (index, texts, label); None is a file without header line.
LABELLED = {
    "cola": (None, ["gj04", "1", "", 'He "ran'], ("0", ('He "ran',), "1")),
    "sst2": (["sentence", "label"], ["good ", "1"], ("0", ("good ",), "1")),
    "mrpc": (["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"], ["0", "7", "8", "a", '"b'],
             ("0", ("a", '"b'), "0")),
    "stsb": (
        ["index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2", "score"],
        ["4", "g", "f", "2012test", "0000", "none", "none", "a", "b", "4.750"],
        ("4", ("a", "b"), "4.750"),
    ),
    "qqp": (
        ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"], ["133273", "1", "2", "a?", "b?", "1"],
        ("133273", ("a?", "b?"), "1"),
    ),
    "mnli": (
        ["index", *PARSES, "sentence1", "sentence2", *(f"label{n}" for n in range(1, 6)), "gold_label"],
        ["63735", *"pqg1234", "a", "b", *["neutral"] * 5, "entailment"], ("63735", ("a", "b"), "entailment"),
    ),
    "qnli": (["index", "question", "sentence", "label"], ["0", "a?", "b", "not_entailment"],
             ("0", ("a?", "b"), "not_entailment")),
    "rte": (["index", "sentence1", "sentence2", "label"], ["5", "a", "b", "entailment"],
            ("5", ("a", "b"), "entailment")),
    "wnli": (["index", "sentence1", "sentence2", "label"], ["0", "a", "b", "1"], ("0", ("a", "b"), "1")),
    "ax": (
        ["Lexical Semantics", "Predicate-Argument Structure", "Logic", "Knowledge", "Domain", "Premise", "Hypothesis",
         "Label"],
        ["", "", "Negation", "", "News", "a", "b", "contradiction"], ("0", ("a", "b"), "contradiction"),
    ),
}  # fmt: skip
GLUE = list(LABELLED)
# Directories of the real files, with the number of rows published by GLUE; MRPC's lacks one official row of 3,668.
REAL = {
    "cola": ("CoLA", {"train": 8551, "dev": 1043, "test": 1063}),
    "sst2": ("SST-2", {"train": 67349, "dev": 872, "test": 1821}),
    "mrpc": ("MRPC", {"train": 3667, "dev": 408, "test": 1725}),
    "stsb": ("STS-B", {"train": 5749, "dev": 1500, "test": 1379}),
    "qnli": ("QNLI", {"dev": 5463, "test": 5463}),
    "wnli": ("WNLI", {"train": 635, "dev": 71, "test": 146}),
    "mnli": ("diagnostic", {"diagnostic": 1104}),
}


def write(path: Path, header: list[str] | None, *rows: list[str], **ends: str) -> Path:
    return write_lines(path, *("\t".join(cells) for cells in (header, *rows) if cells is not None), **ends)


def read(task: str, path: Path, labelled: bool = True, skip: bool = False) -> list[TextExample]:
    return list(task_class(task)().read(path, InputErrors(skip), labelled))


def examples_of(*labels: str) -> list[TextExample]:
    return [TextExample(f"f: line {n + 2}", ("a",), label, str(n)) for n, label in enumerate(labels)]


@pytest.mark.parametrize("ends", [{}, {"start": "\ufeff", "end": "\r\n"}], ids=["plain", "bom crlf"])
@pytest.mark.parametrize("task", GLUE)
def test_labelled_files(task: str, ends: dict[str, str], tmp_path: Path) -> None:
    header, row, (key, texts, label) = LABELLED[task]
    path = write(tmp_path / "dev.tsv", header, row, **ends)
    assert read(task, path) == [TextExample(f"{path}: line {1 if header is None else 2}", texts, label, key)]
    assert read(task, path, labelled=False) == [
        TextExample(f"{path}: line {1 if header is None else 2}", texts, None, key)
    ]


@pytest.mark.parametrize("task", [task for task in GLUE if task != "ax"])
def test_test_files_have_no_labels(task: str, tmp_path: Path) -> None:
    header, row, (_, texts, _) = LABELLED[task]
    columns = dict(zip(header or task_class(task).layout.headerless, row, strict=True))
    key, label = task_class(task).layout.key, task_class(task).layout.label
    given = {key: "17"} | {name: cell for name, cell in columns.items() if name not in (key, label, "source", "star")}
    path = write(tmp_path / "test.tsv", list(given), list(given.values()))
    assert read(task, path, labelled=False) == [TextExample(f"{path}: line 2", texts, None, "17")]
    with pytest.raises(ValueError, match=f"test.tsv: line 1: no column `{label}`"):
        read(task, path)


@pytest.mark.parametrize(("task", "folder", "parts"), [(task, *given) for task, given in REAL.items()])
def test_real_files_are_read_completely(task: str, folder: str, parts: dict[str, int], shared_data: Path) -> None:
    for part, count in parts.items():
        examples = read(task, shared_data / "finetune/glue" / folder / f"{part}.tsv", labelled=part in ("train", "dev"))
        assert len(examples) == count
        assert [example.key for example in examples] == [str(number) for number in range(count)]
        assert all(text.strip() for example in examples for text in example.texts)


def test_rows_without_index_are_numbered_including_skipped_ones(tmp_path: Path) -> None:
    lines = [["a", "1"], ["b"], [" ", "1"], ["c", "2"], ["d", "0"]]
    path = write(tmp_path / "dev.tsv", ["sentence", "label"], *lines)
    input_errors = InputErrors(skip=True)
    assert [e.key for e in task_class("sst2")().read(path, input_errors)] == ["0", "4"]
    assert [problem.message for problem in input_errors.problems] == [
        "expected 2 columns. Received: 1", "`sentence` is empty.", "the label must be one of 0, 1. Received: '2'"
    ]  # fmt: skip


def test_texts_to_predict_may_be_empty(tmp_path: Path) -> None:
    """QQP's leaderboard expects a prediction for every row, also for one whose text is missing."""
    path = write(tmp_path / "test.tsv", ["id", "question1", "question2"], ["0", "a", ""], ["1", " ", "b"])
    examples = read("qqp", path, labelled=False)
    assert [example.texts for example in examples] == [("a", ""), (" ", "b")]


@pytest.mark.parametrize(
    ("task", "lines", "message"),
    [
        ("sst2", [], "line 1: no column `sentence`"),
        ("sst2", ["sentence\tlabel"], "dev.tsv: no rows"),
        ("sst2", ["text\tlabel", "a\t1"], r"line 1: no column `sentence`. Received: \['text', 'label'\]"),
        ("cola", ["gj04\t1\tHe ran."], "line 1: no column `sentence`"),
        ("cola", ["gj04\t1\t\tHe ran.", "gj04\t*\t\tHe."], "line 2: the label must be one of 0, 1. Received: '\\*'"),
        ("rte", ["index\tsentence1\tsentence2\tlabel", "0\ta\tb\tneutral"], "line 2: .* Received: 'neutral'"),
        ("rte", ["index\tsentence1\tsentence2\tlabel", "0\ta\t\tentailment"], "line 2: `sentence2` is empty"),
        (
            "qqp",
            ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "3\t1\t2\ta\tb\t0", "4\t1\ta"],
            "line 3: expected 6 columns. Received: 3",
        ),
        (
            "qnli",
            ["index\tquestion\tsentence\tlabel", "3\ta\tb\tentailment", "3\tc\td\tentailment"],
            "line 3: the index must be unique. Received: 3, also in line 2",
        ),
    ],
)
def test_faults_are_named(task: str, lines: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as error:
        read(task, write_lines(tmp_path / "dev.tsv", *lines))
    assert "dev.tsv" in str(error.value)


@pytest.mark.parametrize("score", ["x", "", "nan", "5.1", "-1"])
def test_scores_are_numbers_from_0_to_5(score: str, tmp_path: Path) -> None:
    header, row, _ = LABELLED["stsb"]
    path = write(tmp_path / "dev.tsv", header, row[:-1] + [score])
    with pytest.raises(ValueError, match=r"line 2: (must be a number from 0 to 5\. Received: |`score` is empty)"):
        read("stsb", path)


@pytest.mark.parametrize(
    ("task", "gold", "predicted", "expected", "metric"),
    [
        ("cola", "1100", "1000", {"matthews": 1 / math.sqrt(3), "accuracy": 0.75}, "matthews"),
        ("cola", "1100", "1111", {"matthews": 0.0, "accuracy": 0.5}, "matthews"),
        ("sst2", "1100", "1000", {"accuracy": 0.75}, "accuracy"),
        ("mrpc", "11100", "11010", {"f1": 2 / 3, "accuracy": 0.6, "average": (2 / 3 + 0.6) / 2}, "average"),
        ("qqp", "0000", "0000", {"f1": 0.0, "accuracy": 1.0, "average": 0.5}, "average"),
        ("wnli", "0101", "0101", {"accuracy": 1.0}, "accuracy"),
    ],
)
def test_metrics_of_labels(task: str, gold: str, predicted: str, expected: dict[str, float], metric: str) -> None:
    found = task_class(task)().score(examples_of(*gold), [LabelAnswer(label, ()) for label in predicted])
    assert found == pytest.approx(expected)
    assert task_class(task).metric == metric in found


def test_matthews_of_three_classes() -> None:
    gold, predicted = ["neutral", "entailment", "contradiction", "neutral"], ["neutral", "neutral", "contradiction"] * 2
    found = task_class("ax")().score(examples_of(*gold), [LabelAnswer(label, ()) for label in predicted[:4]])
    confusion = np.zeros((3, 3))
    np.add.at(confusion, ([0, 1, 2, 0], [0, 0, 2, 0]), 1)
    total, right, by_gold, by_predicted = 4, np.trace(confusion), confusion.sum(1), confusion.sum(0)
    expected = (right * total - by_gold @ by_predicted) / math.sqrt(
        (total**2 - by_predicted @ by_predicted) * (total**2 - by_gold @ by_gold)
    )
    assert found == pytest.approx({"matthews": expected, "accuracy": 0.75})


def test_correlations() -> None:
    gold, predicted = ["0", "1.5", "3", "5"], [0.5, 0.25, 4.0, 4.5]
    found = StsbTask().score(examples_of(*gold), [NumberAnswer(number) for number in predicted])
    numbers = [float(text) for text in gold]
    pearson = np.corrcoef(numbers, predicted)[0, 1]
    spearman = np.corrcoef(stats.rankdata(numbers), stats.rankdata(predicted))[0, 1]
    assert found == pytest.approx({"pearson": pearson, "spearman": spearman, "average": (pearson + spearman) / 2})
    assert StsbTask().score(examples_of(*gold), [NumberAnswer(2.0)] * 4) == dict.fromkeys(found, 0.0)


def test_scores_are_clipped_and_rounded_for_the_leaderboard(tmp_path: Path) -> None:
    examples = examples_of("0", "1", "5")
    rows = EncodedRows(np.zeros(6, np.int32), np.arange(0, 7, 2), np.full(3, 2), 0, examples=np.arange(3))
    answers = StsbTask().answers(examples, rows, {SINGLE_OUTPUT: np.float32([[-0.2], [1.23456], [5.3]])})
    assert [answer.number for answer in answers] == pytest.approx([-0.2, 1.23456, 5.3])
    StsbTask().write(tmp_path / "p.tsv", iter([(examples[:2], answers[:2]), (examples[2:], answers[2:])]))
    assert (tmp_path / "p.tsv").read_bytes() == b"index\tprediction\n0\t0.000\n1\t1.235\n2\t5.000\n"
    written = StsbTask().read_answers(tmp_path / "p.tsv", examples)
    assert [answer.number for answer in written] == [0.0, 1.235, 5.0]
    assert StsbTask().score(examples, answers) == StsbTask().score(examples, written)


def test_labels_are_written_by_index_and_read_in_any_order(tmp_path: Path) -> None:
    task, examples = task_class("rte")(), [replace(e, key=f"{7 * n}") for n, e in enumerate(examples_of("x", "y"))]
    answers = [LabelAnswer("entailment", (0.6, 0.4)), LabelAnswer("not_entailment", (0.1, 0.9))]
    task.write(tmp_path / "p.tsv", iter([(examples, answers)]))
    assert (tmp_path / "p.tsv").read_bytes() == b"index\tprediction\n0\tentailment\n7\tnot_entailment\n"
    found = task.read_answers(tmp_path / "p.tsv", examples[::-1])
    assert [answer.label for answer in found] == ["not_entailment", "entailment"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["0\tentailment"], r"p.tsv: line 1: must be `index`, a tab, `prediction`"),
        (["index\tprediction", "0 entailment"], "p.tsv: line 2: expected 2 columns. Received: 1"),
        (["index\tprediction", "0\t1"], "p.tsv: line 2: the label must be one of entailment, not_ent.* Received: '1'"),
        (["index\tprediction", "0\tentailment", "0\tentailment"], "line 3: the index must not occur twice. Rec.*'0'"),
        (["index\tprediction", "9\tentailment"], "line 2: the index must be .* of an example. Received: '9'"),
        (["index\tprediction", "0\tentailment"], r"p.tsv: no prediction for index 1 \(f: line 3\)"),
    ],
)
def test_invalid_predictions_are_refused(lines: list[str], message: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "p.tsv", *lines)
    with pytest.raises(ValueError, match=message):
        task_class("rte")().read_answers(path, examples_of("entailment", "entailment"))


@pytest.mark.parametrize("task", [*GLUE, "classify", "regression"])
def test_presets_store_their_task(task: str) -> None:
    made = task_class(task)()
    assert made.name == task and task in TASKS
    assert task_of({"task": task, "max_sequence_length": 64, **made.description()}) == (made, 64)


def test_labels_are_in_the_originals_order() -> None:
    """The order of `get_labels` in run_classifier.py."""
    labels = {task: task_class(task)().labels for task in GLUE if task != "stsb"}
    inference, binary = ("entailment", "not_entailment"), ("0", "1")
    three = ("contradiction", "entailment", "neutral")
    assert labels == {"mnli": three, "ax": three, "qnli": inference, "rte": inference} | dict.fromkeys(
        ("cola", "sst2", "mrpc", "qqp", "wnli"), binary
    )


@pytest.fixture
def prediction_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a directory of predictions for test sets of three rows."""
    small = {name: replace(test_set, rows=3) for name, test_set in submission.TEST_SETS.items()}
    monkeypatch.setattr(submission, "TEST_SETS", small)
    (tmp_path / "predictions").mkdir()
    for name, test_set in small.items():
        legal = getattr(test_set.task, "labels", ("0.000", "4.321"))
        rows = [f"{n}\t{legal[n % len(legal)]}" for n in range(3)]
        write_lines(tmp_path / "predictions" / name, "index\tprediction", *rows)
    return tmp_path


def test_submission_has_the_files_of_the_leaderboard(
    prediction_files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [
        "submission",
        "--predictions",
        str(prediction_files / "predictions"),
        "--output",
        str(prediction_files / "glue.zip"),
    ]
    assert main(argv) == 0
    first = (prediction_files / "glue.zip").read_bytes()
    with zipfile.ZipFile(prediction_files / "glue.zip") as archive:
        names = "AX CoLA MNLI-m MNLI-mm MRPC QNLI QQP RTE SST-2 STS-B WNLI"
        assert sorted(archive.namelist()) == [f"{name}.tsv" for name in names.split()]
        for name in archive.namelist():
            assert archive.read(name) == (prediction_files / "predictions" / name).read_bytes()
    assert main(argv) == 0 and (prediction_files / "glue.zip").read_bytes() == first


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("RTE.tsv", None, "a submission needs 11 files. Missing: RTE.tsv"),
        ("RTE.tsv", ["0\tentailment"], "RTE.tsv: must have 3 rows, as in the official test set. Received: 1"),
        ("RTE.tsv", [f"{n}\tentailment" for n in "0123"], "RTE.tsv: must have 3 rows, .* Received: 4"),
        ("CoLA.tsv", ["0\t1", "2\t1", "1\t1"], "CoLA.tsv: line 3: the index must be 1. Received: '2'"),
        ("AX.tsv", ["0\tnot_entailment"], "AX.tsv: line 2: the label must be one of .* Received: 'not_entailment'"),
        ("STS-B.tsv", ["0\t5.2"], "STS-B.tsv: line 2: must be a number from 0 to 5. Received: '5.2'"),
    ],
)
def test_invalid_submission_is_refused(
    prediction_files: Path, name: str, lines: list[str] | None, message: str
) -> None:
    path = prediction_files / "predictions" / name
    path.unlink()
    if lines is not None:
        write_lines(path, "index\tprediction", *lines)
    with pytest.raises(ValueError, match=message):
        submission.bundle(prediction_files / "predictions", prediction_files / "glue.zip")
    assert [entry.name for entry in prediction_files.iterdir()] == ["predictions"]


def test_test_sets_are_as_long_as_the_real_files() -> None:
    names = {"cola": "CoLA.tsv", "sst2": "SST-2.tsv", "mrpc": "MRPC.tsv", "stsb": "STS-B.tsv", "qnli": "QNLI.tsv",
             "wnli": "WNLI.tsv"}  # fmt: skip
    for task, name in names.items():
        assert submission.TEST_SETS[name].rows == REAL[task][1]["test"]
    assert submission.TEST_SETS["AX.tsv"].rows == REAL["mnli"][1]["diagnostic"]


def test_score_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dev = write_lines(tmp_path / "dev.tsv", *(f"gj04\t{label}\t\tHe ran." for label in "1100"))
    predictions = write_lines(tmp_path / "p.tsv", "index\tprediction", *(f"{n}\t{p}" for n, p in enumerate("1000")))
    assert main(["score", "cola", "--data", str(dev), "--predictions", str(predictions)]) == 0
    assert '"metrics": {"matthews": 0.577350' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("task", "files", "message"),
    [
        ("ax", [], "the diagnostic set has no training examples"),
        ("rte", ["train.tsv"], "dev.tsv' does not exist"),
        ("mnli", ["train.tsv", "dev_matched.tsv"], "dev_mismatched.tsv' does not exist"),
    ],
)
def test_missing_files_for_fine_tuning_are_named(
    task: str, files: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in files:
        (tmp_path / name).touch()
    preset = tmp_path / "preset"
    preset.mkdir()
    (preset / "config.json").write_text('{"format_version": 2}')
    arguments = ["--preset", preset, "--data", tmp_path, "--output", tmp_path / "run"]
    assert main(["finetune", task, *map(str, arguments)]) == 1
    assert message in capsys.readouterr().err


def test_the_numbers_of_stsb_are_standardized_in_training() -> None:
    examples = [TextExample("file:1", ("a", "b"), str(score)) for score in (0.0, 1.0, 5.0)]
    task = StsbTask().fit_labels(examples)
    targets, _ = task.targets(examples)
    assert [targets.mean(), targets.std()] == pytest.approx([0, 1], abs=1e-6)
    rows = EncodedRows(np.zeros(3, np.int32), np.arange(4), np.ones(3, np.int32), 0, examples=np.arange(3))
    answers = task.answers(examples, rows, {SINGLE_OUTPUT: targets[:, None]})
    assert [answer.number for answer in answers] == pytest.approx([0, 1, 5], abs=1e-3)

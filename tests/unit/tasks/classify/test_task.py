"""The user's own labels and numbers: weights, metrics, predictions and their flags."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bert_tf.data.schema import SINGLE_OUTPUT
from bert_tf.encoding.rows import EncodedRows
from bert_tf.encoding.texts import LabelAnswer, NumberAnswer, TextExample
from bert_tf.tasks.classify.task import ClassifyTask, RegressionTask, label_remarks
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.registry import TASKS
from tests.support.tasks.text_examples import write_lines

CLASSIFY = TASKS["classify"]


def examples_of(*labels: str) -> list[TextExample]:
    return [TextExample(f"f: line {n + 2}", (f"text {n}",), label) for n, label in enumerate(labels)]


def parsed(*argv: str, learns: bool = True) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    if learns:
        CLASSIFY.add_files(parser)
    CLASSIFY.add_arguments(parser)
    return parser.parse_args(argv)


def test_rows_are_examples(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "dev.csv", "kind,first,second", 'a,"one, two",three')
    task = ClassifyTask(("second", "first"), label_column="kind")
    assert list(task.read(path, InputErrors())) == [TextExample(f"{path}: line 2", ("three", "one, two"), "a")]
    assert next(iter(task.read(path, InputErrors(), labelled=False))).label is None


def test_label_that_is_not_in_training_data(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "dev.tsv", "label\ttext", "a\tx", "y\tx", "b\tx")
    task = ClassifyTask(labels=("a", "b"))
    with pytest.raises(ValueError, match=r"dev.tsv: line 3: label 'y' never occurs in training; known: a, b"):
        list(task.read(path, InputErrors()))
    input_errors = InputErrors(skip=True)
    assert [example.label for example in task.read(path, input_errors)] == ["a", "b"]
    assert len(input_errors) == 1
    assert len(list(ClassifyTask().read(path, InputErrors()))) == 3


@pytest.mark.parametrize(
    ("class_weights", "weights"),
    [
        ((), ()),
        (("balanced",), (4 / (2 * 3), 4 / (2 * 1))),
        (("b=5",), (1.0, 5.0)),
        (("b=5", "a=0.5"), (0.5, 5.0)),
    ],
)
def test_class_weights(class_weights: tuple[str, ...], weights: tuple[float, ...]) -> None:
    examples = examples_of("a", "a", "b", "a")
    task = ClassifyTask(class_weights=class_weights).fit_labels(examples)
    assert task.labels == ("a", "b") and task.label_weights == pytest.approx(weights)
    targets, found = task.targets(examples)
    assert targets.tolist() == [0, 0, 1, 0]
    if weights:
        np.testing.assert_allclose(found, np.take(weights, targets), rtol=1e-6)
    else:
        assert found is None


@pytest.mark.parametrize(
    ("class_weights", "message"),
    [
        (("c=2",), "label 'c' never occurs in training; known: a, b"),
        (("b",), "must be balanced, none, or label=weight, above 0. Received: 'b'"),
        (("b=0",), "Received: 'b=0'"),
        (("b=x",), "Received: 'b=x'"),
        (("balanced", "b=2"), "Received: 'balanced'"),
    ],
)
def test_invalid_class_weights_are_refused(class_weights: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClassifyTask(class_weights=class_weights).fit_labels(examples_of("a", "b"))


def test_metrics_of_labels() -> None:
    answers = [LabelAnswer(label, ()) for label in "aaba"]
    found = ClassifyTask().score(examples_of(*"aabb"), answers)
    assert found == pytest.approx({"accuracy": 0.75, "macro_f1": (0.8 + 2 / 3) / 2, "majority": 0.5})


def test_predicted_labels_are_json_lines(tmp_path: Path) -> None:
    examples, path = examples_of("x", "ü"), tmp_path / "p.jsonl"
    task = ClassifyTask(labels=("x", "ü"))
    answers = [LabelAnswer("x", (0.75, 0.25)), LabelAnswer("ü", (0.5, 0.5))]
    task.write(path, iter([(examples[:1], answers[:1]), (examples[1:], answers[1:])]))
    first, _ = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert first == {"text": "text 0", "label": "x", "probabilities": {"x": 0.75, "ü": 0.25}}
    assert [answer.label for answer in task.read_answers(path, examples)] == ["x", "ü"]


@pytest.mark.parametrize(
    ("task", "lines", "message"),
    [
        (ClassifyTask(), ['{"label": "x"}'], "p.jsonl: must have 2 lines, one for each example. Received: 1"),
        (ClassifyTask(), ['{"label": "x"}', "x"], "p.jsonl: line 2: not JSON: "),
        (ClassifyTask(), ["{}", '{"label": "x"}'], "p.jsonl: line 1: must be an object with the key `label`"),
        (RegressionTask(), ['{"number": 1}', '{"number": "x"}'], "line 2: `number` must be a number. Received: 'x'"),
    ],
)
def test_invalid_predictions_are_refused(task, lines: list[str], message: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "p.jsonl", *lines)
    with pytest.raises(ValueError, match=message):
        task.read_answers(path, examples_of("x", "y"))


def test_regression_targets_are_standardized(tmp_path: Path) -> None:
    examples = examples_of("1000", "1200", "1400")
    task = RegressionTask().fit_labels(examples)
    targets, _ = task.targets(examples)
    np.testing.assert_allclose([targets.mean(), targets.std()], [0, 1], atol=1e-6)
    rows = EncodedRows(np.zeros(6, np.int32), np.arange(0, 7, 2), np.full(3, 2), 0, examples=np.arange(3))
    answers = task.answers(examples, rows, {SINGLE_OUTPUT: targets[:, None]})
    assert [answer.number for answer in answers] == pytest.approx([1000, 1200, 1400])
    assert task.score(examples, answers) == pytest.approx({"pearson": 1, "spearman": 1, "mse": 0}, abs=1e-6)
    task.write(tmp_path / "p.jsonl", iter([(examples, answers)]))
    assert task.read_answers(tmp_path / "p.jsonl", examples) == answers
    assert RegressionTask.from_description(json.loads(json.dumps(task.description()))) == task


def test_mean_squared_error() -> None:
    found = RegressionTask().score(examples_of("1", "2", "4"), [NumberAnswer(n) for n in (1.0, 4.0, 1.0)])
    assert found["mse"] == pytest.approx((0 + 4 + 9) / 3)


@pytest.mark.parametrize("number", ["x", "nan", "inf", "1,5"])
def test_invalid_number_is_named(number: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "dev.tsv", "label\ttext", "1.5\tx", f"{number}\tx")
    with pytest.raises(ValueError, match="dev.tsv: line 3: `label` must be a number. Received: "):
        list(RegressionTask().read(path, InputErrors()))


@pytest.mark.parametrize(
    ("argv", "task"),
    [
        ([], ClassifyTask()),
        (["--class_weights", "balanced"], ClassifyTask(class_weights=("balanced",))),
        (["--class_weights", "a=2", "b=3"], ClassifyTask(class_weights=("a=2", "b=3"))),
        (["--pooling", "max", "--windows"], ClassifyTask(pooling="max", windows=True)),
        (["--text_columns", "a", "b", "--label_column", "c"], ClassifyTask(("a", "b"), label_column="c")),
        (["--regression", "--windows", "--label_column", "n"], RegressionTask(windows=True, label_column="n")),
    ],
)
def test_flags_configure_the_task(argv: list[str], task: ClassifyTask | RegressionTask) -> None:
    assert CLASSIFY.make_task(parsed(*argv)) == task


def test_scoring_has_no_training_flags() -> None:
    assert CLASSIFY.make_task(parsed("--regression", learns=False)) == RegressionTask()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--regression", "--class_weights", "balanced"], "`--class_weights` has no effect with `--regression`"),
        (["--text_columns", "a", "b", "c"], "`--text_columns` takes one or two names"),
    ],
)
def test_incompatible_flags_are_refused(argv: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CLASSIFY.make_task(parsed(*argv))


def test_files_are_found_in_the_folder_or_named_by_flags(tmp_path: Path) -> None:
    for name in ("train.csv", "dev.jsonl", "train.txt"):
        (tmp_path / name).touch()
    files = CLASSIFY.make_files(parsed("--data", str(tmp_path)))
    assert (files.train, files.dev) == (tmp_path / "train.csv", tmp_path / "dev.jsonl")
    both = ("--train", str(tmp_path / "train.csv"), "--dev", str(tmp_path / "dev.jsonl"))
    assert CLASSIFY.make_files(parsed(*both)) == files
    for argv, message in [
        ((), "`--data`, or `--train` and `--dev`, are required"),
        (both[:2], "`--data`, or `--train` and `--dev`, are required"),
        ((*both, "--data", str(tmp_path)), "Received: both"),
    ]:
        with pytest.raises(ValueError, match=message):
            CLASSIFY.make_files(parsed(*argv))


@pytest.mark.parametrize(
    ("names", "received"), [(["dev.tsv"], "none"), (["train.csv", "train.tsv"], "train.tsv, train.csv")]
)
def test_folder_with_two_files_of_one_name_is_refused(names: list[str], received: str, tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(
        ValueError, match=rf"must hold exactly one of train.tsv, train.csv, train.jsonl. Received: {received}\. Name"
    ):
        CLASSIFY.make_files(parsed("--data", str(tmp_path)))


def test_members_of_an_ensemble_have_the_same_labels_and_texts() -> None:
    task = ClassifyTask(labels=("a", "b"))
    task.check_member(ClassifyTask(("other",), labels=("b", "a")))
    with pytest.raises(ValueError, match="must have the labels a, b. Received: a, c"):
        task.check_member(ClassifyTask(labels=("a", "c")))
    for one, other in (
        (task, ClassifyTask(("x", "y"), labels=("a", "b"))),
        (RegressionTask(), RegressionTask(("x", "y"))),
    ):
        with pytest.raises(ValueError, match=r"same number of texts, 1. Received: 2 \(x, y\)"):
            one.check_member(other)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"pos": 3, "neg": 2}, []),
        ({"Pos": 3, "pos": 2, "neg": 2}, ["'Pos' (3) and 'pos' (2)"]),
        ({"a b": 3, "a  b": 2}, ["'a  b' (2) and 'a b' (3)"]),
        ({"pos": 3, "nan": 2, "NULL": 4}, ["4 rows have the label 'NULL'", "2 rows have the label 'nan'"]),
        ({"pos": 3, "rare": 1}, ["1 of 2 labels have one example: 'rare'"]),
        ({f"{number / 7:.3f}": 1 for number in range(30)}, ["30 numbers. Use --regression"]),
        ({str(number): 2 for number in range(10)}, []),
    ],
)
def test_labels_that_look_like_mistakes_are_named(labels: dict[str, int], said: list[str]) -> None:
    remarks = label_remarks(Counter(labels))
    assert len(remarks) == len(said) and all(map(str.__contains__, remarks, said))


def test_blanks_around_labels_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,label\na,pos\nb,pos \nc, neg\n")
    assert [row.label for row in ClassifyTask().read(tmp_path / "rows.csv", InputErrors())] == ["pos", "pos", "neg"]

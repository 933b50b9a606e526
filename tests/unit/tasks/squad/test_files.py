"""Files of SQuAD's layout: examples, input errors and their messages, predictions and metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bert_tf.cli import main
from bert_tf.encoding.answers import Candidate, SquadAnswer
from bert_tf.encoding.span_metric import metrics_v2, normalized, points_v1, points_v2
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.squad.task import Squad1Task, Squad2Task
from tests.support.tasks.squad_examples import example, question, write_file

CONTEXT = "Köln \U0001f600 liegt am\u00a0 Rhein."


def read(path: Path, task=None, labelled: bool = True) -> list:
    return list((task or Squad1Task()).read(path, InputErrors(), labelled))


def test_offsets_are_code_points_and_white_space_may_differ(tmp_path: Path) -> None:
    good = question("a", CONTEXT, "Rhein", "liegt")
    loose = question("b", CONTEXT, answers=[{"text": "am Rhein", "answer_start": CONTEXT.index("am") - 1}])
    path = write_file(tmp_path / "f.json", (CONTEXT, [good, loose]))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b", ", b",\r\n"))
    first, second = read(path)
    assert [first.context[gold.start : gold.limit] for gold in first.answers] == ["Rhein", "liegt"]
    gold = second.answers[0]
    assert gold.text == "am Rhein" and CONTEXT[gold.start : gold.limit] == "am\u00a0 Rhein"
    assert first.place == f"{path}: id a"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"answers": [{"text": "Bonn", "answer_start": 0}]},
            "the answer is not in the context at all. Received: 'Köln'",
        ),
        ({"answers": [{"text": "Rhein", "answer_start": 3}]}, "3; the answer is at character 17. Received: 'n"),
        ({"answers": [{"text": "Rhein", "answer_start": -1}]}, "-1; the answer is at character 17. Received: ''"),
        ({"answers": [{"text": "Rhein", "answer_start": "18"}]}, "`answer_start` must be an integer. Received: '18'"),
        ({"answers": [{"text": " ", "answer_start": 4}]}, "`text` must be a non-empty string. Received: ' '"),
        ({"answers": []}, "a labelled question must have `answers`. Received: none"),
        ({"answers": {}}, "`answers` must be a list. Received: {}"),
        ({"question": "  "}, "`question` must be a non-empty string"),
        ({"id": "a"}, "`id` must be unique"),
        ({"is_impossible": True}, "squad1 requires an answer to every question. Use the task `squad2`"),
        ({"is_impossible": "no"}, "`is_impossible` must be true or false. Received: 'no'"),
    ],
)
def test_invalid_question_is_named_and_may_be_skipped(tmp_path: Path, fields: dict, message: str) -> None:
    questions = [question(name, CONTEXT, "Rhein") for name in "abc"]
    questions[1] |= fields
    path = write_file(tmp_path / "f.json", (CONTEXT, questions))
    with pytest.raises(ValueError) as refused:
        read(path)
    assert f"{path}: id {questions[1]['id']}: " in str(refused.value) and message in str(refused.value)
    input_errors = InputErrors(skip=True)
    assert [e.id for e in Squad1Task().read(path, input_errors)] == ["a", "c"]
    assert len(input_errors) == 1 and message in input_errors.problems[0].message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not JSON"),
        ('{"data": [}', "not JSON: Expecting value: line 1"),
        pytest.param("[" * 200_000, "nested at most 100 levels", id="deep"),
        ("[]", "must hold a JSON object. Received: list"),
        ('{"articles": []}', "must have a list `data`"),
        ('{"data": [{}]}', "data[0]: `paragraphs` must be a list. Received: None"),
        (
            '{"data": [{"paragraphs": [{"context": " ", "qas": []}]}]}',
            "data[0].paragraphs[0]: `context` must be a non-empty string",
        ),
        ('{"data": [{"paragraphs": [{"context": "a"}]}]}', "data[0].paragraphs[0]: `qas` must be a list"),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": [7]}]}]}', "paragraphs[0].qas[0]: must be an object"),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": 7}]}]}]}', "`id` must be a non-empty string"),
        ("\udcff", "not UTF-8"),
    ],
)
def test_a_file_of_another_layout(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError) as refused:
        read(path)
    assert str(refused.value).startswith(str(path)) and message in str(refused.value)


def test_unanswerable_questions_require_squad2(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plausible = {"plausible_answers": [{"text": "x", "answer_start": 0}]}
    there, none = question("a", CONTEXT, "Rhein"), question("b", CONTEXT, is_impossible=True, **plausible)
    path = write_file(tmp_path / "f.json", (CONTEXT, [there, none]))
    assert [len(e.answers) for e in read(path, Squad2Task())] == [1, 0]
    only = write_file(tmp_path / "old.json", (CONTEXT, [there]))
    Squad2Task().validate_examples(read(only, Squad2Task()), only)
    assert "every question has an answer" in caplog.text
    with pytest.raises(ValueError, match="at least one question must have an answer. Received: 1 without"):
        Squad2Task().validate_examples([example("q", "a")], only)
    contrary = question("a", CONTEXT, "Rhein", is_impossible=True)
    with pytest.raises(ValueError, match="id a: `is_impossible` is true, but there are `answers`"):
        read(write_file(tmp_path / "f.json", (CONTEXT, [contrary])), Squad2Task())
    unlabelled = write_file(tmp_path / "test.json", (CONTEXT, [{"id": "a", "question": "what", "answers": []}]))
    assert read(unlabelled, labelled=False)[0].answers == ()
    with pytest.raises(ValueError, match="or be marked `is_impossible`. Received: none"):
        read(unlabelled, Squad2Task())


@pytest.mark.parametrize(
    ("text", "expected"),
    [("The  Cat, a\tdog!", "cat dog"), ("An-a", "ana"), ("a", ""), ("the, theme", "theme"), ("ÄB «x»", "äb «x»")],
)
def test_normalization(text: str, expected: str) -> None:
    assert normalized(text) == expected


@pytest.mark.parametrize(
    ("points", "golds", "text", "exact", "f1"),
    [
        (points_v1, ["big red dog", "dog"], "a red dog", 0.0, 0.8),
        (points_v1, ["the"], "a", 1.0, 0.0),
        (points_v2, ["the"], "a", 1.0, 1.0),
        (points_v2, ["the", "cat"], "a", 0.0, 0.0),
        (points_v2, [], "", 1.0, 1.0),
        (points_v2, [], "x", 0.0, 0.0),
        (points_v2, ["x x y"], "x x z", 0.0, 2 / 3),
    ],
)
def test_exact_match_and_f1(points, golds: list[str], text: str, exact: float, f1: float) -> None:
    assert (points(golds, text).exact, points(golds, text).f1) == (exact, pytest.approx(f1))


def test_thresholds_by_hand() -> None:
    ids, gold = ["a", "b", "c", "d"], [["x"], [], ["y"], []]
    said = ["x", "z", "q", ""]
    odds = {"d": 5.0, "a": -2.0, "c": 0.5, "b": 3.0, "other": 1.0}
    points = [points_v2(g, s) for g, s in zip(gold, said, strict=True)]
    arguments = (ids, points, [bool(g) for g in gold], [not s for s in said], odds)
    metrics = metrics_v2(*arguments, null_threshold=1.0)
    assert (metrics["exact"], metrics["HasAns_exact"], metrics["NoAns_exact"]) == (75.0, 50.0, 100.0)
    assert (metrics["best_exact"], metrics["best_exact_thresh"]) == (75.0, -2.0)
    assert metrics_v2(*arguments)["exact"] == 50.0


def answered(odds: float, *texts: str) -> SquadAnswer:
    return SquadAnswer(texts[0], 0, tuple(Candidate(text, 0, 0.5) for text in texts), odds)


def test_the_threshold_is_tuned_on_best_texts() -> None:
    examples = [example("q", "x y", "x", name="a"), example("q", "x y", name="b"), example("q", "x y", "y", name="c")]
    # At the old threshold, the gold answer to `c` is not predicted.
    answers = [answered(-3.0, "x"), answered(4.0, "", "y"), answered(2.0, "", "y")]
    assert Squad2Task().calibrate(examples, answers).null_threshold == 3.0
    wrong = [answered(-3.0, "y"), answered(4.0, "y"), answered(2.0, "x")]
    assert Squad2Task().calibrate(examples, wrong).null_threshold == -4.0
    assert Squad2Task().calibrate(examples[:1], answers[:1]).null_threshold == -2.0
    assert Squad1Task().calibrate(examples, answers) == Squad1Task()


def test_files_of_answers(tmp_path: Path) -> None:
    examples = [example("q", "x y", "x", name="a\ud800"), example("q", "x é", name="b")]
    answers = [SquadAnswer("x", 0, (Candidate("x", 0, 1.0, 2.0, 1.0),), -3.0), SquadAnswer("", -1, (), 2.5)]
    task = Squad2Task()
    task.write(tmp_path / "out.json", iter([(examples[:1], answers[:1]), (examples[1:], answers[1:])]))
    assert json.loads((tmp_path / "out.json").read_text()) == {"a\ud800": "x", "b": ""}
    assert json.loads((tmp_path / "out.null_odds.json").read_text()) == {"a\ud800": -3.0, "b": 2.5}
    best = {"text": "x", "probability": 1.0, "answer_start": 0, "start_logit": 2.0, "end_logit": 1.0}
    assert json.loads((tmp_path / "out.nbest.json").read_text()) == {"a\ud800": [best], "b": []}
    assert [answer.text for answer in task.read_answers(tmp_path / "out.json", examples)] == ["x", ""]
    Squad1Task().write(tmp_path / "one.json", iter([]))
    assert sorted(path.name for path in tmp_path.glob("one*")) == ["one.json", "one.nbest.json"]
    assert json.loads((tmp_path / "one.json").read_text()) == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": "x", "a": "y"}', "must be unique. Received twice: 'a'"),
        ('{"a": ["x"]}', "id a: must be a string. Received: ['x']"),
        ('{"z": "x"}', "has no prediction for any of the 1 questions"),
    ],
)
def test_invalid_predictions_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(content)
    with pytest.raises(ValueError) as refused:
        Squad1Task().read_answers(path, [example("q", "x", name="a")])
    assert message in str(refused.value) and str(path) in str(refused.value)


def test_scored_spans() -> None:
    examples = [example("who", "x y z", "y", "y z"), example("who", "x y z")]
    first, second = Squad2Task().score_details(examples, [SquadAnswer("y"), SquadAnswer("")])
    assert [(span.start, span.end) for span in (*first.gold, *first.predicted)] == [(2, 3), (2, 5), (2, 3)]
    assert (first.heading, first.right, second.predicted, second.right) == ("who", 1.0, (), 1.0)


def test_missing_predictions_score_zero(tmp_path: Path, capsys, caplog) -> None:
    data = write_file(
        tmp_path / "d.json",
        (
            CONTEXT,
            [question("a", CONTEXT, "Rhein"), question("b", CONTEXT, "am"), question("c", CONTEXT, is_impossible=True)],
        ),
    )
    (tmp_path / "p.json").write_text('{"a": "rhein.", "z": "q"}')
    (tmp_path / "o.json").write_text('{"a": 2, "b": 0, "c": 1}')
    files = ["--data", str(data), "--predictions", str(tmp_path / "p.json")]
    assert main(["score", "squad2", *files]) == 0
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])["metrics"]
    assert metrics["exact"] == 100.0 / 3 and metrics["missing"] == 2 and metrics["NoAns_exact"] == 0.0
    assert "2 of 3 questions have no prediction and score 0, among them b, c" in caplog.text
    odds = ["--null_odds", str(tmp_path / "o.json")]
    assert main(["score", "squad2", *files, *odds]) == 0
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])["metrics"]
    assert metrics["exact"] == 0.0 and metrics["best_exact_thresh"] == 0.0
    assert main(["score", "squad2", *files, *odds, "--null_threshold", "2"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["metrics"]["exact"] == 100.0 / 3
    (tmp_path / "o.json").write_text('{"a": 2, "b": 0}')
    assert main(["score", "squad2", *files, *odds]) == 1
    assert "o.json: id c: the null odds must be a number. Received: None" in capsys.readouterr().err


def test_file_that_is_read_twice_lists_each_error_once(tmp_path: Path) -> None:
    path = write_file(tmp_path / "f.json", (CONTEXT, [question("a", CONTEXT, "Bonn"), question("b", CONTEXT, "Bonn")]))
    input_errors = InputErrors(skip=True)
    assert [list(Squad1Task().read(path, input_errors)) for _ in range(2)] == [[], []]
    assert [problem.place for problem in input_errors.problems] == [f"{path}: id a", f"{path}: id b"]

"""Questions of TriviaQA as examples of the task `squad1`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bert_tf.cli import main
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.squad.task import Squad1Task
from bert_tf.tasks.triviaqa.convert import find_answer, first_tokens
from tests.support.tasks.trivia_examples import answer, entry, pages, write_release

CITY = entry("city", answer("bradford", "leeds"), pages("River_Aire.txt", "Leeds.txt"), pages("12/12_7.txt"))
CHURCH = entry("church", answer("st john s church"), pages("Leeds.txt"), pages("12/12_8.txt"))


def run(capsys: pytest.CaptureFixture[str], file: Path, output: Path, *more: str) -> dict:
    evidence = file.parents[1] / "evidence"
    arguments = ["triviaqa", "--input", file, "--evidence", evidence, "--output", output, *more]
    assert main([str(argument) for argument in arguments]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_documents_become_examples_of_squad(tmp_path: Path, capsys) -> None:
    output = tmp_path / "squad.json"
    summary = run(capsys, write_release(tmp_path, CITY, CHURCH), output)
    assert {name: summary[name] for name in ("documents", "without_answer", "skipped")} == {
        "documents": 3, "without_answer": 2, "skipped": 0,
    }  # fmt: skip
    examples = list(Squad1Task().read(output, InputErrors()))
    golds = {example.id: example.answers[0] for example in examples}
    assert {name: gold.text for name, gold in golds.items()} == {
        "city--River_Aire.txt": "Leeds", "city--12/12_7.txt": "LEEDS", "church--Leeds.txt": "St. John's Church",
    }  # fmt: skip
    # The first occurrence, in the unchanged text.
    assert golds["city--River_Aire.txt"].start == examples[0].context.index("Leeds") and "\n\n" in examples[0].context
    assert not list(tmp_path.glob("*.skipped.tsv"))
    first = output.read_bytes()
    run(capsys, tmp_path / "qa/web-train.json", output)
    assert output.read_bytes() == first


def test_splits_other_than_training_keep_documents_without_an_answer(tmp_path: Path, capsys) -> None:
    test = {name: value for name, value in CHURCH.items() if name != "Answer"}
    output = tmp_path / "squad.json"
    summary = run(capsys, write_release(tmp_path, CITY, test, split="dev"), output)
    assert (summary["documents"], summary["without_answer"]) == (5, 3)
    examples = list(Squad1Task().read(output, InputErrors(), labelled=False))
    assert [example.id for example in examples][1:] == [
        "city--Leeds.txt", "city--12/12_7.txt", "church--Leeds.txt", "church--12/12_8.txt",
    ]  # fmt: skip


def test_an_answer_behind_the_first_tokens_does_not_count(tmp_path: Path, capsys) -> None:
    file, output = write_release(tmp_path, CITY), tmp_path / "squad.json"
    assert run(capsys, file, output, "--max_tokens", "10")["documents"] == 2
    assert run(capsys, file, output, "--max_tokens", "9")["documents"] == 1
    assert first_tokens("\n one, two\n\n three ", 3) == "one, two"
    assert first_tokens("one, two", 9) == "one, two"
    assert first_tokens(" \n", 9) == ""


def test_documents_without_a_text_are_counted_and_listed(tmp_path: Path, capsys, caplog) -> None:
    file, output = write_release(tmp_path, CITY), tmp_path / "squad.json"
    (tmp_path / "evidence/wikipedia/Leeds.txt").unlink()
    (tmp_path / "evidence/web/12/12_7.txt").write_bytes(b"\xff")
    summary = run(capsys, file, output)
    assert (summary["documents"], summary["skipped"]) == (1, 2)
    rows = [line.split("\t") for line in (tmp_path / "squad.json.skipped.tsv").read_text().splitlines()]
    assert [Path(place).name for place, _ in rows] == ["Leeds.txt", "12_7.txt"]
    assert "does not exist" in rows[0][1] and "UTF-8" in rows[1][1]
    assert "skipped: 2" in caplog.text and "Leeds.txt" in caplog.text


def test_a_conversion_without_documents_is_refused(tmp_path: Path, capsys) -> None:
    file, output = write_release(tmp_path, CITY), tmp_path / "squad.json"
    assert main(["triviaqa", "--input", str(file), "--evidence", str(tmp_path), "--output", str(output)]) == 1
    error = capsys.readouterr().err
    assert "3 without a text" in error and "River_Aire.txt" in error
    assert not output.exists()
    arguments = ["--input", str(file), "--evidence", str(tmp_path), "--output", str(output), "--max_tokens", "0"]
    assert main(["triviaqa", *arguments]) == 1
    assert "must be at least 1. Received: 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"Domain": "web"}, "the `Domain` Wikipedia or Web"),
        ({"Data": []}, "must have questions"),
        ({"Data": [CITY, CITY]}, "QuestionId city: `QuestionId` must be unique"),
        ({"Data": [{"QuestionId": "q"}]}, "QuestionId q: `Question` must be a non-empty string"),
        ({"Data": [entry("q", answer("x"), pages("../key.txt"))]}, "below the directory of evidence"),
        ({"Data": [entry("q", {"NormalizedAliases": [3]}, [])]}, "`NormalizedAliases` must hold strings. Received: 3"),
    ],
)
def test_files_of_another_layout_are_refused(tmp_path: Path, capsys, content: dict, message: str) -> None:
    file = write_release(tmp_path, CITY, **content)
    evidence, output = tmp_path / "evidence", tmp_path / "out.json"
    assert main(["triviaqa", "--input", str(file), "--evidence", str(evidence), "--output", str(output)]) == 1
    error = capsys.readouterr().err
    assert message in error and str(file) in error


@pytest.mark.parametrize(
    ("context", "aliases", "found"),
    [
        ("We saw the Lord of the\nRings.", ["lord of rings"], "Lord of the\nRings"),
        ("a U.S. museum", ["us", "u s"], "U.S"),
        ("a museum", ["us"], None),
        ("one two", ["two", "one"], "two"),
        ("\u0130\u0130 caf\u00e9 au lait", ["", "caf\u00e9"], "caf\u00e9"),
        ("x_y", ["x y"], "x_y"),
        ("", ["x"], None),
    ],
)
def test_aliases_are_found_after_normalization(context: str, aliases: list[str], found: str | None) -> None:
    span = find_answer(context, aliases)
    assert (span and context[slice(*span)]) == found

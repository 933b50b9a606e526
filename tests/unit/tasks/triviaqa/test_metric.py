"""The official metrics of TriviaQA.

The expected numbers are those of the official triviaqa_evaluation.py on the same files
(github.com/mandarjoshi90/triviaqa, commit ca43b58).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bert_tf.cli import main
from tests.support.tasks.trivia_examples import answer, entry, pages, write_release

YES, NO = {"QuestionPartOfVerifiedEval": True}, {"QuestionPartOfVerifiedEval": False}
PART, OTHER = {"DocPartOfVerifiedEval": True}, {"DocPartOfVerifiedEval": False}
HUMAN = answer("st john s", HumanAnswers=["The  St-John`s Church"])
ENTRIES = (
    entry("one", answer("leeds", "city of leeds"), pages("A.txt", "B.txt", **PART), pages("C.txt", **OTHER), **YES),
    entry("two", HUMAN, pages("A.txt", **OTHER), pages("D.txt", **PART), **YES),
    entry("three", answer("lord of rings", "rings"), pages("A.txt", **PART), pages("E.txt", **PART), **NO),
)
OF_QUESTIONS = {"one": "the city, of_Leeds!", "two": "St John\u2019s Church in town", "three": "The Rings of a lord"}
OF_DOCUMENTS = {
    "one--A.txt": "Leeds", "one--C.txt": "Leeds\u00b4s", "two--A.txt": "john", "two--D.txt": "St. John's church",
    "three--E.txt": "lord of the rings rings", "other--A.txt": "x",
}  # fmt: skip


def score(capsys: pytest.CaptureFixture[str], data: Path, predictions: dict) -> dict:
    path = data.with_name("predictions.json")
    path.write_text(json.dumps(predictions), encoding="utf-8")
    assert main(["score", "triviaqa", "--data", str(data), "--predictions", str(path)]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.parametrize(
    ("domain", "verified", "predictions", "exact", "f1", "examples"),
    [
        ("Wikipedia", False, OF_QUESTIONS, 100 / 3, 93.33333333333333, 3),
        ("Wikipedia", True, OF_QUESTIONS, 50.0, 90.0, 2),
        ("Web", False, OF_DOCUMENTS, 200 / 7, 57.48299319727891, 7),
        ("Web", True, OF_DOCUMENTS, 200 / 3, 66.66666666666667, 3),
    ],
)
def test_metrics_are_those_of_the_official_script(
    tmp_path: Path, capsys, domain: str, verified: bool, predictions: dict, exact: float, f1: float, examples: int
) -> None:
    data = write_release(tmp_path, *ENTRIES, domain=domain, split="dev", VerifiedEval=verified)
    summary = score(capsys, data, predictions)
    assert (summary["metrics"]["exact"], summary["metrics"]["f1"], summary["examples"]) == (exact, f1, examples)
    missing = {("Web", False): 2, ("Web", True): 1}
    assert summary["metrics"].get("missing") == missing.get((domain, verified))


def best(*pairs: tuple[str, float]) -> list[dict]:
    return [{"text": text, "probability": probability, "answer_start": 0} for text, probability in pairs]


def test_n_best_answers_of_documents_are_added_up(tmp_path: Path, capsys) -> None:
    candidates = {
        "one--A.txt": best(("", 0.7), ("Leeds", 0.2), ("York", 0.1)),
        "one--B.txt": best(("York", 0.3), ("Leeds", 0.25)),
        "one--C.txt": best(("the leeds", 0.15)),
        "two--A.txt": best(("", 1.0)),
    }
    # Leeds has 0.2 + 0.15, York 0.3.
    data = write_release(tmp_path, ENTRIES[0], domain="Wikipedia", split="dev")
    assert score(capsys, data, candidates)["metrics"] == {"exact": 100.0, "f1": 100.0}
    candidates["one--B.txt"] = best(("York", 0.36))
    assert score(capsys, data, candidates)["metrics"]["exact"] == 0.0
    data = write_release(tmp_path, *ENTRIES[:2], domain="Web", split="dev")
    assert score(capsys, data, candidates)["metrics"] == {"exact": 40.0, "f1": 40.0, "missing": 1}


@pytest.mark.parametrize(
    ("predictions", "gold", "message"),
    [
        ({"one--A.txt": "x"}, answer("x"), "none of the 1 ids"),
        ({"one": "x"}, answer(), "must have `NormalizedAliases` to be scored"),
        ({"one": [{"text": "x"}]}, answer("x"), "id one: must be a string, or a list"),
        ({"one": 3}, answer("x"), "Received: 3"),
    ],
)
def test_invalid_predictions_are_refused(tmp_path: Path, capsys, predictions: dict, gold: dict, message: str) -> None:
    data = write_release(tmp_path, entry("one", gold, pages("A.txt")), domain="Wikipedia", split="dev")
    path = tmp_path / "predictions.json"
    path.write_text(json.dumps(predictions))
    assert main(["score", "triviaqa", "--data", str(data), "--predictions", str(path)]) == 1
    assert message in capsys.readouterr().err

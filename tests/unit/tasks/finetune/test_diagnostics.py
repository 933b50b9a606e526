"""Diagnostics of collapsed predictions, and input errors that are raised or listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_tf.config import BertConfig, TrainingConfig
from bert_tf.reports.tasks.scored import (
    Scored,
    ScoredLabel,
    ScoredLabels,
    ScoredNumber,
    ScoredNumbers,
    ScoredSpans,
    Span,
)
from bert_tf.tasks.finetune.diagnostics import detect_chance, detect_collapse, next_step
from bert_tf.tasks.input_errors import InputErrors

SPAN = (Span(0, 1, ""),)


def labels(gold: str, *shares: float) -> ScoredLabels:
    rows = [ScoredLabel("f: line 2", (), label, (share, 1 - share)) for label, share in zip(gold, shares, strict=True)]
    return ScoredLabels(("a", "b"), rows)


def numbers(*pairs: tuple[float, float]) -> ScoredNumbers:
    return ScoredNumbers([ScoredNumber("f: line 2", (), gold, predicted) for gold, predicted in pairs])


def spans(heading: str, *pairs: tuple[tuple, tuple]) -> list[ScoredSpans]:
    return [ScoredSpans("id", heading, "text", gold, predicted, 0.0) for gold, predicted in pairs]


@pytest.mark.parametrize(
    ("scored", "remark"),
    [
        (labels("ab", 0.9, 0.8), "all 2 examples were given the label 'a'"),
        (labels("ab", 0.9, 0.2), ""),
        (labels("aa", 0.9, 0.8), ""),
        (numbers((0, 2.0), (5, 2.01)), "all 2 examples were given about the same number"),
        (numbers((0, 2.0), (5, 2.5)), ""),
        (spans("", (SPAN, ()), ((), ())), "no span was predicted in 2 texts, but 1 have gold spans"),
        (spans("", (SPAN, SPAN), ((), SPAN)), ""),
        (spans("who?", (SPAN, SPAN), ((), SPAN)), "all 2 questions were answered, but 1 have no answer"),
        (spans("who?", (SPAN, SPAN), (SPAN, SPAN)), ""),
    ],
)
def test_collapse(scored: Scored, remark: str) -> None:
    found = detect_collapse(scored)
    assert remark in found
    assert bool(found) == bool(remark)


def test_invalid_row_is_refused() -> None:
    input_errors = InputErrors()
    with pytest.raises(ValueError, match=r"^f\.tsv: line 3: must be so\. Received: x$"):
        input_errors.add("f.tsv: line 3", "must be so. Received: x")


def test_skipped_rows_are_listed(tmp_path: Path) -> None:
    input_errors = InputErrors(skip=True)
    input_errors.add("f.tsv: line 3", "must be so. Received: ä")
    input_errors.add("f.tsv: line 5", "is empty.")
    assert len(input_errors) == 2
    input_errors.write(tmp_path / "skipped.tsv")
    listed = (tmp_path / "skipped.tsv").read_text("utf-8").splitlines()
    assert listed == ["f.tsv: line 3\tmust be so. Received: ä", "f.tsv: line 5\tis empty."]


@pytest.mark.parametrize(
    ("right", "examples", "is_near"), [(50, 100, True), (59, 100, True), (61, 100, False), (550, 1000, False)]
)
def test_chance_is_two_standard_errors_wide(right: int, examples: int, is_near: bool) -> None:
    gold = "ab" * (examples // 2)
    predicted = [float((label == "a") == (number < right)) for number, label in enumerate(gold)]
    assert detect_chance(labels(gold, *predicted)).startswith("near chance") == is_near
    assert detect_chance(numbers((1.0, 1.0))) == ""


@pytest.mark.parametrize(
    ("size", "settings", "steps", "said", "unsaid"),
    [
        ("tiny", {"learning_rate": 3e-5}, 45, ["training.epochs=16", "training.learning_rate=0.00044"], []),
        ("tiny", {"learning_rate": 6e-4}, 500, ["--restarts"], ["training."]),
        ("base", {"learning_rate": 1e-3}, 500, ["training.learning_rate=3e-05"], ["epochs"]),
    ],
)
def test_advice_names_settings_that_differ(size: str, settings: dict, steps: int, said: list, unsaid: list) -> None:
    advice = next_step(TrainingConfig(**settings), BertConfig.from_size(size, vocabulary_size=100).hidden_dim, steps)
    assert advice.startswith("Next: ")
    assert [word for word in said if word not in advice] == [word for word in unsaid if word in advice] == []

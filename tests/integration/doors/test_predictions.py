"""One preset gives the same answers through the command, Python and the Keras methods, whatever its task.json says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bert_tf
from bert_tf.cli import main
from tests.support import doors
from tests.support.doors import Answer, Case

OF_DOORS = [pytest.param(case, door, id=f"{case.id}-{door}") for case in doors.CASES for door in doors.doors_of(case)]


@pytest.mark.parametrize(("case", "door"), OF_DOORS)
def test_doors_give_the_same_answers(
    case: Case,
    door: str,
    preset_of: Callable[[Case], Path],
    expected_of: Callable[[Case], list[Answer]],
    tmp_path: Path,
) -> None:
    expected = expected_of(case)
    if door == "predict_answers":
        expected = [Answer(answer.value[0]) for answer in expected]
    doors.check(doors.doors_of(case)[door](preset_of(case), case, doors.examples_of(case), tmp_path), expected)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in doors.CASES if case.changes])
def test_fields_change_answers(case: Case, expected_of: Callable[[Case], list[Answer]]) -> None:
    """Proves that a door that ignores the field cannot give the same answers."""
    pairs = list(zip(expected_of(case), expected_of(doors.plain_of(case)), strict=False))
    assert any(one.value != other.value or not close(one, other) for one, other in pairs)


def close(one: Answer, other: Answer) -> bool:
    return one.numbers is None or one.numbers == pytest.approx(other.numbers, abs=1e-3)


def test_columns_are_selected_by_name(preset_of: Callable[[Case], Path]) -> None:
    """A dictionary in another order, with a further column, has the answers of its columns by name."""
    case = doors.BY_ID["pair-text_names"]
    premises, hypotheses = doors.columns(doors.PAIRS)
    rows = {"hypothesis": hypotheses, "premise": premises}
    predictor = bert_tf.TaskPredictor(preset_of(case))
    expected = [row["label"] for row in predictor.predict((premises, hypotheses))]
    assert expected != [row["label"] for row in predictor.predict((hypotheses, premises))]
    assert [row["label"] for row in predictor.predict(rows)] == expected
    model = doors.loaded(preset_of(case), case)
    assert model.predict_labels(rows) == expected
    assert model.predict_labels({"label": ["good"] * len(premises), **rows}) == expected


@pytest.mark.parametrize("door", ["python", "command", "predict_labels"])
def test_another_number_of_choices_is_refused(door: str, preset_of: Callable[[Case], Path], tmp_path: Path) -> None:
    case = doors.BY_ID["choice-choices"]
    preset, x = preset_of(case), (["the cat", "we saw"], [["sat", "ran"], ["a dog", "a boat"]])
    if door == "command":
        source = tmp_path / "in.csv"
        source.write_text("sent1,sent2,ending0,ending1\nthe cat,,sat,ran\n")
        arguments = ["--preset", str(preset), "--input", str(source), "--output", str(tmp_path / "out.csv")]
        assert main(["predict", *arguments]) != 0
        return
    ask = bert_tf.TaskPredictor(preset).predict if door == "python" else doors.loaded(preset, case).predict_labels
    with pytest.raises(ValueError, match="choices"):
        ask(x)


@pytest.mark.parametrize(
    ("positions", "task", "texts"),
    [
        pytest.param(40, None, doors.MASKED, id="fill_mask-plain"),
        pytest.param(40, {"max_sequence_length": 12}, doors.MASKED[:3], id="fill_mask-max_sequence_length"),
        pytest.param(200, None, (*doors.MASKED, doors.FAR_MASK), id="fill_mask-positions"),
    ],
)
def test_masks_are_filled_alike(positions: int, task: Any, texts: tuple[str, ...], tmp_path: Path) -> None:
    preset, source = doors.pretrained_preset(tmp_path / "preset", positions, task), tmp_path / "in.txt"
    source.write_text("\n".join([*texts, ""]), encoding="utf-8")
    written = doors.command(preset, source).read_text(encoding="utf-8").splitlines()
    rows = [[[(c["token"], c["score"]) for c in mask] for mask in json.loads(line)["masks"]] for line in written]
    found = bert_tf.BertMaskedLM.from_preset(preset).fill_mask(list(texts), top=5)
    doors.check(dict(enumerate(map(doors.masks_of, found))), [doors.masks_of(row) for row in rows])


@pytest.mark.parametrize("head", ["text", "encoder"])
def test_embeddings_are_those_of_the_encoder(head: str, preset_of: Callable[[Case], Path], tmp_path: Path) -> None:
    is_text = head == "text"
    preset = preset_of(doors.BY_ID["text-plain"]) if is_text else doors.pretrained_preset(tmp_path / "preset", 40)
    texts = [text for text in doors.TEXTS if text.strip()]
    preprocessor = bert_tf.BertTextPreprocessor.from_preset(preset, sequence_length=40)
    encoded = bert_tf.BertBackbone.from_preset(preset)(preprocessor(texts))
    tokens, mask = (np.asarray(part) for part in (encoded["sequence_output"], preprocessor(texts)["padding_mask"]))
    means = [row[: int(count)].mean(axis=0) for row, count in zip(tokens, mask.sum(axis=1), strict=True)]
    np.testing.assert_allclose(bert_tf.embed(texts, preset), means, atol=1e-5)
    pooled = bert_tf.embed(texts, preset, pooling="pooler")
    np.testing.assert_allclose(pooled, np.asarray(encoded["pooled_output"]), atol=1e-5)

"""A preset that passes through a Keras model keeps its task, its information and its answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import pytest

import bert_tf
from tests.support import doors
from tests.support.doors import Answer, Case

PresetOf = Callable[[Case], Path]
ExpectedOf = Callable[[Case], list[Answer]]

# A length that was left out may be written.
EVERY = [pytest.param(case, id=case.id) for case in doors.CASES if case is not doors.NO_LENGTH]
# That task.json stays equal is tested for every field; that answers do, which takes a second, for some of each head.
ANSWERED = [
    pytest.param(doors.BY_ID[name], id=name)
    for name in (
        "text-plain", "text-windows_length_and_column", "text-pooling_mean", "text-labels", "pair-windows",
        "number-plain", "number-all", "entities-labels", "entities-scheme_IOBES", "squad1-max_answer_length",
        "squad2-doc_stride", "squad2-max_query_length_over_half", "squad2-n_best", "squad2-null_threshold",
        "choice-max_sequence_length",
    )
]  # fmt: skip
# One case of each head, and what `fit` may change in task.json.
FITTED = {
    "text-windows_length_and_column": set(),
    "pair-windows": set(),
    "number-all": {"mean", "deviation"},
    "entities-scheme_IOBES": set(),
    "squad1-max_answer_length": set(),
    "squad2-null_threshold": set(),
    "choice-choices": set(),
}


def read(folder: Path, name: str = "task.json") -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


class Restored(NamedTuple):
    """A Keras model before and after a .keras file."""

    before: Any
    after: Any


@pytest.fixture(scope="session")
def restored_of(preset_of: PresetOf, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Restored]:
    """Returns a function from a case to its Keras model, and the one that Keras saved and loaded."""
    root, known = tmp_path_factory.mktemp("keras_files"), {}

    def restored(case: Case) -> Restored:
        if case.id not in known:
            model, path = doors.loaded(preset_of(case), case), root / f"{case.id}.keras"
            model.save(path)
            known[case.id] = Restored(model, keras.saving.load_model(path))
        return known[case.id]

    return restored


@pytest.mark.parametrize("case", EVERY)
def test_a_preset_saved_again_has_the_same_task(case: Case, preset_of: PresetOf, tmp_path: Path) -> None:
    doors.loaded(preset_of(case), case).save_to_preset(tmp_path / "again")
    assert read(tmp_path / "again") == dict(case.task)


@pytest.mark.parametrize("case", ANSWERED)
def test_a_preset_saved_again_gives_the_same_answers(
    case: Case, preset_of: PresetOf, expected_of: ExpectedOf, tmp_path: Path
) -> None:
    doors.loaded(preset_of(case), case).save_to_preset(tmp_path / "again")
    found = doors.python(tmp_path / "again", case, doors.examples_of(case))
    doors.check(dict(enumerate(found)), expected_of(case))


@pytest.mark.parametrize("head", doors.HEADS)
def test_a_preset_saved_again_has_the_same_information(head: str, tmp_path: Path) -> None:
    case = doors.BY_ID[f"{head}-plain"]
    preset = doors.make_preset(case, tmp_path / "preset", lowercase=False)
    doors.new_keras(preset, case).save_to_preset(tmp_path / "again")
    first, again = (read(tmp_path / name, "config.json") for name in ("preset", "again"))
    for name in ("format_version", "model", "lowercase", "vocabulary_sha256"):
        assert again[name] == first[name]
    assert {name: again["info"].get(name) for name in first["info"]} == first["info"]


def test_a_pretrained_preset_saved_again_has_the_same_information(tmp_path: Path) -> None:
    preset = doors.pretrained_preset(tmp_path / "preset", 40)
    bert_tf.BertMaskedLM.from_preset(preset).save_to_preset(tmp_path / "again")
    first, again = (read(tmp_path / name, "config.json") for name in ("preset", "again"))
    assert again["lowercase"] == first["lowercase"]
    assert {name: again["info"].get(name) for name in first["info"]} == first["info"]
    assert not (tmp_path / "again" / "task.json").exists()


@pytest.mark.parametrize("case", EVERY)
def test_a_keras_file_keeps_the_task(case: Case, restored_of: Callable[[Case], Restored], tmp_path: Path) -> None:
    restored_of(case).after.save_to_preset(tmp_path / "again")
    assert read(tmp_path / "again") == dict(case.task)


@pytest.mark.parametrize("case", ANSWERED)
def test_a_keras_file_keeps_the_answers(case: Case, restored_of: Callable[[Case], Restored]) -> None:
    before, after = (doors.keras_answers(model, case, doors.examples_of(case)) for model in restored_of(case))
    doors.check(dict(enumerate(after)), before)


def fit(model: Any, case: Case) -> None:
    """Trains a model of a case for one step on four short examples."""
    texts = ["the cat sat", "a dog ran", "who saw", "a red bird"]
    x, y = {
        "text": (texts, ["good", "bad", "légume", "good"]),
        "pair": ((texts, texts[::-1]), ["good", "bad", "légume", "good"]),
        "number": (texts, [1.0, 2.0, 3.0, 4.0]),
        "entities": ([text.split()[:2] for text in texts], [["O", "B-film"], ["B-place", "I-place"]] * 2),
        "squad1": ((texts, texts), ["cat", "dog", "who", "red bird"]),
        "squad2": ((texts, texts), ["cat", "", "who", ""]),
        "choice": ((texts, [["sat", "ran", "saw"]] * 4), [0, 1, 2, 0]),
    }[case.head]
    model.fit(x, y, batch_size=4, verbose=0)


@pytest.fixture(scope="session")
def fitted_of(preset_of: PresetOf, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], tuple[Any, Path]]:
    """Returns a function from a case to a fine-tuned Keras model, and the preset that it saved."""
    root, known = tmp_path_factory.mktemp("fitted"), {}

    def fitted(case: Case) -> tuple[Any, Path]:
        if case.id not in known:
            model = doors.new_keras(preset_of(case), case)
            fit(model, case)
            model.save_to_preset(root / case.id)
            known[case.id] = model, root / case.id
        return known[case.id]

    return fitted


@pytest.mark.parametrize("name", FITTED)
def test_fit_keeps_the_task(name: str, fitted_of: Callable[[Case], tuple[Any, Path]]) -> None:
    case, may_change = doors.BY_ID[name], FITTED[name]
    found = {field: value for field, value in read(fitted_of(case)[1]).items() if field not in may_change}
    assert found == {field: value for field, value in case.task.items() if field not in may_change}


@pytest.mark.parametrize("name", FITTED)
def test_a_fitted_model_answers_as_its_preset(name: str, fitted_of: Callable[[Case], tuple[Any, Path]]) -> None:
    case = doors.BY_ID[name]
    model, preset = fitted_of(case)
    expected = doors.python(preset, case, doors.examples_of(case))
    if case.head.startswith("squad"):
        expected = [Answer(answer.value[0]) for answer in expected]
    doors.check(dict(enumerate(doors.keras_answers(model, case, doors.examples_of(case)))), expected)

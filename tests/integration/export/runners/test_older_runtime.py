"""All kinds of exports in TensorFlow 2.18 for Java, with the operations of tensorflow-text 2.18."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bert_tf.data.schema import TOKEN_IDS
from bert_tf.export import saved_model
from bert_tf.export.kinds.base import IDS_SIGNATURE
from bert_tf.export.metadata import signature_defs
from bert_tf.export.precision import PRECISIONS
from bert_tf.export.verify.comparison import RECORDING, Case, Tensors, compare_outputs, read_recording
from bert_tf.export.verify.tolerances import FLOAT32
from tests.support.export.older_runtime.java_program import Answers, Request, answers, needs_older_runtime
from tests.support.export.presets import KINDS, MAX_LENGTH

pytestmark = [pytest.mark.runners, needs_older_runtime]
MODELS = [(kind, FLOAT32) for kind in KINDS] + [("classifier", name) for name in PRECISIONS if name != FLOAT32]
# Error messages by the shapes of `token_ids` and of the other inputs of `ids`.
INVALID = {
    ((3,), (1, 3)): r"Shape of tensor \w*token_ids\w* \[3\] is not compatible with expected shape \[\?,\?\]",
    ((2, MAX_LENGTH + 1),) * 2: rf"the second dimension of token_ids must lie in 1\.\.{MAX_LENGTH}",
}


@pytest.fixture(scope="module")
def folders(
    exported: Callable[[str], Path], presets: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Path]:
    """Version folders by kind and precision."""
    root, found = tmp_path_factory.mktemp("precisions"), {}
    for kind, precision in MODELS:
        if precision == FLOAT32:
            found[kind, precision] = exported(kind)
            continue
        with pytest.MonkeyPatch.context() as patch:
            # The tests of this module verify it.
            patch.setattr(saved_model, "_verified", lambda _: {})
            found[kind, precision] = saved_model.export_preset(presets[kind], root / precision, precision=precision)
    return found


@pytest.fixture(scope="module")
def recorded(folders: dict[tuple[str, str], Path]) -> dict[tuple[str, str], list[Case]]:
    return {model: read_recording(folder / RECORDING)[0] for model, folder in folders.items()}


@pytest.fixture(scope="module")
def answered(
    folders: dict[tuple[str, str], Path],
    recorded: dict[tuple[str, str], list[Case]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Answers:
    """Answers of one Java process: for each of `MODELS` those of invalid requests and then those of recorded cases."""
    requests = [
        (folders[model], [*invalid_requests(recorded[model]), *(Request(*case[:2]) for case in recorded[model])])
        for model in MODELS
    ]
    return answers(requests, tmp_path_factory.mktemp("java"))


def invalid_requests(cases: list[Case]) -> list[Request]:
    names = next(case.inputs for case in cases if case.signature == IDS_SIGNATURE)
    return [
        Request(IDS_SIGNATURE, {name: np.ones(of_ids if name == TOKEN_IDS else others, np.int32) for name in names})
        for of_ids, others in INVALID
    ]


def test_the_runtime_is_older(answered: Answers) -> None:
    assert answered.tensorflow == "2.18.0"


@pytest.mark.parametrize("model", MODELS, ids="-".join)
def test_outputs_equal_the_recorded_ones(
    model: tuple[str, str],
    folders: dict[tuple[str, str], Path],
    recorded: dict[tuple[str, str], list[Case]],
    answered: Answers,
) -> None:
    cases = recorded[model]
    assert {case.signature for case in cases} == {
        name for name in signature_defs(folders[model]) if not name.startswith("__")
    }
    found = answered.of_models[MODELS.index(model)][len(INVALID) :]
    assert [faults(outputs, case) for outputs, case in zip(found, cases, strict=True)] == [[]] * len(cases)


def faults(outputs: Tensors | str, case: Case) -> list[str]:
    """Returns the faults of the answer to a recorded case."""
    if isinstance(outputs, str):
        return [f"{case.signature}: {outputs}"]
    return [f"{case.signature} {name}: {fault}" for name, _, fault in compare_outputs(outputs, case) if fault]


@pytest.mark.parametrize("model", MODELS, ids="-".join)
def test_invalid_ids_are_errors(model: tuple[str, str], answered: Answers) -> None:
    found = answered.of_models[MODELS.index(model)]
    for message, pattern in zip(found, INVALID.values(), strict=False):
        assert isinstance(message, str), "outputs"
        assert re.match(rf"TFInvalidArgumentException: .*{pattern}", message)

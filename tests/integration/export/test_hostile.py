from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.export import hostile_requests
from tests.support.export.presets import KINDS, MAX_LENGTH, VOCABULARY

CASES = {f"{case.kind}/{case.signature}/{case.name}": case for case in hostile_requests.cases()}


@pytest.fixture(scope="module")
def answers(exported: Callable[[str], Path]) -> dict[str, Any]:
    command = [sys.executable, hostile_requests.__file__, *(f"{kind}={exported(kind)}" for kind in KINDS)]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, f"exit status {result.returncode}: {result.stderr[-3000:]}"
    return json.loads(result.stdout.splitlines()[-1])


def test_the_cases_know_the_presets() -> None:
    assert (MAX_LENGTH, len(VOCABULARY)) == (hostile_requests.MAX_LENGTH, hostile_requests.VOCABULARY_SIZE)
    assert len(CASES) == len(hostile_requests.cases())


@pytest.mark.slow
@pytest.mark.parametrize("route", ["signature", "session"])
@pytest.mark.parametrize("key", CASES)
def test_hostile_tensors_get_an_error_that_names_them_or_an_answer(
    key: str, route: str, answers: dict[str, Any]
) -> None:
    case, answer = CASES[key], answers[f"{route}/{key}"]
    if case.error is None:
        assert set(answer) == {"shapes"}, answer
        assert set(answer["shapes"]) == set(case.shapes or {})
        for name, shape in (case.shapes or {}).items():
            # -1 is any size.
            found = answer["shapes"][name]
            assert len(found) == len(shape)
            assert all(wanted in (-1, size) for wanted, size in zip(shape, found, strict=True)), (name, found)
    else:
        assert answer.get("error") == "InvalidArgumentError", answer
        assert case.error in answer["message"]

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


def answered(exported: Callable[[str], Path]) -> dict[str, Any]:
    """Returns the answers to all cases, over both routes, of a process that may crash."""
    command = [sys.executable, hostile_requests.__file__, *(f"{kind}={exported(kind)}" for kind in KINDS)]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, f"exit status {result.returncode}: {result.stderr[-3000:]}"
    return json.loads(result.stdout.splitlines()[-1])


def is_expected(answer: dict[str, Any], case: hostile_requests.Case) -> bool:
    """Returns True for the error of a case, or for outputs with its shapes; -1 is any size."""
    if case.error is not None:
        return answer.get("error") == "InvalidArgumentError" and case.error in answer["message"]
    wanted = case.shapes or {}
    return (
        set(answer) == {"shapes"}
        and set(answer["shapes"]) == set(wanted)
        and all(
            len(shape) == len(wanted[name])
            and all(size in (-1, found) for size, found in zip(wanted[name], shape, strict=True))
            for name, shape in answer["shapes"].items()
        )
    )


def test_hostile_cases_match_the_presets() -> None:
    assert (MAX_LENGTH, len(VOCABULARY)) == (hostile_requests.MAX_LENGTH, hostile_requests.VOCABULARY_SIZE)
    assert len(CASES) == len(hostile_requests.cases())


@pytest.mark.slow
def test_hostile_tensors_are_answered_or_named_in_an_error(exported: Callable[[str], Path]) -> None:
    answers = answered(exported)
    assert len(answers) == 2 * len(CASES)
    unexpected = {
        f"{route}/{key}": answers[f"{route}/{key}"]
        for route in ("signature", "session")
        for key, case in CASES.items()
        if not is_expected(answers[f"{route}/{key}"], case)
    }
    assert not unexpected

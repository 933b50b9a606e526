"""Two minutes of valid and hostile requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.soak import run


@pytest.mark.slow
def test_hostile_requests_change_no_answer(exported: Callable[[str], Path]) -> None:
    tally = run(exported("classifier").parent, hostile=2000, seconds=120, seed=37)
    assert tally.answered and not tally.wrong and not tally.bad_form, (tally.wrong[:5], tally.bad_form[:5])
    kinds = {outcome.partition(":")[0] for outcome in tally.outcomes}
    assert kinds >= {
        "copied context",
        "empty members",
        "huge warm-up",
        "deep card",
        "string content",
        "no message",
        "reset streams",
    }

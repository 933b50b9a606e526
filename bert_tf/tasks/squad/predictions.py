"""Files of answers for SQuAD's official scripts, and the additional files of run_squad.py."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from bert_tf.config.files import staged_file
from bert_tf.tasks.squad.answers import Candidate
from bert_tf.tasks.squad.files import read_json_object


class JsonObjectWriter(AbstractContextManager):
    """Writes one JSON object with one name on each line, atomically and without holding it in memory."""

    def __init__(self, path: Path) -> None:
        self._staged = staged_file(path)
        self._before = b"{\n"

    def __enter__(self) -> JsonObjectWriter:
        self._file = self._staged.__enter__()
        return self

    def add(self, name: str, value: Any) -> None:
        """Writes a name, which must be unique, and its value."""
        text = f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
        # A lone surrogate has no UTF-8; it is written as an escape, which is valid JSON.
        self._file.write(self._before + text.encode("utf-8", "backslashreplace"))
        self._before = b",\n"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if kind is None:
            self._file.write(b"{}\n" if self._before == b"{\n" else b"\n}\n")
        return self._staged.__exit__(kind, error, trace)


def candidates_as_json(candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Converts candidates to JSON values: text, probability, offset in the context, and logits if there are any."""
    return [
        {
            "text": candidate.text,
            "probability": candidate.probability,
            "answer_start": candidate.start,
            **({} if candidate.start_logit is None else _logits(candidate)),
        }
        for candidate in candidates
    ]


def _logits(candidate: Candidate) -> dict[str, Any]:
    return {"start_logit": candidate.start_logit, "end_logit": candidate.end_logit}


def read_null_odds(path: Path, ids: Sequence[str]) -> dict[str, float]:
    """Reads null odds by id, in the order of their file.

    Raises ValueError, with file and id, if a value is not a number, or one of `ids` has no value.
    """
    odds = read_json_object(path)
    for name, value in [(name, odds.get(name)) for name in ids] + list(odds.items()):
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(f"{path}: id {name}: the null odds must be a number. Received: {value!r}")
    return odds

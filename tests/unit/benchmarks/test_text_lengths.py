"""Tests the table of a server's memory by lengths of texts."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import text_lengths


def test_memory_is_reported_after_each_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[str] = []

    @contextlib.contextmanager
    def serving(model: Path) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(grpc=1, memory=lambda: (100 + len(sent)) * 2**20)

    client = SimpleNamespace(predict=sent.extend)
    monkeypatch.setattr(text_lengths, "serving", serving)
    monkeypatch.setattr(text_lengths, "connect", lambda url: client)
    monkeypatch.setattr(sys, "argv", ["text_lengths", "--model", "m", "--texts", "40", "--output", str(tmp_path)])
    text_lengths.main()
    assert sorted(sent) == sorted(text_lengths.texts(40, 1, 128))
    (path,) = tmp_path.iterdir()
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [(row["texts"], row["mib"]) for row in rows] == [(4 * part, 100.0 + 4 * part) for part in range(11)]
    assert "| 40 | 140 |" in capsys.readouterr().out


def test_texts_cover_all_lengths() -> None:
    lengths = {len(text.split()) for text in text_lengths.texts(2000, 1, 16)}
    assert lengths == set(range(1, 17))


def test_too_few_texts_are_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["text_lengths", "--model", "m", "--texts", "9"])
    with pytest.raises(SystemExit):
        text_lengths.main()
    assert "--texts must be 10 and --longest 1 at least" in capsys.readouterr().err

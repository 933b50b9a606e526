"""An empty bucket with faults, and an empty cache, for every test of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_tf.storage import stores
from tests.support.storage.faulty import create_bucket


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache directory."""
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def bucket(cache: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the bucket; attempts follow each other at once."""
    monkeypatch.setattr(stores, "DELAYS", (0.0, 0.0))
    return create_bucket("bucket")

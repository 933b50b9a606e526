"""Versions are tried in another process."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bert_tf.serving.models import trial
from bert_tf.serving.models.trial import try_version


def test_a_good_version_passes_and_a_damaged_one_is_named(exported: Callable[[str], Path], tmp_path: Path) -> None:
    try_version(exported("classifier"), trusted=False)
    folder = tmp_path / "1"
    shutil.copytree(exported("classifier"), folder)
    (folder / "saved_model.pb").write_bytes(b"damaged")
    with pytest.raises(ValueError, match="1/saved_model.pb: changed since the export"):
        try_version(folder, trusted=False)


def test_a_version_that_crashes_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crash = tmp_path / "python"
    crash.write_text(f"#!{sys.executable}\nimport os\nos.kill(os.getpid(), {signal.SIGSEGV.value})\n")
    crash.chmod(0o755)
    monkeypatch.setattr(trial.sys, "executable", str(crash))
    with pytest.raises(ValueError, match="2: cannot be loaded: it ended a process that tried with SIGSEGV"):
        try_version(tmp_path / "2", trusted=False)

"""One preset and one exported model of each kind, shared by all tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from export_presets import KINDS, make_preset

from bert_tf.export import saved_model, verify


def verified_here(staging: Path) -> dict[str, Any]:
    """What `saved_model._verified` does, without the seconds that a fresh process takes to import TensorFlow."""
    verdict = verify.verify(staging, staging / verify.RECORDING)._asdict()
    if failures := verdict.pop("failures"):
        raise RuntimeError("\n".join(failures))
    return verdict


@pytest.fixture(scope="session")
def presets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Preset directories by kind."""
    root = tmp_path_factory.mktemp("presets")
    return {kind: make_preset(kind, root / kind) for kind in KINDS}


@pytest.fixture(scope="session")
def exported(presets: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function from kind to the folder of its version 1, exported on first use.

    The pre-trained model is verified in a fresh process, as always; the others here.
    """
    root = tmp_path_factory.mktemp("saved_models")
    done: dict[str, Path] = {}

    def folder(kind: str) -> Path:
        if kind not in done:
            with pytest.MonkeyPatch.context() as patch:
                if kind != "pretrainer":
                    patch.setattr(saved_model, "_verified", verified_here)
                done[kind] = saved_model.export_preset(presets[kind], root / kind)
        return done[kind]

    return folder


@pytest.fixture
def quick_verification(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets exports verify in this process."""
    monkeypatch.setattr(saved_model, "_verified", verified_here)
    yield

"""Fixtures with one preset and one exported model of each kind, shared by all tests of this folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette

from bert_tf.export import saved_model
from bert_tf.export.verify import check as verify
from tests.support.export.presets import KINDS, make_preset


def verified_here(staging: Path) -> dict[str, Any]:
    """Does the same as `saved_model._verified` in this process, without the seconds for importing TensorFlow again."""
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
    """Returns a function from kind to the folder of its version 1, which one test process exports on first use.

    The pre-trained model is verified in a new process, as always, and the others in this process.
    """
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "saved_models"
    root.mkdir(exist_ok=True)

    def folder(kind: str) -> Path:
        with (root / f".{kind}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (root / kind / "1").exists():
                with pytest.MonkeyPatch.context() as patch:
                    if kind != "pretrainer":
                        patch.setattr(saved_model, "_verified", verified_here)
                    saved_model.export_preset(presets[kind], root / kind)
        return root / kind / "1"

    return folder


@contextlib.contextmanager
def _listening(app: Starlette, **options: Any) -> Iterator[str]:
    config = uvicorn.Config(app, port=0, log_config=None, **options)
    server, bound = uvicorn.Server(config), config.bind_socket()
    # From here on, requests wait until the server accepts them.
    bound.listen()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="session")
def listening() -> Callable[..., contextlib.AbstractContextManager[str]]:
    """Returns a function that serves an application during a block, and yields its address."""
    return _listening


@pytest.fixture
def quick_verification(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets exports be verified in this process."""
    monkeypatch.setattr(saved_model, "_verified", verified_here)
    yield

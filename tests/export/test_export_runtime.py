"""A served model needs TensorFlow and tensorflow-text's operations, and leaves the rest to who asks for it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bert_tf.export import runtime

SERVED = """
import sys
from pathlib import Path
import numpy as np
from bert_tf.export.serving.batching import ONE_BY_ONE
from bert_tf.export.serving.loaded_version import LoadedVersion
version = LoadedVersion(Path(sys.argv[1]), ONE_BY_ONE)
answer = version.answer("serving_default", {"text": np.array([b"the cat sat"], object)})
assert answer["label"].shape == (1,), answer
assert not {"keras", "jax", "sklearn", "tensorflow_text"} & sys.modules.keys()
import keras, tensorflow as tf, tensorflow_text
assert tf.keras.layers.Dense is keras.layers.Dense
assert tensorflow_text.WhitespaceTokenizer().tokenize(["a b"]).to_list() == [[b"a", b"b"]]
"""


def served(folder: Path, chosen: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")} | chosen
    command = [sys.executable, "-c", SERVED, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_version_is_served_without_keras_which_can_be_imported_afterwards(exported: Callable[[str], Path]) -> None:
    done = served(exported("classifier"), {})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("chosen", "used"), [({}, True), ({"TF_ENABLE_ONEDNN_OPTS": "0"}, False)])
def test_onednn_computes_unless_the_environment_decides_otherwise(
    exported: Callable[[str], Path], chosen: dict[str, str], used: bool
) -> None:
    done = served(exported("classifier"), {"TF_CPP_MIN_LOG_LEVEL": "0"} | chosen)
    assert done.returncode == 0, done.stderr
    assert ("oneDNN custom operations are on" in done.stderr) == used


def test_only_modules_not_yet_imported_are_hidden_and_only_for_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_NOT_NEEDED", ("this", "json"))
    monkeypatch.delitem(sys.modules, "this", raising=False)
    with runtime.without_keras():
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("this")
        assert importlib.import_module("json") is sys.modules["json"]
    assert "this" not in sys.modules


def test_tensorflow_text_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="tensorflow_text is not installed"):
        runtime.register_text_operations()

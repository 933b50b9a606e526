"""All kinds of exports, loaded and run by TensorFlow's C API without its Python package, as in TF Serving."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bert_tf.export.metadata import signature_defs
from tests.support.export import session_run
from tests.support.export.presets import KINDS


def tensor_names(folder: Path) -> dict[str, dict[str, dict[str, str]]]:
    return {
        signature: {
            side: {name: info["name"] for name, info in definition[side].items()} for side in ("inputs", "outputs")
        }
        for signature, definition in signature_defs(folder).items()
        if not signature.startswith("__")
    }


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "classifier" else pytest.mark.slow) for kind in KINDS]
)
def test_c_api_session_reproduces_the_recorded_outputs(
    kind: str, exported: Callable[[str], Path], tmp_path: Path
) -> None:
    folder, names = exported(kind), tmp_path / "names.json"
    of_signature = tensor_names(folder)
    names.write_text(json.dumps(of_signature), encoding="utf-8")
    command = [sys.executable, session_run.__file__, str(folder), str(names)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    # A batch and an empty batch for each signature.
    assert json.loads(result.stdout) == {"signatures": sorted(of_signature), "cases": 2 * len(of_signature)}

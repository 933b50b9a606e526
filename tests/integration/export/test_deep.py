"""Deep models with logits as large as trained ones: tolerances allow only rounding errors.

Two processes record the outputs of the same models, one with oneDNN and one without.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bert_tf.export.verify.comparison import Case, compare_outputs, read_recording
from tests.support.export import deep_recordings
from tests.support.export.deep_recordings import BROKEN, MODELS
from tests.support.paths import REPOSITORY

pytestmark = pytest.mark.slow

ALL = [(*model, precision) for model, precisions in MODELS.items() for precision in precisions]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Recordings without oneDNN and with it."""
    folders = [tmp_path_factory.mktemp(f"onednn{switch}-") for switch in "01"]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", deep_recordings.__name__, str(folder)],
            cwd=REPOSITORY,
            env=os.environ | {"TF_ENABLE_ONEDNN_OPTS": switch, "TF_CPP_MIN_LOG_LEVEL": "3"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for switch, folder in zip("01", folders, strict=True)
    ]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors[-2000:]
    return folders


def recorded(folder: Path, name: str) -> list[Case]:
    return read_recording(folder / f"{name}.npz")[0]


def faults(found: list[Case], expected: list[Case]) -> list[str]:
    return [
        f"{case.signature} {output}: {fault}"
        for answer, case in zip(found, expected, strict=True)
        for output, _, fault in compare_outputs(answer.outputs, case)
        if fault
    ]


@pytest.mark.parametrize(("kind", "layers", "precision"), ALL)
def test_outputs_are_equal_with_and_without_onednn(kind: str, layers: int, precision: str, folders: list[Path]) -> None:
    without, with_onednn = (recorded(folder, f"{kind}-{layers}-{precision}") for folder in folders)
    assert faults(with_onednn, without) == []
    assert faults(without, with_onednn) == []
    # If the two processes had identical results, the test would be meaningless.
    different = [
        np.abs(one.outputs[name] - other.outputs[name]).max(initial=0)
        for one, other in zip(without, with_onednn, strict=True)
        for name in one.outputs
        if one.outputs[name].dtype == np.float32 and one.outputs[name].shape == other.outputs[name].shape
    ]
    assert max(different) > 0


@pytest.mark.parametrize(("kind", "layers"), list(MODELS))
def test_arranged_layers_equal_trained_ones(kind: str, layers: int, folders: list[Path]) -> None:
    for folder in folders:
        name = f"{kind}-{layers}-float32"
        assert faults(recorded(folder, name), recorded(folder, f"{name}-trained")) == []


@pytest.mark.parametrize(("kind", "layers", "precision"), BROKEN)
def test_an_export_with_a_broken_layer_is_refused(kind: str, layers: int, precision: str, folders: list[Path]) -> None:
    name = f"{kind}-{layers}-{precision}"
    for folder in folders:
        assert faults(recorded(folder, f"{name}-broken"), recorded(folder, name)) != []


@pytest.mark.parametrize(("kind", "layers"), list(MODELS))
def test_logits_are_as_large_as_trained_ones_and_predictions_are_compared(
    kind: str, layers: int, folders: list[Path]
) -> None:
    cases = recorded(folders[0], f"{kind}-{layers}-float32")
    ids = next(case for case in cases if case.signature == "ids")
    if kind not in ("backbone", "regression"):
        assert max(np.abs(values).max() for name, values in ids.outputs.items() if "logits" in name) > 10
    (answer,) = (
        case for case in cases if case.signature == "serving_default" and len(next(iter(case.outputs.values())))
    )
    for name, values in answer.outputs.items():
        if values.dtype == object:
            compared = np.broadcast_to(answer.tolerances[name], values.shape) == 0
            assert compared.mean() > 0.5
    # Rows of several lengths: all except the longest are padded.
    assert (ids.inputs["padding_mask"].sum(axis=1) < ids.inputs["padding_mask"].shape[1]).sum() >= 3

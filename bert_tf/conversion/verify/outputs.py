"""Computes the outputs of a checkpoint, with the program of its format if that is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.tensors import ConversionError
from bert_tf.conversion.verify.reference import reference_outputs

_PROGRAMS = Path(__file__).parent / "programs"
# Packages that the program of each format imports.
_PACKAGES = {
    "huggingface": ("torch", "transformers"),
    "keras_hub": ("keras_hub",),
    "model_garden": ("official",),
}
REFERENCE = "numpy"


@dataclass(frozen=True)
class Peers:
    """Python interpreters by format, by default this one, and a checkout of google-research/bert, if there is one."""

    python: Mapping[str, str | Path]
    original: str | Path | None = None


@dataclass(frozen=True)
class Answers:
    """Outputs by the names of `reference.reference_outputs`, and the program that computed them."""

    by: str
    outputs: Mapping[str, np.ndarray]


def answers(checkpoint: Checkpoint, inputs: Mapping[str, np.ndarray], peers: Peers) -> Answers:
    """Computes the outputs of a checkpoint for the inputs of `probe_inputs.fixed_inputs`.

    A preset is loaded as a user would load it. Any other format is opened by its own program in a separate process; if
    the program cannot open it, ConversionError is raised. If that program is not installed, `reference_outputs`
    computes the outputs from the tensors.
    """
    if checkpoint.form == "preset":
        return Answers("bert_tf", _preset_outputs(checkpoint.path, inputs))
    command = peer_command(checkpoint.form, peers)
    if command is None:
        return Answers(REFERENCE, reference_outputs(checkpoint, inputs))
    return _run_program(command, checkpoint, inputs)


def peer_command(form: str, peers: Peers) -> list[str] | None:
    """Returns the command that runs the program of `form`; None if it is not installed."""
    python = peers.python.get(form, Path(sys.executable))
    if form == "google_tf1":
        return [str(python), str(_PROGRAMS / "google_tf1.py"), str(peers.original)] if peers.original else None
    program = _PROGRAMS / f"{form}.py"
    if form in peers.python:
        return [str(python), str(program)]
    imports = "; ".join(f"assert importlib.util.find_spec({name!r})" for name in _PACKAGES[form])
    process = subprocess.run([str(python), "-c", f"import importlib.util; {imports}"], capture_output=True, check=False)
    return [str(python), str(program)] if process.returncode == 0 else None


def _run_program(command: list[str], checkpoint: Checkpoint, inputs: Mapping[str, np.ndarray]) -> Answers:
    with tempfile.TemporaryDirectory() as folder:
        inputs_path, outputs_path = Path(folder) / "inputs.npz", Path(folder) / "outputs.npz"
        np.savez(inputs_path, **dict(inputs))  # type: ignore[arg-type]
        process = subprocess.run(
            [*command, str(checkpoint.path.absolute()), str(inputs_path), str(outputs_path)],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        if process.returncode != 0:
            reasons = "\n".join(process.stderr.strip().splitlines()[-20:])
            raise ConversionError(f"{checkpoint.path}: the program of its format cannot open it:\n{reasons}")
        with np.load(outputs_path) as file:
            outputs = {name: file[name] for name in file.files}
    return Answers(json.loads(process.stdout.splitlines()[-1])["by"], outputs)


def _preset_outputs(path: Path, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    from bert_tf.models import load_preset

    model = load_preset(path, dtype="float32").model
    backbone = getattr(model, "backbone", model)
    encoder = {name: inputs[name] for name in backbone.input}
    outputs = {name: np.asarray(value) for name, value in backbone(encoder, training=False).items()}
    if model is backbone:
        return outputs
    choices = len(next(iter(model.input.values())).shape) == 3
    model_inputs = {name: inputs[name][:, np.newaxis] if choices else inputs[name] for name in model.input}
    logits = model(model_inputs, training=False)
    if not isinstance(logits, dict):
        return outputs | {"task_logits": np.asarray(logits)}
    logits = {name: np.asarray(value) for name, value in logits.items()}
    if "start_logits" in logits:
        logits = {"task_logits": np.stack([logits["start_logits"], logits["end_logits"]], axis=-1)}
    return outputs | logits

"""What a checkpoint answers to the fixed inputs, by the program that its form belongs to where that is at hand."""

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
# What a peer needs to be able to import.
_PACKAGES = {
    "huggingface": ("torch", "transformers"),
    "keras_hub": ("keras_hub",),
    "model_garden": ("official",),
}
REFERENCE = "numpy"


@dataclass(frozen=True)
class Peers:
    """Where peers are found.

    Args:
        python: interpreters by the form they serve; this one where none is given.
        original: a checkout of the original's code, google-research/bert; None where there is none.
    """

    python: Mapping[str, str | Path]
    original: str | Path | None = None


@dataclass(frozen=True)
class Answers:
    """Outputs by name as `reference.reference_outputs` names them, and the program that computed them."""

    by: str
    outputs: Mapping[str, np.ndarray]


def answers(checkpoint: Checkpoint, inputs: Mapping[str, np.ndarray], peers: Peers) -> Answers:
    """Computes what a checkpoint answers.

    A preset is loaded as a user would; another form is opened by its own program, in a process of its own, where that
    is installed; otherwise its tensors, read by the rules of its form, go through `reference_outputs`.

    Raises:
        ConversionError: when the program of the form does not open the checkpoint.
    """
    if checkpoint.form == "preset":
        return Answers("bert_tf", _preset_outputs(checkpoint.path, inputs))
    command = peer_command(checkpoint.form, peers)
    if command is None:
        return Answers(REFERENCE, reference_outputs(checkpoint, inputs))
    return _asked(command, checkpoint, inputs)


def peer_command(form: str, peers: Peers) -> list[str] | None:
    """Returns the command of the program that `form` belongs to, None where it is not installed."""
    python = peers.python.get(form, Path(sys.executable))
    if form == "google_tf1":
        return [str(python), str(_PROGRAMS / "google_tf1.py"), str(peers.original)] if peers.original else None
    program = _PROGRAMS / f"{form}.py"
    if form in peers.python:
        return [str(python), str(program)]
    found = "; ".join(f"assert importlib.util.find_spec({name!r})" for name in _PACKAGES[form])
    installed = subprocess.run([str(python), "-c", f"import importlib.util; {found}"], capture_output=True, check=False)
    return [str(python), str(program)] if installed.returncode == 0 else None


def _asked(command: list[str], checkpoint: Checkpoint, inputs: Mapping[str, np.ndarray]) -> Answers:
    with tempfile.TemporaryDirectory() as folder:
        given, taken = Path(folder) / "inputs.npz", Path(folder) / "outputs.npz"
        np.savez(given, **dict(inputs))  # type: ignore[arg-type]
        done = subprocess.run(
            [*command, str(checkpoint.path.absolute()), str(given), str(taken)],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        if done.returncode != 0:
            reasons = "\n".join(done.stderr.strip().splitlines()[-20:])
            raise ConversionError(f"{checkpoint.path}: the program of its form does not open it:\n{reasons}")
        with np.load(taken) as file:
            outputs = {name: file[name] for name in file.files}
    return Answers(json.loads(done.stdout.splitlines()[-1])["by"], outputs)


def _preset_outputs(path: Path, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    from bert_tf.models import load_preset

    model = load_preset(path, dtype="float32").model
    backbone = getattr(model, "backbone", model)
    encoder = {name: inputs[name] for name in backbone.input}
    outputs = {name: np.asarray(value) for name, value in backbone(encoder, training=False).items()}
    if model is backbone:
        return outputs
    choices = len(next(iter(model.input.values())).shape) == 3
    taken = {name: inputs[name][:, np.newaxis] if choices else inputs[name] for name in model.input}
    found = model(taken, training=False)
    if not isinstance(found, dict):
        return outputs | {"task_logits": np.asarray(found)}
    found = {name: np.asarray(value) for name, value in found.items()}
    if "start_logits" in found:
        found = {"task_logits": np.stack([found["start_logits"], found["end_logits"]], axis=-1)}
    return outputs | found

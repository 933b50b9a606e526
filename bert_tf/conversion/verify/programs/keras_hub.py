"""Computes outputs with keras-hub: `python keras_hub.py PRESET INPUTS.npz OUTPUTS.npz`.

Needs keras-hub, but no other module of this project.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

# The name of this file would shadow the package.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

import keras  # noqa: E402
import keras_hub  # noqa: E402
import numpy as np  # noqa: E402

ENCODER = ("token_ids", "segment_ids", "padding_mask")


def opened(directory: Path) -> Any:
    """Returns the model of a preset's task with `from_preset`, or the encoder if there are no weights of a task."""
    task = directory / "task.json"
    name = json.loads(task.read_text("utf-8"))["class_name"] if task.is_file() else None
    if name in ("BertTextClassifier", "BertClassifier"):
        _required(directory)
        return keras_hub.models.BertTextClassifier.from_preset(str(directory), dtype="float32", activation=None)
    if name == "BertMaskedLM":
        _required(directory)
        return keras_hub.models.BertMaskedLM.from_preset(str(directory), dtype="float32")
    return keras_hub.models.BertBackbone.from_preset(str(directory), dtype="float32")


def loaded(directory: Path) -> Any:
    """Returns `opened`. Raises SystemExit with the weights that differ between two loads with different seeds."""
    digests = []
    for seed in (1, 2):
        keras.utils.set_random_seed(seed)
        model = opened(directory)
        digests.append([hashlib.sha256(np.asarray(weight).tobytes()).digest() for weight in model.weights])
    random = [weight.path for weight, one, other in zip(model.weights, *digests, strict=True) if one != other]
    if random:
        raise SystemExit(f"{directory}: these weights were not loaded: {', '.join(random)}")
    return model


def outputs(model: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Computes the outputs of a model in float32."""
    encoder = {name: inputs[name] for name in ENCODER}
    backbone = model if isinstance(model, keras_hub.models.BertBackbone) else model.backbone
    if any(keras.backend.standardize_dtype(weight.dtype) != "float32" for weight in model.weights):
        raise SystemExit("all weights must be float32 after loading")
    arrays = {name: np.asarray(value) for name, value in backbone(encoder, training=False).items()}
    if isinstance(model, keras_hub.models.BertMaskedLM):
        masked = encoder | {"mask_positions": inputs["mask_positions"]}
        return arrays | {"mlm_logits": np.asarray(model(masked, training=False))}
    return arrays if model is backbone else arrays | {"task_logits": np.asarray(model(encoder, training=False))}


def _required(directory: Path) -> None:
    # keras-hub would silently leave the head at its initial values.
    if not (directory / "task.weights.h5").is_file():
        raise SystemExit(f"{directory}: task.weights.h5 is missing")


def main(checkpoint: str, given: str, taken: str) -> None:
    """Reads the inputs, writes the outputs, and prints the program and its version."""
    directory = Path(checkpoint)
    model = loaded(directory)
    if (directory / "tokenizer.json").is_file():
        tokenizer = keras_hub.models.BertTokenizer.from_preset(str(directory))
        rows = (model if isinstance(model, keras_hub.models.BertBackbone) else model.backbone).vocabulary_size
        if tokenizer.vocabulary_size() > rows:
            raise SystemExit(f"{directory}: {tokenizer.vocabulary_size()} word pieces for {rows} embeddings")
    with np.load(given) as file:
        inputs = {name: file[name] for name in file.files}
    np.savez(taken, **outputs(model, inputs))  # type: ignore[arg-type]
    print(json.dumps({"by": f"keras-hub {keras_hub.__version__}"}))


if __name__ == "__main__":
    main(*sys.argv[1:])

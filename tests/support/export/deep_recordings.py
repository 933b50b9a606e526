"""`python deep_recordings.py FOLDER` records outputs of deep models with weights as large as trained ones.

Each kind of preset has 3, 12 or 24 layers. Logits reach 10 and more, and padded rows hold 2 to 24 tokens.
For each model, FOLDER gets the recorded outputs of the exported layers in each precision. In float32 it also gets those
of the layers as trained (`trained`), and of an export with one wrong layer (`broken`).
"""

from __future__ import annotations

if __name__ == "__main__":
    from bert_tf.entry.quiet import import_tensorflow

    import_tensorflow()

import sys
from pathlib import Path

import keras
import numpy as np

from bert_tf.config import BertConfig
from bert_tf.export.kinds.base import DEFAULT_SIGNATURE, IDS_SIGNATURE, Signatures
from bert_tf.export.precision import PRECISIONS, load_in_precision
from bert_tf.export.signatures import signatures_of
from bert_tf.export.verify.comparison import write_recording
from bert_tf.export.verify.golden_outputs import record
from bert_tf.export.verify.tolerances import relative_tolerance
from bert_tf.layers.transformer import TransformerLayer
from bert_tf.models import save_preset
from tests.support.export.presets import KINDS, MAX_LENGTH, TASKS, VOCABULARY, make_model

# Precisions by kind and number of layers. Pairs use the classifier of texts, and int8 uses float32 arithmetic.
MODELS = {
    **{(kind, 3): ("float32", "bfloat16") for kind in KINDS if kind not in ("spans", "backbone")},
    ("pair_classifier", 3): ("float32",),
    ("pretrainer", 3): PRECISIONS,
    ("entities", 3): PRECISIONS,
    ("spans", 12): ("float32", "bfloat16"),
    ("backbone", 24): ("float32", "bfloat16"),
}
# In 24 layers the tolerances are largest, and a wrong layer makes the least difference.
BROKEN = [*(("entities", 3, precision) for precision in PRECISIONS), ("backbone", 24, "bfloat16")]
# Standard deviation of the logits; the largest logits are then well above 10.
LOGIT_SIZE = 30.0


def save_deep_preset(kind: str, layers: int, directory: Path) -> Path:
    """Writes a preset whose hidden states and logits have the sizes of a trained model's."""
    config = BertConfig(
        vocabulary_size=len(VOCABULARY), hidden_dim=64, num_layers=layers, num_heads=4, intermediate_dim=256,
        max_sequence_length=MAX_LENGTH,
    )  # fmt: skip
    model, rng = make_model(kind, config), np.random.default_rng(layers)
    for weight in model.weights:
        shape, name = tuple(weight.shape), weight.path
        if name.endswith("gamma"):
            values = np.exp(rng.normal(size=shape, scale=0.3))
        elif "embedding" in name or name.endswith(("beta", "bias")):
            values = rng.normal(size=shape, scale=0.2)
        else:
            inputs = np.prod(shape[:2]) if "attention_output" in name else shape[0]
            is_head = "layer" not in name and shape[-1] != config.hidden_dim
            values = rng.normal(size=shape, scale=(LOGIT_SIZE if is_head else 1.0) / np.sqrt(inputs))
        weight.assign(values)
    save_preset(model, directory, VOCABULARY, True, TASKS.get(kind), {})
    return directory


def break_a_layer(model: keras.Model) -> None:
    """Sets the output kernel of the middle layer's feed-forward network to zero."""
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, TransformerLayer)]
    kernel = layers[len(layers) // 2].outer.weights[0]
    kernel.assign(keras.ops.zeros_like(kernel))


def distinct(signatures: Signatures) -> Signatures:
    """Returns the signatures without those that return the outputs of others in another form."""
    endpoints = {name: signatures.endpoints[name] for name in (DEFAULT_SIGNATURE, IDS_SIGNATURE)}
    kind = type(signatures)
    signatures.__class__ = type(kind.__name__, (kind,), {"endpoints": endpoints})
    return signatures


def main(folder: Path) -> None:
    for (kind, layers), precisions in MODELS.items():
        preset = save_deep_preset(kind, layers, folder / f"{kind}-{layers}")
        for precision in precisions:
            signatures = distinct(signatures_of(load_in_precision(preset, precision, arranged=True)))
            relative = relative_tolerance(precision, signatures.preset.config)
            name = f"{kind}-{layers}-{precision}"
            write_recording(folder / f"{name}.npz", record(signatures, precision), relative)
            if (kind, layers, precision) in BROKEN:
                break_a_layer(signatures.model)
                write_recording(folder / f"{name}-broken.npz", record(signatures, precision), relative)
            if precision == "float32":
                trained = record(distinct(signatures_of(load_in_precision(preset, precision))), precision)
                write_recording(folder / f"{name}-trained.npz", trained, relative)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

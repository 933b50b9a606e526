"""Signatures of exported models, by kind of preset.

| preset | `serving_default` | further signatures |
|---|---|---|
| BertTextClassifier | text (and text_pair) -> label, probabilities | `classify` |
| BertTextClassifier with one output | text (and text_pair) -> number | `regress` |
| BertSpanPredictor | question, context -> answer, position, the n best | |
| BertTokenClassifier | text -> entities, types, positions | `words` |
| BertMultipleChoice | text, choices -> choice, probabilities | |
| BertPretrainer | text with [MASK] -> tokens, scores | `embed`, `layers` |
| BertBackbone | text -> pooled_output, mean_output | `layers` |

All have `ids`, with the inputs and outputs of the model, and `serve_examples`, which is `serving_default` for
serialized tf.Examples. The modules of `bert_tf.export.kinds` describe the outputs.
"""

from __future__ import annotations

import importlib

import keras

from bert_tf.config import ConfigError
from bert_tf.export.kinds.base import Signatures
from bert_tf.models import MODEL_KINDS, Preset


def signatures_of(preset: Preset, *, max_sequence_length: int | None = None, top_k: int = 5) -> Signatures:
    """Returns the signatures of a preset.

    Rows have at most `max_sequence_length` tokens, by default the task's, else the model's; longer texts are truncated
    or read in windows, longer ids are rejected. `top_k` is the number of candidates for each [MASK], at most the size
    of the vocabulary. Raises ConfigError for a kind of preset without signatures, if a length or `top_k` is out of
    range, if task.json lacks a required field, or if the Keras backend is not TensorFlow.
    """
    if keras.backend.backend() != "tensorflow":
        raise ConfigError(
            f"signatures are TensorFlow graphs and need the Keras backend tensorflow. "
            f"Received: {keras.backend.backend()}. Set KERAS_BACKEND=tensorflow."
        )
    path = MODEL_KINDS[preset.kind].signatures
    if path is None:
        served = ", ".join(sorted(name for name, kind in MODEL_KINDS.items() if kind.signatures))
        raise ConfigError(f"the preset must be one of {served} to have signatures. Received: {preset.kind}")
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name).of(preset, max_sequence_length, top_k)

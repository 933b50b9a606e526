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

from collections.abc import Callable

import keras

from bert_tf.config import ConfigError
from bert_tf.export.kinds.base import Signatures
from bert_tf.export.kinds.choices import ChoiceSignatures
from bert_tf.export.kinds.encoder import EncoderSignatures
from bert_tf.export.kinds.entities import EntitySignatures
from bert_tf.export.kinds.pretrainer import PretrainerSignatures
from bert_tf.export.kinds.spans import SpanSignatures
from bert_tf.export.kinds.texts import TextSignatures
from bert_tf.models import Preset

# Functions from preset, length and number of candidates to signatures, by the kind of the preset.
KINDS: dict[str, Callable[[Preset, int | None, int], Signatures]] = {
    "BertBackbone": EncoderSignatures.of,
    "BertMultipleChoice": ChoiceSignatures.of,
    "BertPretrainer": PretrainerSignatures.of,
    "BertSpanPredictor": SpanSignatures.of,
    "BertTextClassifier": TextSignatures.of,
    "BertTokenClassifier": EntitySignatures.of,
}


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
    if preset.kind not in KINDS:
        raise ConfigError(f"the preset must be one of {', '.join(KINDS)} to have signatures. Received: {preset.kind}")
    return KINDS[preset.kind](preset, max_sequence_length, top_k)

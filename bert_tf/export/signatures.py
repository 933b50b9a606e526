"""What an exported model answers, by kind of preset.

| preset | `serving_default` | further signatures |
|---|---|---|
| BertTextClassifier | text (and text_pair) -> label, probabilities | `classify` |
| BertTextClassifier of one output | text (and text_pair) -> number | `regress` |
| BertSpanPredictor | question, context -> answer, its place, the n best | |
| BertTokenClassifier | text -> entities, types, places | `words` |
| BertMultipleChoice | text, choices -> choice, probabilities | |
| BertPretrainer | text with [MASK] -> tokens, scores | `embed`, `layers` |
| BertBackbone | text -> pooled_output, mean_output | `layers` |

All have `ids`, the model's own inputs and outputs, and `serve_examples`, which answers serialized tf.Examples as
`serving_default` answers texts. The modules of `bert_tf.export.kinds` say what each gives.
"""

from __future__ import annotations

import keras

from bert_tf.config import ConfigError
from bert_tf.export.kinds.base import Signatures
from bert_tf.export.kinds.choices import ChoiceSignatures
from bert_tf.export.kinds.encoder import EncoderSignatures
from bert_tf.export.kinds.entities import EntitySignatures
from bert_tf.export.kinds.pretrainer import PretrainerSignatures
from bert_tf.export.kinds.spans import SpanSignatures
from bert_tf.export.kinds.texts import ClassifierSignatures, RegressionSignatures
from bert_tf.models import Preset

_OF_KIND: dict[str, type[Signatures]] = {
    "BertBackbone": EncoderSignatures,
    "BertMultipleChoice": ChoiceSignatures,
    "BertSpanPredictor": SpanSignatures,
    "BertTextClassifier": ClassifierSignatures,
    "BertTokenClassifier": EntitySignatures,
}


def signatures_of(preset: Preset, *, max_sequence_length: int | None = None, top_k: int = 5) -> Signatures:
    """Returns the signatures of a preset.

    Args:
        preset: model, vocabulary and task.
        max_sequence_length: longest row of tokens; what is longer is cut or read in windows, longer ids are refused.
            The task's or the model's where None.
        top_k: fill-mask: candidates for every [MASK], at most as many as word pieces.

    Raises:
        ConfigError: for a kind of preset that has no signatures, when a length or `top_k` is out of range, task.json
            does not say what the answers need, or Keras has another backend than TensorFlow.
    """
    if keras.backend.backend() != "tensorflow":
        raise ConfigError(
            f"answers to texts are TensorFlow graphs and need the Keras backend tensorflow. "
            f"Received: {keras.backend.backend()}"
        )
    if preset.kind == "BertPretrainer":
        return PretrainerSignatures(preset, max_sequence_length, top_k)
    if preset.kind not in _OF_KIND:
        served = ", ".join(sorted([*_OF_KIND, "BertPretrainer"]))
        raise ConfigError(f"only presets of a {served} have signatures. Received: a {preset.kind}")
    if preset.kind == "BertTextClassifier" and preset.model.num_classes == 1 and not (preset.task or {}).get("labels"):
        return RegressionSignatures(preset, max_sequence_length)
    return _OF_KIND[preset.kind](preset, max_sequence_length)

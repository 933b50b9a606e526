"""What an exported model answers, by kind of preset.

| preset | `serving_default` | further signatures |
|---|---|---|
| BertTextClassifier | text (and text_pair) -> label, probabilities | `ids` |
| BertPretrainer | text with [MASK] -> tokens, scores | `embed`, `ids` |
| BertBackbone | text -> pooled_output, mean_output | `ids` |

An encoder without pooler gives no pooled_output, a BertPretrainer without next sentence prediction no nsp_logits.

Shape legend: B batch, S sequence, P predictions, M masks in a text, K candidates, V vocabulary, C classes,
H hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import keras
import tensorflow as tf

from bert_tf.config import ConfigError
from bert_tf.data.schema import (
    MASK_POSITIONS,
    MLM_LOGITS,
    NSP_LOGITS,
    PADDING_MASK,
    SEGMENT_IDS,
    TOKEN_IDS,
)
from bert_tf.export.checks import checked_ids, checked_mask_count, checked_positions, checked_texts
from bert_tf.models import Preset
from bert_tf.text.packing import pack
from bert_tf.text.tokenizer import BertTokenizer

DEFAULT_SIGNATURE = "serving_default"
TEXT, TEXT_PAIR = "text", "text_pair"
# [CLS], a piece of each of two texts, two [SEP] and a little of what they say.
SHORTEST_SEQUENCE = 8
_SERVED = ("BertTextClassifier", "BertPretrainer", "BertBackbone")

Outputs = dict[str, tf.Tensor]


@dataclass(frozen=True)
class Endpoint:
    """One signature.

    Args:
        function: takes the tensors of `inputs`, in order; returns tensors by name.
        inputs: specifications, each with the name that clients use.
    """

    function: Callable[..., Outputs]
    inputs: tuple[tf.TensorSpec, ...]


class Signatures:
    """The signatures of one preset, as functions of tensors that a SavedModel can hold.

    Args:
        preset: model, vocabulary and task.
        max_sequence_length: longest S; longer texts are cut, longer ids refused. The task's or the model's
            where None.
        top_k: candidates for every [MASK], at most V.

    Raises:
        ConfigError: for a kind of preset that has no signatures, a regression, a task that reads long texts in windows,
            when a length is out of range, the task does not say what the classes are called, or Keras has another
            backend than TensorFlow.
    """

    def __init__(self, preset: Preset, *, max_sequence_length: int | None = None, top_k: int = 5) -> None:
        if keras.backend.backend() != "tensorflow":
            raise ConfigError(
                f"answers to texts are TensorFlow graphs and need the Keras backend tensorflow. "
                f"Received: {keras.backend.backend()}"
            )
        _check_served(preset)
        length = _sequence_length(preset, max_sequence_length)
        if not 1 <= top_k <= len(preset.vocabulary):
            raise ConfigError(f"`top_k` must lie in 1..{len(preset.vocabulary)}. Received: {top_k}")
        self.max_sequence_length = length
        self.top_k = top_k
        self.labels = _labels(preset)
        self.model = preset.model
        self.vocabulary = preset.vocabulary
        self._preset = preset
        self._backbone = getattr(preset.model, "backbone", preset.model)
        self._tokenizer = BertTokenizer(preset.vocabulary, lowercase=preset.lowercase)
        self._text_inputs = (TEXT, TEXT_PAIR)[: _text_columns(preset)]
        self.endpoints = self._endpoints()

    def encode(self, *texts: tf.Tensor, keep_mask_token: bool = False) -> Outputs:
        """Returns token_ids, segment_ids and padding_mask [B, S] int32 of one or two string tensors [B].

        S is that of the batch's longest text, at most `max_sequence_length`.

        Args:
            *texts: string tensors of rank 1 and one length.
            keep_mask_token: whether a literal [MASK] is the mask token; otherwise it is text like any other.
        """
        segments = [self._tokenizer.ids(text, keep_mask_token=keep_mask_token) for text in texts]
        packed = pack(segments, self.vocabulary, self.max_sequence_length)
        # An empty batch has no longest text; attention over no columns at all gives a batch of one.
        missing = tf.maximum(2 - tf.shape(packed[TOKEN_IDS])[1], 0)
        return {name: tf.pad(tensor, [[0, 0], [0, missing]]) for name, tensor in packed.items()}

    def _endpoints(self) -> dict[str, Endpoint]:
        texts = tuple(tf.TensorSpec([None], tf.string, name) for name in self._text_inputs)
        ids = tuple(_matrix(name) for name in (TOKEN_IDS, SEGMENT_IDS, PADDING_MASK))
        if self._preset.kind == "BertTextClassifier":
            return {
                DEFAULT_SIGNATURE: Endpoint(self._classify, texts),
                "ids": Endpoint(self._classify_ids, ids),
            }
        if self._preset.kind == "BertPretrainer":
            return {
                DEFAULT_SIGNATURE: Endpoint(self._fill_mask, texts),
                "embed": Endpoint(self._embed, texts),
                "ids": Endpoint(self._pretrainer_ids, (*ids, _matrix(MASK_POSITIONS))),
            }
        return {
            DEFAULT_SIGNATURE: Endpoint(self._embed, texts),
            "ids": Endpoint(self._embed_ids, ids),
        }

    def _classify(self, *texts: tf.Tensor) -> Outputs:
        columns = checked_texts(dict(zip(self._text_inputs, texts, strict=True)))
        probabilities = tf.nn.softmax(self.model(self.encode(*columns), training=False))
        labels = tf.gather(tf.constant(self.labels), tf.argmax(probabilities, axis=-1))
        return {"label": labels, "probabilities": probabilities}

    def _classify_ids(self, *ids: tf.Tensor) -> Outputs:
        logits = self.model(self._checked(*ids), training=False)
        return {"logits": logits, "probabilities": tf.nn.softmax(logits)}

    def _fill_mask(self, text: tf.Tensor) -> Outputs:
        (column,) = checked_texts({TEXT: text})
        inputs = self.encode(column, keep_mask_token=True)
        is_mask = tf.equal(inputs[TOKEN_IDS], self.vocabulary.mask_id)
        columns = tf.broadcast_to(tf.range(tf.shape(is_mask)[1]), tf.shape(is_mask))
        found = tf.ragged.boolean_mask(columns, is_mask)
        positions = checked_mask_count(found.to_tensor(), TEXT)
        logits = self.model({**inputs, MASK_POSITIONS: positions}, training=False)[MLM_LOGITS]
        scores, candidates = tf.math.top_k(tf.nn.softmax(logits), self.top_k)
        present = tf.sequence_mask(found.row_lengths(), tf.shape(positions)[1])[..., tf.newaxis]
        tokens = tf.gather(tf.constant(self.vocabulary.tokens), candidates)
        return {"tokens": tf.where(present, tokens, ""), "scores": tf.where(present, scores, 0.0)}

    def _pretrainer_ids(self, *tensors: tf.Tensor) -> Outputs:
        *ids, mask_positions = tensors
        inputs = self._checked(*ids)
        positions = checked_positions(mask_positions, inputs[TOKEN_IDS])
        outputs = self.model({**inputs, MASK_POSITIONS: positions}, training=False)
        return {name: outputs[name] for name in (MLM_LOGITS, NSP_LOGITS) if name in outputs}

    def _embed(self, *texts: tf.Tensor) -> Outputs:
        columns = checked_texts(dict(zip(self._text_inputs, texts, strict=True)))
        outputs = self._embed_inputs(self.encode(*columns))
        return {name: outputs[name] for name in ("pooled_output", "mean_output") if name in outputs}

    def _embed_ids(self, *ids: tf.Tensor) -> Outputs:
        return self._embed_inputs(self._checked(*ids))

    def _embed_inputs(self, inputs: Outputs) -> Outputs:
        outputs = self._backbone(inputs, training=False)
        mask = tf.cast(inputs[PADDING_MASK], tf.float32)[..., tf.newaxis]
        tokens = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)
        return {**outputs, "mean_output": tf.reduce_sum(outputs["sequence_output"] * mask, axis=1) / tokens}

    def _checked(self, *ids: tf.Tensor) -> Outputs:
        config = self._preset.config
        return checked_ids(
            *ids,
            vocabulary_size=config.vocabulary_size,
            num_segments=config.num_segments,
            max_sequence_length=self.max_sequence_length,
        )


def _matrix(name: str) -> tf.TensorSpec:
    return tf.TensorSpec([None, None], tf.int32, name)


def _check_served(preset: Preset) -> None:
    if preset.kind not in _SERVED:
        raise ConfigError(f"only presets of a {', '.join(_SERVED)} have signatures. Received: a {preset.kind}")
    if preset.kind == "BertPretrainer" and not preset.model.masked_lm:
        raise ConfigError("a BertPretrainer is served by its masked language model. Received: one without")
    if preset.kind == "BertTextClassifier" and (preset.task or {}).get("windows"):
        raise ConfigError(
            "signatures read a row of tokens a text, and would cut the long texts that the task reads in windows; "
            "`bert-tf predict` answers a file of them. Received: task.json with `windows` = true"
        )


def _sequence_length(preset: Preset, requested: int | None) -> int:
    longest = preset.config.max_sequence_length
    length = (preset.task or {}).get("max_sequence_length", longest) if requested is None else requested
    if type(length) is not int or not SHORTEST_SEQUENCE <= length <= longest:
        raise ConfigError(
            f"`max_sequence_length` must be an integer in {SHORTEST_SEQUENCE}..{longest}, the model's positions. "
            f"Received: {length!r}"
        )
    return length


def _text_columns(preset: Preset) -> int:
    columns = (preset.task or {}).get("text_columns", 1) if preset.kind == "BertTextClassifier" else 1
    if columns not in (1, 2):
        raise ConfigError(f"task.json: `text_columns` must be 1 or 2. Received: {columns!r}")
    return columns


def _labels(preset: Preset) -> list[str] | None:
    if preset.kind != "BertTextClassifier":
        return None
    labels = (preset.task or {}).get("labels")
    classes = preset.model.num_classes
    if classes == 1 and not labels:
        raise ConfigError(
            "signatures give labels, and a regression has none; `bert-tf predict` answers a file in the task's own "
            "format. Received: a BertTextClassifier with `num_classes` = 1 and no `labels` in task.json"
        )
    if not isinstance(labels, list) or len(labels) != classes or not all(isinstance(n, str) for n in labels):
        raise ConfigError(f"task.json: `labels` must name the model's {classes} classes. Received: {labels!r}")
    return labels

"""What the signatures of all kinds of presets share.

Shape legend: B batch, S sequence.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import ConfigError
from bert_tf.data.schema import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_tf.export.checks import checked_examples, checked_ids
from bert_tf.models import Preset
from bert_tf.text.packing import pack
from bert_tf.text.tokenizer import BertTokenizer

DEFAULT_SIGNATURE, IDS_SIGNATURE, EXAMPLES_SIGNATURE = "serving_default", "ids", "serve_examples"
EXAMPLES = "examples"
# [CLS], a piece of each of two texts, two [SEP] and a little of what they say.
SHORTEST_SEQUENCE = 8

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


class Signatures(ABC):
    """The signatures of one preset, as functions of tensors that a SavedModel can hold.

    Args:
        preset: model, vocabulary and task.
        max_sequence_length: longest S. The task's or the model's where None.

    Raises:
        ConfigError: when the length is out of range, or task.json does not say what the answers need.
    """

    top_k: int | None = None
    """Fill-mask: candidates for every [MASK]."""

    labels: list[str] | None = None
    """Names of the classes, where there are any."""

    tag_scheme: str | None = None
    """Scheme of the tags of words, where there are any."""

    texts: tuple[str, ...] = ()
    """Names of the inputs of `serving_default`."""

    by_token: tuple[str, ...] = ()
    """Outputs of `ids` with values for every token, [B, S, ...]; those of padding have no meaning."""

    outputs_of_tanh: tuple[str, ...] = ()
    """Outputs that a tanh limits to -1 to 1."""

    logits: tuple[str, ...] = ()
    """Outputs of `ids` from which probabilities are computed."""

    probabilities: tuple[str, ...] = ()
    """Outputs that are a softmax of scores, or a mean of some."""

    logits_of_score: int = 1
    """Number of logits that are added up for a score."""

    score_differences: tuple[str, ...] = ()
    """Outputs that are the difference of two scores."""

    def __init__(self, preset: Preset, max_sequence_length: int | None = None) -> None:
        self.max_sequence_length = _sequence_length(preset, max_sequence_length)
        self.preset = preset
        self.model: keras.Model = preset.model
        self.vocabulary = preset.vocabulary
        self.tokenizer = BertTokenizer(preset.vocabulary, lowercase=preset.lowercase)

    @abstractmethod
    def answer(self, *inputs: tf.Tensor) -> Outputs:
        """Answers `serving_default`, whose inputs nothing has looked at yet."""

    @abstractmethod
    def answer_ids(self, *ids: tf.Tensor) -> Outputs:
        """Answers `ids`: token_ids, segment_ids, padding_mask, and what else `ids_inputs` names."""

    @property
    def text_inputs(self) -> tuple[tf.TensorSpec, ...]:
        """The inputs of `serving_default`, in order."""
        return tuple(tf.TensorSpec([None], tf.string, name) for name in self.texts)

    @property
    def ids_inputs(self) -> tuple[tf.TensorSpec, ...]:
        """The inputs of `ids`, in order."""
        return tuple(matrix(name) for name in (TOKEN_IDS, SEGMENT_IDS, PADDING_MASK))

    @property
    def features(self) -> Mapping[str, Any]:
        """The features of a tf.Example, by the names of the inputs of `serving_default`."""
        return {name: tf.io.FixedLenFeature([], tf.string) for name in self.texts}

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """All signatures by name, the default one first."""
        return {
            DEFAULT_SIGNATURE: Endpoint(self.answer_once_traced, self.text_inputs),
            IDS_SIGNATURE: Endpoint(self.answer_ids, self.ids_inputs),
            EXAMPLES_SIGNATURE: Endpoint(self.answer_examples, (tf.TensorSpec([None], tf.string, EXAMPLES),)),
        }

    def row(self, outputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Returns what `serving_default` answers to one row, as people read it and JSON holds it.

        Args:
            outputs: of the row, by name.
        """
        return {name: plain(values) for name, values in outputs.items()}

    def open_values(
        self, signature: str, samples: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray], logit_error: float
    ) -> dict[str, np.ndarray]:
        """Returns the predictions that a rounding error may change, because two scores are almost equal.

        Args:
            signature: name of the signature.
            samples: its inputs, and those of all other signatures, by name.
            outputs: its answer.
            logit_error: the largest error of a logit.

        Returns:
            By output, bool arrays that broadcast to it; outputs without such predictions may be missing.
        """
        del signature, samples, outputs, logit_error
        return {}

    def answer_examples(self, examples: tf.Tensor) -> Outputs:
        """Answers `serve_examples`: what `serving_default` answers to the texts of serialized tf.Examples [B]."""
        found = tf.io.parse_example(checked_examples(examples), dict(self.features))
        return self.answer_once_traced(*(found[name] for name in self.texts))

    @functools.cached_property
    def run(self) -> Callable[[Outputs], Any]:
        """The model as one function of the graph that all signatures call, so that a server loads it once."""
        return once_traced(self.model)

    @functools.cached_property
    def answer_once_traced(self) -> Callable[..., Outputs]:
        """`answer` as one function of the graph, which all signatures of texts call."""
        return tf.function(self.answer, input_signature=self.text_inputs, autograph=False)

    def encode(self, *texts: tf.Tensor, keep_mask_token: bool = False) -> Outputs:
        """Returns token_ids, segment_ids and padding_mask [B, S] int32 of one or two string tensors [B].

        S is that of the batch's longest text, at most `max_sequence_length`.

        Args:
            *texts: string tensors of rank 1 and one length.
            keep_mask_token: whether a literal [MASK] is the mask token; otherwise it is text like any other.
        """
        return self.packed([self.tokenizer.ids(text, keep_mask_token=keep_mask_token) for text in texts])

    def packed(self, segments: list[tf.RaggedTensor]) -> Outputs:
        """Returns the rows of `encode` for one or two segments of ids, ragged (B, None) int32."""
        return never_empty(pack(segments, self.vocabulary, self.max_sequence_length))

    def checked(self, *ids: tf.Tensor) -> Outputs:
        """Returns the model's three inputs by name, once they are known to be sound."""
        config = self.preset.config
        return checked_ids(
            *ids,
            vocabulary_size=config.vocabulary_size,
            num_segments=config.num_segments,
            max_sequence_length=self.max_sequence_length,
        )


def once_traced(model: keras.Model) -> Callable[[Outputs], Any]:
    """Returns a model of named inputs, without dropout, as one function of the graph."""
    inputs = {name: tf.TensorSpec(tensor.shape, tensor.dtype, name) for name, tensor in model.input.items()}
    return tf.function(lambda given: model(given, training=False), input_signature=[inputs], autograph=False)


def plain(values: np.ndarray | np.generic | bytes) -> Any:
    """Returns numbers and texts as Python has them, bytes as UTF-8."""
    found = values.tolist() if isinstance(values, np.ndarray | np.generic) else values
    if isinstance(found, list):
        return [plain(value) for value in found]
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else found


def never_empty(rows: Outputs) -> Outputs:
    """Returns the model's inputs (B, S) with at least two columns.

    An empty batch has no longest text; attention over no columns at all gives a batch of one.
    """
    missing = tf.maximum(2 - tf.shape(rows[TOKEN_IDS])[1], 0)
    return {name: tf.pad(tensor, [[0, 0], [0, missing]]) for name, tensor in rows.items()}


def matrix(name: str) -> tf.TensorSpec:
    """Returns the specification of an input (B, any) int32."""
    return tf.TensorSpec([None, None], tf.int32, name)


def task_field(preset: Preset, name: str, default: int) -> int:
    """Returns a positive number of task.json. Raises ConfigError where it is none."""
    value = (preset.task or {}).get(name, default)
    if type(value) is not int or value < 1:
        raise ConfigError(f"task.json: `{name}` must be a positive integer. Received: {value!r}")
    return value


def class_labels(preset: Preset) -> list[str]:
    """Returns the names of the model's classes. Raises ConfigError where task.json does not give them."""
    labels = (preset.task or {}).get("labels")
    classes = preset.model.num_classes
    if not isinstance(labels, list) or len(labels) != classes or not all(isinstance(n, str) for n in labels):
        raise ConfigError(f"task.json: `labels` must name the model's {classes} classes. Received: {labels!r}")
    return labels


def _sequence_length(preset: Preset, requested: int | None) -> int:
    longest = preset.config.max_sequence_length
    length = (preset.task or {}).get("max_sequence_length", longest) if requested is None else requested
    if type(length) is not int or not SHORTEST_SEQUENCE <= length <= longest:
        raise ConfigError(
            f"`max_sequence_length` must be an integer in {SHORTEST_SEQUENCE}..{longest}, the model's positions. "
            f"Received: {length!r}"
        )
    return length

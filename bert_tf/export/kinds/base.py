"""Base class of the signatures of all kinds of presets.

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
from bert_tf.encoding.graph import Outputs, padded_rows
from bert_tf.export.checks import checked_examples, checked_ids
from bert_tf.export.verify.comparison import Tensors
from bert_tf.models import Preset
from bert_tf.text.byte_pairs import tokenizer_of
from bert_tf.text.packing import pack

DEFAULT_SIGNATURE, IDS_SIGNATURE, EXAMPLES_SIGNATURE = "serving_default", "ids", "serve_examples"
EXAMPLES = "examples"
# Keras makes the only signature the default one too.
_OF_IDS = (DEFAULT_SIGNATURE, IDS_SIGNATURE)
# [CLS], one word piece for each of two texts, two [SEP], and a few more pieces.
SHORTEST_SEQUENCE = 8


@dataclass(frozen=True)
class Endpoint:
    """One signature.

    Args:
        function: takes the tensors of `inputs` in order and returns tensors by name.
        inputs: input specifications, with the names that clients use.
    """

    function: Callable[..., Outputs]
    inputs: tuple[tf.TensorSpec, ...]


class Signatures(ABC):
    """Signatures of one preset, as tensor functions that a SavedModel can hold.

    Args:
        preset: model, vocabulary and task.
        max_sequence_length: largest S; defaults to that of the task, else of the model.

    Raises:
        ConfigError: if the length is out of range, or task.json lacks a required field.
    """

    top_k: int | None = None
    """Fill-mask: number of candidates for each [MASK]."""

    labels: list[str] | None = None
    """Class names; None for models without classes."""

    tag_scheme: str | None = None
    """Tagging scheme; None for models that do not tag words."""

    task_length: int | None = None
    """Default maximum tokens of a row of a task; None for all positions of the model."""

    texts: tuple[str, ...] = ()
    """Names of the inputs of `serving_default`."""

    by_token: tuple[str, ...] = ()
    """Outputs of `ids` with a value for each token, [B, S, ...]. Values at padding have no meaning."""

    outputs_of_tanh: tuple[str, ...] = ()
    """Outputs of a tanh, between -1 and 1."""

    logits: tuple[str, ...] = ()
    """Logits among the outputs of `ids`."""

    probabilities: tuple[str, ...] = ()
    """Outputs that are a softmax of scores, or a mean of softmax values."""

    logits_of_score: int = 1
    """Number of logits that are summed into a score."""

    score_differences: tuple[str, ...] = ()
    """Outputs that are the difference of two scores."""

    def __init__(self, preset: Preset, max_sequence_length: int | None = None) -> None:
        self.max_sequence_length = _sequence_length(preset, max_sequence_length, self.task_length)
        self.preset = preset
        self.model: keras.Model = preset.model
        self.vocabulary = preset.vocabulary
        self.tokenizer = tokenizer_of(preset.vocabulary, preset.lowercase)

    @classmethod
    def of(cls, preset: Preset, max_sequence_length: int | None, top_k: int) -> Signatures:
        """Returns the signatures of a preset; see `bert_tf.export.signatures.signatures_of`."""
        del top_k
        return cls(preset, max_sequence_length)

    @abstractmethod
    def answer(self, *inputs: tf.Tensor) -> Outputs:
        """Computes the outputs of `serving_default` from unchecked inputs."""

    @abstractmethod
    def answer_ids(self, *ids: tf.Tensor) -> Outputs:
        """Computes the outputs of `ids` from token_ids, segment_ids, padding_mask and any further `ids_inputs`."""

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
        """The features of a tf.Example, named after the inputs of `serving_default`."""
        return {name: tf.io.FixedLenFeature([], tf.string) for name in self.texts}

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """All signatures by name, the default one first."""
        return {
            DEFAULT_SIGNATURE: Endpoint(self.answer_once_traced, self.text_inputs),
            IDS_SIGNATURE: Endpoint(self.answer_ids, self.ids_inputs),
            EXAMPLES_SIGNATURE: Endpoint(self.answer_examples, (tf.TensorSpec([None], tf.string, EXAMPLES),)),
        }

    @property
    def served(self) -> dict[str, Endpoint]:
        """The signatures that a SavedModel can hold: all, or that of ids if no graph computes the tokenizer."""
        endpoints = self.endpoints
        return endpoints if self.tokenizer.in_graph else dict.fromkeys(_OF_IDS, endpoints[IDS_SIGNATURE])

    def row(self, outputs: Tensors) -> dict[str, Any]:
        """Returns one row of `serving_default` outputs as a dictionary for people and JSON.

        Args:
            outputs: outputs of the row, by name.
        """
        return {name: python_values(values) for name, values in outputs.items()}

    def open_values(self, signature: str, samples: Tensors, outputs: Tensors, logit_error: float) -> Tensors:
        """Returns the predictions that a rounding error may change because two scores are almost equal.

        Args:
            signature: name of the signature.
            samples: inputs of all signatures, by name.
            outputs: outputs of the signature, by name.
            logit_error: largest error of a logit.

        Returns:
            Bool arrays by output name, each broadcastable to its output. Outputs without such predictions may be
            missing.
        """
        del signature, samples, outputs, logit_error
        return {}

    def answer_examples(self, examples: tf.Tensor) -> Outputs:
        """Computes the outputs of `serve_examples`: those of `serving_default` for serialized tf.Examples [B]."""
        columns = tf.io.parse_example(checked_examples(examples), dict(self.features))
        return self.answer_once_traced(*(columns[name] for name in self.texts))

    @functools.cached_property
    def run(self) -> Callable[[Outputs], Any]:
        """The model as one graph function that all signatures share, so that a server loads it once."""
        return once_traced(self.model)

    @functools.cached_property
    def answer_once_traced(self) -> Callable[..., Outputs]:
        """`answer` as one graph function that all text signatures share."""
        return tf.function(self.answer, input_signature=self.text_inputs, autograph=False)

    def encode(self, *texts: tf.Tensor, keep_mask_token: bool = False) -> Outputs:
        """Returns token_ids, segment_ids and padding_mask [B, S] int32 of one or two string tensors [B].

        S is the length of the longest row in the batch, rounded up by `padded_rows`.

        Args:
            *texts: string tensors of rank 1 and equal length.
            keep_mask_token: True to read a literal [MASK] as the mask token, False to read it as text.
        """
        return self.packed([self.tokenizer.ids(text, keep_mask_token=keep_mask_token) for text in texts])

    def packed(self, segments: list[tf.RaggedTensor]) -> Outputs:
        """Packs one or two segments of ids, ragged (B, None) int32, into the rows of `encode`."""
        rows = pack(segments, self.vocabulary, self.max_sequence_length)
        return padded_rows(rows, self.vocabulary, self.max_sequence_length)

    def checked(self, *ids: tf.Tensor) -> Outputs:
        """Returns the model's three inputs by name, with checks of shapes and values."""
        config = self.preset.config
        return checked_ids(
            *ids,
            vocabulary_size=config.vocabulary_size,
            num_segments=config.most_segments,
            max_sequence_length=self.max_sequence_length,
        )


def once_traced(model: keras.Model) -> Callable[[Outputs], Any]:
    """Returns a model with named inputs as one graph function, without dropout."""
    inputs = {name: tf.TensorSpec(tensor.shape, tensor.dtype, name) for name, tensor in model.input.items()}
    return tf.function(lambda tensors: model(tensors, training=False), input_signature=[inputs], autograph=False)


def python_values(values: np.ndarray | np.generic | bytes) -> Any:
    """Converts NumPy values to Python numbers and strings; bytes are decoded as UTF-8."""
    python_value = values.tolist() if isinstance(values, np.ndarray | np.generic) else values
    if isinstance(python_value, list):
        return [python_values(value) for value in python_value]
    return python_value.decode("utf-8", "replace") if isinstance(python_value, bytes) else python_value


def matrix(name: str) -> tf.TensorSpec:
    """Returns the specification of an int32 input (B, any)."""
    return tf.TensorSpec([None, None], tf.int32, name)


def task_field(preset: Preset, name: str, default: int) -> int:
    """Returns a positive integer from task.json. Raises ConfigError for any other value."""
    value = (preset.task or {}).get(name, default)
    if type(value) is not int or value < 1:
        raise ConfigError(f"task.json: `{name}` must be a positive integer. Received: {value!r}")
    return value


def class_labels(preset: Preset) -> list[str]:
    """Returns the names of the model's classes. Raises ConfigError if task.json does not list them."""
    labels = (preset.task or {}).get("labels")
    classes = preset.model.num_classes
    if not isinstance(labels, list) or len(labels) != classes or not all(isinstance(n, str) for n in labels):
        raise ConfigError(f"task.json: `labels` must name the model's {classes} classes. Received: {labels!r}")
    return labels


def _sequence_length(preset: Preset, requested: int | None, of_task: int | None) -> int:
    longest = preset.config.max_sequence_length
    default = longest if preset.task is None or of_task is None else min(of_task, longest)
    length = (preset.task or {}).get("max_sequence_length", default) if requested is None else requested
    if type(length) is not int or not SHORTEST_SEQUENCE <= length <= longest:
        raise ConfigError(
            f"`max_sequence_length` must be an integer in {SHORTEST_SEQUENCE}..{longest}, the model's positions. "
            f"Received: {length!r}"
        )
    return length

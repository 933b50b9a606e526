"""Preprocessor of single texts and pairs of texts.

Shape legend: B batch, S sequence, C classes.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import ConfigError
from bert_tf.data.schema import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_tf.encoding.heads import Head
from bert_tf.encoding.rows import EncodedRows
from bert_tf.encoding.texts import TRUNCATIONS, LabelHead, NumberHead, TextExample, shortened, text_rows
from bert_tf.models.preprocessors.base import PADDINGS, Preprocessor
from bert_tf.text import columns
from bert_tf.text.packing import pack
from bert_tf.text.tokenizer import TextTokenizer, string_tensor

logger = logging.getLogger(__name__)


@keras.saving.register_keras_serializable(package="bert_tf")
class BertTextPreprocessor(Preprocessor):
    """Turns texts, or pairs of texts, into the inputs of an encoder: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`.

    It runs eagerly, in `tf.data.Dataset.map` and in exported graphs, on any Keras backend.

    Args:
        tokenizer: the tokenizer, or a mapping of its `vocabulary` (a list of pieces) and `lowercase`.
        sequence_length: maximum tokens of a row, special tokens included.
        truncation: text of a pair that loses tokens at its end: `longest_first` (the longer one, token by token, as in
            the original), `only_first` or `only_second`. With the last two, the other text is truncated only if it is
            longer than the row.
        padding: `longest` pads a batch to its longest row, `fixed` to `sequence_length`.
        labels: names of the classes in the order of the model's outputs; None if labels are numbers. `fit` sets it
            from labels that are strings.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        x: texts, (B,): a list, an array, a pandas column or a string tensor. A pair is a tuple, a dictionary or a data
            frame of two columns, or a list of tuples. A single string is a batch of one.
        y: labels, which are passed on; names become numbers.
        sample_weight: weights, which are passed on.

    Returns:
        Dictionary of `token_ids`, `segment_ids` and `padding_mask`, each (B, S) int32; with labels, a tuple of it, the
        labels and the weights, if any.

    Raises:
        ConfigError: for an unknown `truncation` or `padding`, and for anything but strings.

    Example:
        >>> preprocessor = bert_tf.BertTextPreprocessor.from_preset("runs/laptop", sequence_length=8)
        >>> preprocessor(["a good film", "dull"])["padding_mask"].numpy().tolist()
        [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
        >>> preprocessor((["good film"], ["bad story"]))["segment_ids"].numpy().tolist()
        [[0, 0, 0, 0, 1, 1, 1]]
        >>> texts = tf.data.Dataset.from_tensor_slices((["good", "dull"], [1, 0])).batch(2).map(preprocessor)
        >>> next(iter(texts))[0]["token_ids"].shape
        TensorShape([2, 3])
    """

    columns: ClassVar[tuple[int, ...]] = (1, 2)
    keep_mask_token: ClassVar[bool] = False
    """True to read a literal [MASK] as the mask token."""

    def __init__(
        self,
        tokenizer: TextTokenizer | Mapping[str, Any],
        sequence_length: int = 128,
        truncation: str = "longest_first",
        padding: str = PADDINGS[0],
        labels: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(tokenizer, sequence_length, padding, labels, **kwargs)
        if truncation not in TRUNCATIONS:
            raise ConfigError(f"`truncation` must be one of {', '.join(TRUNCATIONS)}. Received: {truncation!r}")
        self.truncation = truncation
        # Number of texts of an example, for task.json.
        self.num_texts = 1
        # Compiled functions by number of texts and padding. Keras and TensorFlow must not track them.
        object.__setattr__(self, "_graphs", {})
        object.__setattr__(self, "_noted", False)

    @classmethod
    def _of(
        cls, tokenizer: TextTokenizer, positions: int, stored: tuple[Mapping[str, Any], Mapping[str, Any]], kwargs: Any
    ) -> Self:
        preprocessor = super()._of(tokenizer, positions, stored, kwargs)
        preprocessor.num_texts = stored[0].get("text_columns", 1)
        return preprocessor

    def call(self, x, y=None, sample_weight=None):
        """Returns the model's inputs, or a tuple of inputs, labels and weights if there are labels."""
        if self.windows:
            if not tf.executing_eagerly():
                raise ConfigError(
                    "a graph cannot split texts into windows. Received: `windows`. Call `fit` with texts."
                )
            return super().call(x, y, sample_weight)
        texts = self._tensors(x)
        scalar = texts[0].shape.rank == 0
        if scalar and not tf.executing_eagerly():
            texts = tuple(tf.reshape(text, [1]) for text in texts)
        inputs = self._packed(texts, self.padding == "fixed")
        if scalar and not tf.executing_eagerly():
            inputs = {name: values[0] for name, values in inputs.items()}
        if y is not None:
            y = self._label_tensor(y)
        if tf.executing_eagerly() and keras.backend.backend() != "tensorflow":
            inputs = {name: values.numpy() for name, values in inputs.items()}
        return keras.utils.pack_x_y_sample_weight(inputs, y, sample_weight)

    def compute_output_spec(self, x, y=None, sample_weight=None):
        """Returns the symbolic inputs of the model, so that a functional model can begin with texts."""
        first = columns.columns_of(x)[0]
        length = self.sequence_length if self.padding == "fixed" else None
        names = (TOKEN_IDS, SEGMENT_IDS, PADDING_MASK)
        return {name: keras.KerasTensor((first.shape[0], length), dtype="int32", name=name) for name in names}

    @property
    def windows(self) -> bool:
        """True if the task splits long texts into windows, one row each, instead of truncating them."""
        return bool(self.task.get("windows"))

    def encode(self, x: Any, y: Any = None, sample_weight: Any = None) -> EncodedRows:
        """Encodes texts as rows without padding; see `Preprocessor.encode`."""
        texts = self._texts(x)
        rows = text_rows(
            texts, self.tokenizer, self.sequence_length, self.windows, self.truncation, self.keep_mask_token
        )
        self._note_truncated(rows.truncated, len(texts))
        if y is None:
            return rows
        weights = None if sample_weight is None else weights_of(sample_weight, len(texts))
        return rows.with_targets(checked_rows(self._targets(y), len(texts), "y"), weights)

    def examples(self, x: Any) -> list[TextExample]:
        """Returns texts as examples of the head."""
        return [TextExample(f"row {number}", row) for number, row in enumerate(self._texts(x))]

    def _texts(self, x: Any) -> list[tuple[str, ...]]:
        texts = [columns.texts_of(column) for column in self._checked_columns(x)]
        if len({len(column) for column in texts}) != 1:
            raise ConfigError(f"columns must have the same length. Received: {[len(column) for column in texts]}")
        return list(zip(*texts, strict=True))

    def head(self, model: keras.Model) -> Head | None:
        """Returns a head of labels, whose names are `0`, `1` and so on if they are numbers, or of numbers."""
        fields = self.task | {"pooling": model.pooling}
        if len(fields.get("text_names", ())) != self.num_texts:
            fields["text_names"] = ("text",) if self.num_texts == 1 else ("text_a", "text_b")
        if model.num_classes == 1 and not self.labels:
            # The model was loaded with the scale of the numbers.
            return NumberHead.of(fields | {"mean": 0.0, "deviation": 1.0})
        return LabelHead.of(fields | {"labels": self.labels or tuple(map(str, range(model.num_classes)))})

    def described(self, head: Head) -> dict[str, Any]:
        """Returns the fields of a head for task.json."""
        names = ("mean", "deviation") if isinstance(head, NumberHead) else ()
        return head.description() | {name: self.task[name] for name in names if name in self.task}

    def predict_labels(self, model: keras.Model, x: Any) -> list[Any]:
        """Returns the most probable class of each text: its name if there are `labels`, or its number."""
        answers = self.answers(model, x, self.head(model))
        if model.num_classes == 1 and not self.labels:
            return [answer.number for answer in answers]
        return [answer.label if self.labels else int(answer.label) for answer in answers]

    def mapped(self, dataset: tf.data.Dataset, labelled: bool, training: bool) -> tf.data.Dataset:
        """Returns a dataset of batches of texts as a dataset of model inputs, converted in the graph."""
        if self.windows:
            # A batch has more rows than texts.
            return super().mapped(dataset, labelled, training)

        def convert(*element):
            element = element[0] if len(element) == 1 else element
            x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(element)
            if labelled and y is None:
                self.default_targets(x)
            return self(x, y, sample_weight) if labelled else self(x)

        return dataset.map(convert, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, with the fingerprint of the tokenizer."""
        return super().get_config() | {"truncation": self.truncation, "num_texts": self.num_texts}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> BertTextPreprocessor:
        """Builds the preprocessor from the result of `get_config`."""
        arguments = dict(config)
        num_texts = arguments.pop("num_texts", 1)
        preprocessor = cls(**arguments)
        preprocessor.num_texts = num_texts
        return preprocessor

    def _targets(self, y: Any) -> np.ndarray:
        values = self.numbers_of(y)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        return values.astype(np.float32 if values.dtype.kind == "f" else np.int32)

    def _label_tensor(self, y):
        """Returns labels with names replaced by numbers; usable inside a graph."""
        if not tf.is_tensor(y):
            return self.numbers_of(y)
        if y.dtype != tf.string:
            return y
        known = tf.equal(y[..., tf.newaxis], tf.constant(self.labels or (), tf.string))
        found = tf.debugging.Assert(tf.reduce_all(tf.reduce_any(known, -1)), ["unknown label among", y])
        with tf.control_dependencies([found] if found is not None else []):
            return tf.argmax(known, -1, output_type=tf.int32)

    def _checked_columns(self, x: Any) -> tuple[Any, ...]:
        names = self.task.get("text_names", ())
        given = list(x) if isinstance(x, Mapping) else list(getattr(x, "columns", ()))
        found = columns.named_columns(x, names) if names and set(names) <= set(given) else columns.columns_of(x)
        if len(found) not in self.columns:
            raise ConfigError(
                f"texts must be {' or '.join(map(str, self.columns))} column(s). Received: {len(found)}. "
                "A list is one column, a tuple or dictionary has several."
            )
        self.num_texts = len(found)
        return found

    def _tensors(self, x: Any) -> tuple[tf.Tensor, ...]:
        """Returns the columns as string tensors."""

        def tensor(column: Any) -> tf.Tensor:
            if tf.is_tensor(column) and column.dtype == tf.string:
                return tf.reshape(column, [-1]) if tf.executing_eagerly() else column
            if tf.is_tensor(column) and not tf.executing_eagerly():
                raise ConfigError(f"texts must be strings. Received: a tensor of {column.dtype.name}")
            return string_tensor(columns.texts_of(column))

        return tuple(tensor(column) for column in self._checked_columns(x))

    def _packed(self, texts: tuple[tf.Tensor, ...], fixed: bool) -> dict[str, tf.Tensor]:
        if not tf.executing_eagerly():
            return self._graph(fixed, *texts)
        return self._compiled((len(texts), fixed), functools.partial(self._graph, fixed))(*texts)

    def _compiled(self, key: tuple[int, ...], function: Callable[..., Any]) -> Any:
        """Returns a function of as many string tensors as the first number of `key`, compiled once for each key."""
        if key not in self._graphs:
            signature = [tf.TensorSpec([None], tf.string)] * key[0]
            # TensorFlow warns if one method is traced often, as with several preprocessors; it does not know a partial.
            graph = functools.partial(function)
            self._graphs[key] = tf.function(graph, input_signature=signature, autograph=False)
        return self._graphs[key]

    def _note_truncated(self, truncated: int, count: int) -> None:
        """Logs the number of truncated texts, once for each preprocessor."""
        if truncated and not self._noted:
            object.__setattr__(self, "_noted", True)
            logger.warning(
                "%d of %d texts (%.1f%%) are longer than `sequence_length` of %d tokens and are truncated. Pass a "
                "preprocessor with a larger `sequence_length` to `from_preset` to keep more of them.",
                truncated, count, 100 * truncated / count, self.sequence_length
            )  # fmt: skip

    def _graph(self, fixed: bool, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._pack(self._segments(*texts), fixed)

    def _segments(self, *texts: tf.Tensor) -> list[tf.RaggedTensor]:
        return [self.tokenizer.ids(text, keep_mask_token=self.keep_mask_token) for text in texts]

    def _pack(self, segments: list[tf.RaggedTensor], fixed: bool) -> dict[str, tf.Tensor]:
        segments = shortened(segments, self.sequence_length - 1 - len(segments), self.truncation)
        return pack(segments, self.tokenizer.vocabulary, self.sequence_length, fixed)


def weights_of(sample_weight: Any, count: int) -> np.ndarray:
    """Returns the float32 weights of examples. Raises ConfigError for another number of weights."""
    return checked_rows(columns.values_of(sample_weight).astype(np.float32), count, "sample_weight")


def checked_rows(values: np.ndarray, count: int, name: str) -> np.ndarray:
    """Returns `values`. Raises ConfigError unless there is one for each of `count` examples."""
    if values.ndim == 0 or len(values) != count:
        raise ConfigError(f"`{name}` must have one entry for each of {count} texts. Received: shape {values.shape}")
    return values

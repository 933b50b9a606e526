"""Base class of preprocessors, which turn texts and labels into the inputs and targets of a model.

Shape legend: B batch, S sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import ConfigError
from bert_tf.data.schema import TOKEN_IDS
from bert_tf.models import presets
from bert_tf.models.preset_sources import open_preset
from bert_tf.preprocessing import batches
from bert_tf.tasks.rows import SINGLE_OUTPUT, EncodedRows
from bert_tf.text import columns
from bert_tf.text.byte_pairs import tokenizer_from_config, tokenizer_of
from bert_tf.text.tokenizer import TextTokenizer
from bert_tf.training.backends import current_backend

PADDINGS = ("longest", "fixed")
# Text inputs, labels and weights of examples.
Data = tuple[Any, Any, Any]


class Preprocessor(keras.layers.Layer):
    """Layer from texts to the inputs of a model; it has no weights.

    Args:
        tokenizer: the tokenizer, or a mapping of its `vocabulary` (a list of pieces) and `lowercase`.
        sequence_length: maximum tokens of a row, special tokens included.
        padding: `longest` pads a batch to its longest row, `fixed` to `sequence_length`.
        labels: names of the classes in the order of the model's outputs; None if labels are numbers. `fit` sets it
            from labels that are strings.
        **kwargs: arguments of `keras.layers.Layer`.

    Raises:
        ConfigError: for an unknown `padding` or a `sequence_length` without room for a token.
    """

    columns: ClassVar[tuple[int, ...]] = (1,)
    """Allowed numbers of text columns."""

    sequence_default: ClassVar[int] = 128
    """Default of `sequence_length`, limited by the positions of the model."""

    by_token: ClassVar[bool] = False
    """True if the model has one output for each token."""

    def __init__(
        self,
        tokenizer: TextTokenizer | Mapping[str, Any],
        sequence_length: int = 128,
        padding: str = "longest",
        labels: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.built = True
        if padding not in PADDINGS:
            raise ConfigError(f"`padding` must be one of {', '.join(PADDINGS)}. Received: {padding!r}")
        if sequence_length < 3:
            raise ConfigError(f"`sequence_length` must be at least 3. Received: {sequence_length}")
        self.tokenizer = tokenizer if isinstance(tokenizer, TextTokenizer) else tokenizer_from_config(tokenizer)
        self.sequence_length = sequence_length
        self.padding = padding
        self.labels = None if labels is None else tuple(labels)

    @classmethod
    def from_preset(cls, directory: str | Path, **kwargs: Any) -> Self:
        """Builds a preprocessor with the vocabulary and the task of a preset.

        Args:
            directory: preset directory, output directory of a run, `RUN@STEP`, or checkpoint of another program; see
                `load_preset`.
            **kwargs: other arguments of the preprocessor.

        Raises:
            ConfigError: if the directory is not a preset.
        """
        source = open_preset(directory)
        header = source.header
        return cls._of(
            tokenizer_of(source.vocabulary, header.lowercase),
            header.config.max_sequence_length,
            (source.task or {}, header.info),
            kwargs,
        )

    @classmethod
    def of_preset(cls, preset: presets.Preset) -> Self:
        """Builds the preprocessor of a loaded preset."""
        return cls._of(
            tokenizer_of(preset.vocabulary, preset.lowercase),
            preset.config.max_sequence_length,
            (preset.task or {}, preset.info),
            {},
        )

    @classmethod
    def _of(
        cls, tokenizer: TextTokenizer, positions: int, stored: tuple[Mapping[str, Any], Mapping[str, Any]], kwargs: Any
    ) -> Self:
        task, info = stored
        length = task.get("max_sequence_length", info.get("sequence_length", cls.sequence_default))
        arguments = {"sequence_length": min(length, positions)} | cls._arguments_of(task, info)
        return cls(tokenizer, **(arguments | kwargs))

    @classmethod
    def _arguments_of(cls, task: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, Any]:
        """Returns arguments for the task of a preset."""
        # A preset of labels that are numbers has them as names in task.json only.
        labels = info.get("labels") if "sequence_length" in info else task.get("labels")
        return {"labels": tuple(labels)} if labels else {}

    def encode(self, x: Any, y: Any = None, sample_weight: Any = None) -> EncodedRows:
        """Encodes texts as rows without padding.

        Args:
            x: columns of texts.
            y: labels; None returns rows without targets.
            sample_weight: one weight for each example.

        Returns:
            The rows.

        Raises:
            ConfigError: for inputs or labels of another form.
        """
        raise NotImplementedError

    def call(self, x, y=None, sample_weight=None):
        """Returns the model's inputs, or a tuple of inputs, targets and weights if there are labels."""
        data = self.batch_of(x, y, sample_weight)
        return keras.utils.pack_x_y_sample_weight(*data)

    def batch_of(self, x: Any, y: Any = None, sample_weight: Any = None, epoch: int = 0) -> Data:
        """Returns inputs, targets and weights of one batch, as arrays; targets and weights may be None."""
        rows = self.encode(x, y, sample_weight)
        batch = self.make_batch(rows, np.arange(len(rows)), self._fixed_width(), epoch)
        return (*batch, None, None)[:3]

    def make_batch(self, rows: EncodedRows, numbers: np.ndarray, width: int, epoch: int) -> batches.Batch:
        """Returns the inputs, targets and weights of some rows.

        Args:
            rows: the rows.
            numbers: row numbers.
            width: width of the batch; 0 for that of its longest row.
            epoch: number of the epoch, from 0.
        """
        inputs = rows.inputs(numbers, width)
        if not rows.targets:
            return (inputs,)
        targets: dict[str, np.ndarray] = {}
        weights: dict[str, np.ndarray] = {}
        width = inputs[TOKEN_IDS].shape[-1]
        for output, values in rows.targets.items():
            if self.by_token and rows.is_by_token(output):
                place, mask = rows.places(numbers, width)
                targets[output] = values[place] * mask
                weights[output] = rows.weights[output][place] * mask
            else:
                targets[output] = values[numbers]
                if output in rows.weights:
                    weights[output] = rows.weights[output][numbers]
        parts = (inputs, targets, weights) if weights else (inputs, targets)
        return tuple(part.get(SINGLE_OUTPUT, part) for part in parts)

    def dataset(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        batch_size: int = 32,
        shuffle: bool = False,
        model: Any = None,
    ) -> tf.data.Dataset:
        """Returns batches of model inputs.

        Args:
            x: columns of texts, or a `tf.data.Dataset` of batches of (x, y, sample_weight).
            y: labels.
            sample_weight: one weight for each example.
            batch_size: number of rows in a batch.
            shuffle: whether each iteration is another epoch: rows are shuffled, masks are drawn again.
            model: the model to train or to evaluate, which checks the labels; None to predict.

        Returns:
            A dataset of (inputs, targets, weights), without those that are missing.
        """
        if isinstance(x, tf.data.Dataset):
            return self.mapped(x, labelled=model is not None, training=shuffle)
        if model is not None and y is None:
            y = self.default_targets(x)
        rows = replace(self.encode(x, y, sample_weight), most_widths=current_backend().most_widths)
        if model is not None:
            self.check_targets(rows, model)
        # Keras concatenates the outputs of all batches.
        width = self._fixed_width() or (rows.longest if self.by_token and model is None else 0)

        def make(numbers: np.ndarray, epoch: int) -> batches.Batch:
            return self.make_batch(rows, numbers, width, epoch)

        return batches.dataset_of_rows(rows, batch_size, make, shuffle, self.by_token)

    def training_data(
        self, model: Any, data: Data, batch_size: int, options: Mapping[str, Any]
    ) -> tuple[tf.data.Dataset, tf.data.Dataset | None]:
        """Returns the training data and the validation data of `fit`.

        Args:
            model: the model to train.
            data: texts, labels and weights.
            batch_size: number of rows in a batch.
            options: the arguments `validation_data`, `validation_split`, `validation_batch_size` and `shuffle` of
                `fit`.

        Raises:
            ConfigError: if there are no labels, or they do not match the model.
        """
        validation, share = options["validation_data"], options["validation_split"]
        self.adapt_labels(data[1], model)
        if share and validation is None:
            data, validation = _split(data, share)
        x, y, sample_weight = data
        training = self.dataset(x, y, sample_weight, batch_size, bool(options["shuffle"]), model)
        if validation is None:
            return training, None
        held_out, *rest = validation if isinstance(validation, tuple) else (validation,)
        if self.holds_ids(held_out):
            return training, validation
        y, sample_weight = (*rest, None, None)[:2]
        size = options["validation_batch_size"] or batch_size
        return training, self.dataset(held_out, y, sample_weight, size, model=model)

    def mapped(self, dataset: tf.data.Dataset, labelled: bool, training: bool) -> tf.data.Dataset:
        """Returns a dataset of batches of texts as a dataset of model inputs.

        Args:
            dataset: batches of x, (x, y) or (x, y, sample_weight).
            labelled: whether to return targets, too.
            training: whether each iteration is another epoch, with other masks.
        """

        def convert(element: Any, number: int) -> batches.Batch:
            x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(element)
            if labelled and y is None:
                y = self.default_targets(x)
            data = self.batch_of(x, y if labelled else None, sample_weight if labelled else None, number)
            return tuple(part for part in data if part is not None)

        return batches.mapped(dataset, convert, self.by_token, training)

    def holds_ids(self, x: Any) -> bool:
        """Returns True for the encoder's inputs, also in a dataset, and for generators of Keras."""
        if isinstance(x, tf.data.Dataset):
            spec = x.element_spec
            x = spec[0] if isinstance(spec, tuple) else spec
        elif isinstance(x, keras.utils.PyDataset) or hasattr(x, "__next__"):
            return True
        return isinstance(x, Mapping) and TOKEN_IDS in x

    def adapt_labels(self, y: Any, model: Any) -> None:
        """Sets `labels` to the sorted names if labels are strings and `labels` is not set.

        Args:
            y: labels of the training examples.
            model: the model to train.

        Raises:
            ConfigError: if the number of names differs from the model's `num_classes`.
        """
        names = self.label_names(y)
        if names and self.labels is None:
            labels = tuple(sorted(names))
            if len(labels) != model.num_classes:
                raise ConfigError(
                    f"`num_classes` is {model.num_classes}, so labels must have {model.num_classes} names. Received: "
                    f"{', '.join(labels)}. Pass `num_classes={len(labels)}`, or `labels` to the preprocessor."
                )
            self.labels = labels

    def label_names(self, y: Any) -> set[str]:
        """Returns the distinct labels if they are strings; an empty set otherwise."""
        values = None if y is None else columns.values_of(y)
        return set(columns.labels_of(values)) if values is not None and columns.is_text(values) else set()

    def numbers_of(self, y: Any) -> np.ndarray:
        """Returns labels as numbers. Raises ConfigError for names that are not in `labels`, and for missing labels."""
        values = columns.values_of(y)
        if not columns.is_text(values):
            return columns.numbers_of(values)
        names = columns.labels_of(values)
        index = {label: number for number, label in enumerate(self.labels or ())}
        unknown = sorted({name for name in names if name not in index})
        if unknown:
            raise ConfigError(
                f"labels must be among {', '.join(self.labels or ())}. Received: {', '.join(unknown)}. "
                "Call `fit` with these labels first, or pass `labels` to the preprocessor."
            )
        return np.array([index[name] for name in names], np.int32).reshape(values.shape)

    def default_targets(self, x: Any) -> Any:
        """Returns targets for `fit` and `evaluate` without labels. Raises ConfigError unless there are any."""
        raise ConfigError("`y`, the labels, are required to train and to evaluate. Received: None")

    def check_targets(self, rows: EncodedRows, model: Any) -> None:
        """Raises ConfigError if a class is outside of the model's `num_classes`."""
        for values in rows.targets.values():
            classes = getattr(model, "num_classes", 1)
            if classes > 1 and values.ndim == 1 and values.size and not 0 <= values.min() <= values.max() < classes:
                raise ConfigError(
                    f"labels must be from 0 to {classes - 1} for `num_classes` of {classes}. "
                    f"Received: {values.min()} to {values.max()}"
                )

    def outputs(self, model: keras.Model, rows: EncodedRows) -> dict[str, np.ndarray]:
        """Returns the outputs of a model for rows, as `tasks.inference.outputs_of`."""
        from bert_tf.tasks.inference import outputs_of

        backend = current_backend()
        predict: Callable[[Any], Any] = backend.compile_predict(model)
        rows = replace(rows, most_widths=backend.most_widths)
        return outputs_of(predict, rows, presets.encoder_of(model).config, self.by_token)

    def task_json(self, model: keras.Model) -> dict[str, Any] | None:
        """Returns the content of task.json for a preset of the model; None if no task of `tasks` describes it."""
        return None

    def info(self) -> dict[str, Any]:
        """Returns additional information for a preset of the model."""
        labels = {"labels": list(self.labels)} if self.labels else {}
        return {"sequence_length": self.sequence_length} | labels

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, with the vocabulary."""
        return super().get_config() | {
            "tokenizer": self.tokenizer.get_config(),
            "sequence_length": self.sequence_length,
            "padding": self.padding,
            "labels": None if self.labels is None else list(self.labels),
        }

    def _fixed_width(self) -> int:
        return self.sequence_length if self.padding == "fixed" else 0


def _split(data: Data, share: float) -> tuple[Data, Data]:
    """Splits off the last share of the examples, as `validation_split` of Keras does."""
    count = columns.rows_in(columns.columns_of(data[0])[0])
    first = int(count * (1.0 - share))
    if not 0 < first < count:
        raise ConfigError(f"`validation_split` of {share} leaves a part of {count} examples empty. Received: {share}")
    training, held_out = (
        tuple(columns.sliced(part, *bounds) for part in data) for bounds in ((0, first), (first, count))
    )
    return training, held_out

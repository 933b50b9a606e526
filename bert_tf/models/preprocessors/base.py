"""Base class of preprocessors, which turn texts and labels into the inputs and targets of a model.

Shape legend: B batch, S sequence.
"""

from __future__ import annotations

import hashlib
import json
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import ConfigError
from bert_tf.data.schema import SINGLE_OUTPUT, TOKEN_IDS
from bert_tf.encoding import batches
from bert_tf.encoding.heads import Head
from bert_tf.encoding.inference import answers_of, compiled
from bert_tf.encoding.rows import EncodedRows, Model
from bert_tf.models import presets
from bert_tf.models.preset_sources import open_preset
from bert_tf.text import columns
from bert_tf.text.byte_pairs import tokenizer_from_config, tokenizer_of
from bert_tf.text.tokenizer import TextTokenizer

PADDINGS = ("longest", "fixed")
# Asset of saved models with the vocabulary, and its key in configurations.
_ASSET, _FINGERPRINT = "tokenizer.json", "fingerprint"
# Tokenizers of this process by fingerprint, which configurations name.
_TOKENIZERS: weakref.WeakValueDictionary[str, TextTokenizer] = weakref.WeakValueDictionary()
# Text inputs, labels and weights of examples.
Data = tuple[Any, Any, Any]


class Preprocessor(keras.layers.Layer):
    """Layer from texts to the inputs of a model; it has no weights.

    Args:
        tokenizer: the tokenizer, or a mapping of its `vocabulary` (a list of pieces) and `lowercase`. Configurations
            hold its fingerprint, and `.keras` files the vocabulary, as an asset.
        sequence_length: maximum tokens of a row, special tokens included.
        padding: `longest` pads a batch to its longest row, `fixed` to `sequence_length`.
        labels: names of the classes in the order of the model's outputs; None if labels are numbers. `fit` sets it
            from labels that are strings.
        task: task.json of the preset; `task_json` keeps its fields.
        stored_info: additional information of the preset, which `info` keeps until `fit` changes the model.
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
        task: Mapping[str, Any] | None = None,
        stored_info: Mapping[str, Any] | None = None,
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
        self._fingerprint = ""
        self._tokenizer: TextTokenizer | None = None
        if isinstance(tokenizer, TextTokenizer):
            self._set_tokenizer(tokenizer)
        elif (fingerprint := tokenizer.get(_FINGERPRINT)) is None:
            self._set_tokenizer(tokenizer_from_config(tokenizer))
        else:
            # `load_assets` may follow.
            self._fingerprint, self._tokenizer = fingerprint, _TOKENIZERS.get(fingerprint)
        self.sequence_length = sequence_length
        self.padding = padding
        self.labels = None if labels is None else tuple(labels)
        # Keras would track a dictionary.
        object.__setattr__(self, "task", dict(task or {}))
        object.__setattr__(self, "stored_info", dict(stored_info or {}))

    @property
    def tokenizer(self) -> TextTokenizer:
        """The tokenizer. Raises ConfigError if the preprocessor comes from a configuration without its vocabulary."""
        if self._tokenizer is None:
            raise ConfigError(
                "the configuration of a preprocessor has no vocabulary, only its fingerprint. Received: one of another "
                "process. Load a `.keras` file with `keras.saving.load_model`, or build the preprocessor from a preset."
            )
        return self._tokenizer

    def _set_tokenizer(self, tokenizer: TextTokenizer) -> None:
        content = json.dumps(tokenizer.get_config(), sort_keys=True)
        self._fingerprint = hashlib.sha256(content.encode()).hexdigest()
        self._tokenizer = _TOKENIZERS.setdefault(self._fingerprint, tokenizer)

    def save_assets(self, dir_path: str) -> None:
        """Writes the vocabulary to a folder, for `keras.Model.save`."""
        Path(dir_path, _ASSET).write_text(json.dumps(self.tokenizer.get_config()), encoding="utf-8")

    def load_assets(self, dir_path: str) -> None:
        """Reads the vocabulary of `save_assets`; files of version 0.2.0 have it in their configuration."""
        path = dir_path and Path(dir_path, _ASSET)
        if path and path.exists():
            self._set_tokenizer(tokenizer_from_config(json.loads(path.read_text(encoding="utf-8"))))

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
        arguments = {"sequence_length": min(length, positions), "task": task, "stored_info": info}
        return cls(tokenizer, **(arguments | cls._arguments_of(task, info) | kwargs))

    def without_task(self) -> Self:
        """Returns the preprocessor for a model with another head than that of the preset."""
        return type(self).from_config(self.get_config() | {"task": None, "stored_info": None})

    def model_changes(self) -> None:
        """Drops the information of the preset, which is that of the model before its training."""
        object.__setattr__(self, "stored_info", {})

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
        inputs, targets, weights = rows.batch(numbers, width)
        if not targets:
            return (inputs,)
        parts = (inputs, targets, weights) if rows.weights else (inputs, targets)
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
        rows = self.encode(x, y, sample_weight)
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

    def head(self, model: keras.Model) -> Head | None:
        """Returns the head of a model, with the fields of the task; None if no head describes it."""
        return None

    def examples(self, x: Any) -> list[Any]:
        """Returns texts as examples of the head."""
        raise NotImplementedError

    def answers(self, model: keras.Model, x: Any, head: Head | None) -> list[Any]:
        """Returns the predictions of a head for texts, as those of `TaskPredictor`."""
        assert head is not None
        if isinstance(x, tf.data.Dataset):
            inputs = (keras.utils.unpack_x_y_sample_weight(batch)[0] for batch in x)
            return [answer for batch in inputs for answer in self.answers(model, batch, head)]
        examples = self.examples(x)
        if not examples:
            return []
        config = presets.encoder_of(model).config
        return answers_of(head, examples, self.encode(x), _inference_of(model), config)

    def task_json(self, model: keras.Model) -> dict[str, Any] | None:
        """Returns the content of task.json for a preset of the model; None if no task describes it.

        It has all fields of the task.json of the preset that the preprocessor was loaded from.
        """
        head = self.head(model)
        if head is None:
            return None
        return {"task": head.name} | self.task | {"max_sequence_length": self.sequence_length} | self.described(head)

    def described(self, head: Head) -> dict[str, Any]:
        """Returns the fields of a head for task.json."""
        return head.description()

    def info(self) -> dict[str, Any]:
        """Returns additional information for a preset of the model."""
        labels = {"labels": list(self.labels)} if self.labels else {}
        return self.stored_info | {"sequence_length": self.sequence_length} | labels

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, with the fingerprint of the tokenizer."""
        return super().get_config() | {
            "tokenizer": {_FINGERPRINT: self._fingerprint},
            "sequence_length": self.sequence_length,
            "padding": self.padding,
            "labels": None if self.labels is None else list(self.labels),
            "task": self.task,
            "stored_info": self.stored_info,
        }

    def _fixed_width(self) -> int:
        return self.sequence_length if self.padding == "fixed" else 0


def _inference_of(model: Any) -> Model:
    """Returns a function of the inputs of a model, which does not run on all devices of a strategy."""
    if keras.config.backend() != "tensorflow":
        return model.predict_on_batch
    if model.answering is None:
        model.answering = compiled(model)
    return model.answering


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

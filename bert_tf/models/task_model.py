"""Base class of task models that take texts: strings in `fit`, `evaluate` and `predict`, and defaults of `compile`."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np

from bert_tf.config import ConfigError
from bert_tf.config.training import FINETUNING_RATE, rate_of_width
from bert_tf.models import presets
from bert_tf.models.base import TaskModel
from bert_tf.models.preset_sources import open_preset
from bert_tf.models.weights import copy_weights
from bert_tf.optim import compile_defaults
from bert_tf.text.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

AUTO = "auto"
_PROJECTIONS = ("query", "key", "value", "attention_output")


class TextTaskModel(TaskModel):
    """A task model with a preprocessor, which turns texts into the encoder's inputs.

    `fit`, `evaluate`, `predict` and the `..._on_batch` methods accept texts as documented for the preprocessor, or the
    encoder's inputs as a dictionary. Without preprocessor, they accept only the latter.

    Args:
        *args: arguments of `TaskModel`.
        preprocessor: the preprocessor, of `preprocessor_class()`; None for models of token ids only.
        **kwargs: arguments of `TaskModel`.
    """

    objective: ClassVar[str]
    """Function of `optim.compile_defaults` that returns the default loss and metrics."""

    def __init__(self, *args: Any, preprocessor: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # A preprocessor has no weights, and is not one of the model's layers.
        object.__setattr__(self, "preprocessor", preprocessor)
        object.__setattr__(self, "_auto_optimizer", None)
        # The compiled model of `predict_labels` and its relatives; `compile` and changes of layers drop it.
        object.__setattr__(self, "answering", None)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("preprocessor", "_auto_optimizer", "answering"):
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    @classmethod
    def from_preset(
        cls,
        directory: str | Path,
        dtype: Any = None,
        preprocessor: Any = AUTO,
        frozen_layers: int | None = None,
        layer_decay: float = 1.0,
        **arguments: Any,
    ) -> Self:
        """Builds the model on the encoder of a preset of any kind, and compiles it with defaults.

        The head of the preset is kept if it is of this kind and has as many classes; otherwise the head is new.

        Args:
            directory: preset directory, output directory of a run, `RUN@STEP`, or checkpoint of another program; see
                `load_preset`.
            dtype: Keras dtype policy or its name; defaults to the global policy.
            preprocessor: the preprocessor; by default one with the vocabulary of the preset, and None for a model of
                token ids only.
            frozen_layers: see `freeze_layers`; None trains all layers.
            layer_decay: see `compile`.
            **arguments: arguments of the model such as `num_classes`.

        Returns:
            The model.

        Raises:
            ConfigError: if the directory is not a preset, or an argument is missing or invalid.
        """
        source = open_preset(directory)
        preset = presets.loaded(source, dtype)
        kept = cls._kept(preset, arguments)
        model = kept or cls._on_encoder(preset, arguments)
        source.announce(model)
        if preprocessor == AUTO:
            preprocessor = cls._preprocessor_of(preset)
            if kept is None and preprocessor is not None:
                # They are those of another head.
                preprocessor.labels = None
        if kept is None and preprocessor is not None and (preprocessor.task or preprocessor.stored_info):
            preprocessor = preprocessor.without_task()
        model.preprocessor = preprocessor
        if frozen_layers is not None:
            model.freeze_layers(frozen_layers)
        model.compile(layer_decay=layer_decay)
        return model

    @classmethod
    def _kept(cls, preset: presets.Preset, arguments: Mapping[str, Any]) -> Self | None:
        """Returns the model of a preset of this kind with as many classes; None for other presets."""
        model = preset.model
        if not isinstance(model, cls):
            return None
        merged = {**model._arguments, **arguments}
        if merged.get("num_classes") != model._arguments.get("num_classes"):
            return None
        if merged == model._arguments:
            return model
        other = cls(model.backbone, **merged)
        copy_weights(model, other)
        return other

    @classmethod
    def _on_encoder(cls, preset: presets.Preset, arguments: Mapping[str, Any]) -> Self:
        """Returns a model with a new head on the encoder of a preset, with or without pooler as the head needs it."""
        encoder = presets.encoder_of(preset.model)
        arguments = cls._adapted(preset.config.attention, arguments)
        pooler = cls._needs_pooler(arguments) and encoder.config.heads_need_pooler
        if encoder.config.pooler != pooler:
            if pooler:
                logger.warning("the preset's encoder has no pooler: the pooler starts with random weights")
            other = type(encoder)(replace(encoder.config, pooler=pooler), dtype=encoder.dtype_policy)
            copy_weights(encoder, other)
            encoder = other
        encoder.trainable = True
        try:
            return cls(encoder, **arguments)
        except TypeError as error:
            raise ConfigError(f"{cls.__name__}.from_preset: {error}. Pass the argument to `from_preset`.") from error

    @classmethod
    def _adapted(cls, attention: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments of a new head on an encoder with this kind of attention."""
        return dict(arguments)

    @classmethod
    def _needs_pooler(cls, arguments: Mapping[str, Any]) -> bool:
        """Returns True if the head reads the pooled output."""
        return False

    @classmethod
    def preprocessor_class(cls) -> Any:
        """Returns the class of the preprocessor, which needs TensorFlow."""
        raise NotImplementedError

    @classmethod
    def _preprocessor_of(cls, preset: presets.Preset) -> Any:
        try:
            preprocessor_class = cls.preprocessor_class()
        except ModuleNotFoundError as error:
            if error.name not in ("tensorflow", "tensorflow_text"):
                raise
            logger.warning("%s is not installed: the model takes token ids, not texts", error.name)
            return None
        return preprocessor_class.of_preset(preset)

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns the outputs for the encoder's inputs, or for texts as documented for the preprocessor."""
        if _is_text(inputs) and self._takes(inputs):
            inputs = self.preprocessor(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def compile(
        self,
        optimizer: Any = AUTO,
        loss: Any = AUTO,
        *,
        metrics: Any = AUTO,
        learning_rate: float | None = None,
        layer_decay: float = 1.0,
        **kwargs: Any,
    ) -> None:
        """Compiles the model; arguments that are left out get the defaults of the task.

        The default optimizer is AdamW with linear warm-up over a tenth of the steps and linear decay, weight decay of
        0.01 except for biases and layer normalization, and clipping to a norm of 1. A further `fit` continues the
        optimizer, as in Keras, on the schedule of all steps; `compile` starts a new one.

        Args:
            optimizer: optimizer, or its name.
            loss: loss, or its name.
            metrics: metrics; by default those of the task if the loss is the default too, otherwise none.
            learning_rate: highest learning rate of the default optimizer; defaults to 3e-5, and more for encoders
                narrower than base.
            layer_decay: factor of the default optimizer's learning rate from one layer to the layer below it, in
                (0, 1] (arXiv 2003.10555, section 3.2).
            **kwargs: arguments of `keras.Model.compile`.

        Raises:
            ConfigError: for `learning_rate` or `layer_decay` with another optimizer, or values out of range.
        """
        usual = rate_of_width(FINETUNING_RATE, presets.encoder_of(self).config.hidden_dim)
        rate = usual if learning_rate is None else learning_rate
        if optimizer != AUTO and (learning_rate is not None or layer_decay != 1.0):
            raise ConfigError("`learning_rate` and `layer_decay` are for the default optimizer. Received: an optimizer")
        if not (rate > 0.0 and 0.0 < layer_decay <= 1.0):
            raise ConfigError(
                f"`learning_rate` must be positive and `layer_decay` in (0, 1]. Received: {rate} and {layer_decay}"
            )
        settings = {} if loss != AUTO else getattr(compile_defaults, self._objective())()
        if loss != AUTO:
            settings["loss"] = loss
        if metrics != AUTO:
            settings = {name: value for name, value in settings.items() if "metrics" not in name}
            settings["metrics"] = metrics
        self._auto_optimizer = (rate, layer_decay) if optimizer == AUTO else None
        if optimizer == AUTO:
            optimizer = compile_defaults.optimizer(self, None, rate, layer_decay)
            # The width of batches varies, and XLA compiles each width.
            jit = {"jit_compile": False} if keras.backend.backend() == "tensorflow" else {}
            kwargs = jit | kwargs
        self.answering = None
        super().compile(optimizer=optimizer, **(settings | kwargs))

    def _objective(self) -> str:
        return self.objective

    def get_compile_config(self) -> dict[str, Any]:
        """Returns the arguments of `keras.Model.compile`; those of the default optimizer are part of its entry."""
        config = super().get_compile_config()
        if config and self._auto_optimizer is not None:
            # A plain model, such as that of `keras.models.clone_model`, compiles with the rest of the entry.
            config["optimizer"] = keras.saving.serialize_keras_object(self.optimizer) | {AUTO: self._auto_optimizer}
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles the model with the result of `get_compile_config`."""
        # Files of version 0.2.0 have a key of its own for it.
        auto_optimizer = config.get("auto_optimizer")
        if isinstance(config.get("optimizer"), dict):
            auto_optimizer = config["optimizer"].get(AUTO, auto_optimizer)
        arguments = {name: value for name, value in config.items() if name != "auto_optimizer"}
        self.compile(**keras.saving.deserialize_keras_object(arguments))
        self._auto_optimizer = None if auto_optimizer is None else tuple(auto_optimizer)
        self.optimizer.build(self.trainable_variables)

    def _schedule(self, steps: int | None) -> None:
        """Sets the default optimizer's schedule for a number of further steps; does nothing with other optimizers."""
        if self._auto_optimizer is None or not steps:
            return
        done = int(keras.ops.convert_to_numpy(self.optimizer.iterations))
        if not done:
            self._renew_optimizer(steps)
            return
        inner = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        inner.learning_rate = compile_defaults.schedule(done + steps, self._auto_optimizer[0])
        self.train_function = None

    def fit(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, epochs: int = 1, **kwargs: Any
    ) -> keras.callbacks.History:
        """Trains the model, as `keras.Model.fit`.

        Args:
            x: texts as documented for the preprocessor, a `tf.data.Dataset` of batches of them with labels, or the
                arguments of `keras.Model.fit` for token ids.
            y: labels as documented for the preprocessor.
            batch_size: number of examples in a batch; defaults to 32.
            epochs: number of epochs.
            **kwargs: arguments of `keras.Model.fit`: `validation_data` and `validation_split` may contain texts, too.

        Returns:
            The history of losses and metrics. A classifier that is no better than the most frequent label is named in
            the log, with what to do.
        """
        labels = y
        if self._takes(x):
            options = {name: kwargs.pop(name, default) for name, default in _DATA_OPTIONS.items()}
            data, validation = self.preprocessor.training_data(
                self, (x, y, options["sample_weight"]), batch_size or 32, options
            )
            x, y, batch_size = data, None, None
            kwargs |= {"validation_data": validation, "shuffle": False}
        elif kwargs.get("validation_data") is not None and self._takes(_inputs_of(kwargs["validation_data"])):
            kwargs["validation_data"] = self._data(*_unpacked(kwargs["validation_data"]), batch_size)
        passes = epochs - kwargs.get("initial_epoch", 0)
        steps = _steps(x, batch_size, kwargs.get("steps_per_epoch"), passes)
        self._schedule(steps)
        if self.preprocessor is not None:
            self.preprocessor.model_changes()
        history = super().fit(x, y, batch_size=batch_size, epochs=epochs, **kwargs)
        if labels is not None and self._objective() == "classification" and history.history.get("accuracy"):
            rate = None if self._auto_optimizer is None else self._auto_optimizer[0]
            width, accuracy = presets.encoder_of(self).config.hidden_dim, history.history["accuracy"][-1]
            if remark := compile_defaults.remark_on(labels, accuracy, steps, passes, rate, width):
                logger.warning(remark)
        return history

    def evaluate(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, sample_weight: Any = None, **kwargs: Any
    ) -> Any:
        """Returns losses and metrics, as `keras.Model.evaluate`; `x` and `y` as in `fit`."""
        if self._takes(x):
            x = self._data(x, y, sample_weight, batch_size)
            y = batch_size = sample_weight = None
        return super().evaluate(x, y, batch_size=batch_size, sample_weight=sample_weight, **kwargs)

    def predict(self, x: Any, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Returns the outputs, as `keras.Model.predict`; `x` as in `fit`.

        If the preprocessor splits long texts into several rows, there is one output for each row.
        """
        if self._takes(x):
            x, batch_size = self.preprocessor.dataset(x, batch_size=batch_size or 32), None
        return super().predict(x, batch_size=batch_size, **kwargs)

    def train_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, **kwargs: Any) -> Any:
        """Trains on one batch, as `keras.Model.train_on_batch`; `x` and `y` as in `fit`."""
        data = self._batch(x, y, sample_weight)
        if self.preprocessor is not None:
            self.preprocessor.model_changes()
        return super().train_on_batch(*data, **kwargs)

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, **kwargs: Any) -> Any:
        """Returns losses and metrics of one batch, as `keras.Model.test_on_batch`; `x` and `y` as in `fit`."""
        return super().test_on_batch(*self._batch(x, y, sample_weight), **kwargs)

    def predict_on_batch(self, x: Any) -> Any:
        """Returns the outputs of one batch, as `keras.Model.predict_on_batch`; `x` as in `fit`."""
        return super().predict_on_batch(self._batch(x, None, None, labelled=False)[0])

    def _takes(self, x: Any) -> bool:
        """Returns True if `x` must pass the preprocessor. Raises ConfigError for texts without preprocessor."""
        if self.preprocessor is not None:
            return x is not None and not self.preprocessor.holds_ids(x)
        if _is_text(x):
            raise ConfigError(
                f"a {type(self).__name__} without `preprocessor` takes a dictionary of token_ids, segment_ids and "
                "padding_mask. Received: texts. Build the model with `from_preset`, or set `model.preprocessor`."
            )
        return False

    def required_preprocessor(self) -> Any:
        """Returns the preprocessor. Raises ConfigError for a model of token ids only."""
        if self.preprocessor is None:
            raise ConfigError(
                f"this method of a {type(self).__name__} requires a `preprocessor`. Received: None. Build the model "
                "with `from_preset`, or set `model.preprocessor`."
            )
        return self.preprocessor

    def _data(self, x: Any, y: Any, sample_weight: Any, batch_size: int | None) -> Any:
        return self.preprocessor.dataset(x, y, sample_weight, batch_size or 32, model=self)

    def _batch(self, x: Any, y: Any, sample_weight: Any, labelled: bool = True) -> tuple[Any, Any, Any]:
        if not self._takes(x):
            return x, y, sample_weight
        if labelled and y is None:
            y = self.preprocessor.default_targets(x)
        return self.preprocessor.batch_of(x, y, sample_weight)

    def freeze_layers(self, layers: int) -> None:
        """Freezes the embeddings and the lowest layers of the encoder.

        Call `compile` afterwards, unless the optimizer is the default one.

        Args:
            layers: n; 0 freezes only the embeddings.

        Raises:
            ConfigError: if the encoder has fewer layers.
        """
        encoder = presets.encoder_of(self)
        names = list(encoder.layer_outputs)
        if not 0 <= layers < len(names):
            raise ConfigError(f"`frozen_layers` must be from 0 to {len(names) - 1}. Received: {layers}")
        for name in names[: layers + 1]:
            encoder.get_layer(name).trainable = False
        self._renew_optimizer()

    def enable_lora(self, rank: int, targets: Sequence[str] = ("query", "value"), alpha: float | None = None) -> None:
        """Freezes the encoder and adds low-rank matrices to its attention (LoRA, arXiv 2106.09685).

        The matrices and the head are trained. Saved models and presets contain the sum of kernels and matrices, and
        load as plain models. Call `compile` afterwards, unless the optimizer is the default one.

        Args:
            rank: rank of the matrices.
            targets: projections of each attention layer: `query`, `key`, `value`, `attention_output`.
            alpha: the product of the matrices is multiplied by `alpha / rank`; defaults to `rank`.

        Raises:
            ConfigError: for an unknown projection.
            ValueError: for a rank below 1, and if LoRA is enabled already.
        """
        unknown = sorted(set(targets) - set(_PROJECTIONS))
        if unknown or not targets:
            raise ConfigError(f"`targets` must name some of {', '.join(_PROJECTIONS)}. Received: {list(targets)}")
        for variable in presets.encoder_of(self).variables:
            variable.trainable = False
        for attention in self._attention_layers():
            for target in targets:
                getattr(attention, target).enable_lora(rank, alpha)
        self._renew_optimizer()

    def merge_lora(self) -> None:
        """Adds the low-rank matrices to the kernels and resets them; the outputs are unchanged."""
        for attention in self._attention_layers():
            for name in _PROJECTIONS:
                getattr(attention, name).merge_lora()

    def _attention_layers(self) -> list[Any]:
        encoder = presets.encoder_of(self)
        return [encoder.get_layer(f"layer_{number}").attention for number in range(1, encoder.config.num_layers + 1)]

    def _renew_optimizer(self, steps: int | None = None) -> None:
        """Replaces the default optimizer by a new one, for a number of steps or for other trainable variables."""
        if self._auto_optimizer is not None:
            strategy = getattr(self, "distribute_strategy", None)
            with strategy.scope() if strategy is not None else contextlib.nullcontext():
                self.optimizer = compile_defaults.optimizer(self, steps, *self._auto_optimizer)
        self.train_function = self.answering = None

    def save_to_preset(
        self,
        directory: str | Path,
        vocabulary: Vocabulary | None = None,
        lowercase: bool | None = None,
        task: Mapping[str, Any] | None = None,
        info: Mapping[str, Any] | None = None,
    ) -> None:
        """Saves the model as a preset; see `presets.save_preset`.

        Args:
            directory: output directory, which must be missing, empty or a preset.
            vocabulary: vocabulary; defaults to that of the preprocessor.
            lowercase: whether the tokenizer lower-cases; defaults to the preprocessor's tokenizer, or True.
            task: content of task.json; by default the preprocessor describes the task.
            info: additional information that JSON can represent.

        Raises:
            ConfigError: if there is neither a vocabulary nor a preprocessor, the vocabulary does not match the model,
                or `directory` contains other files.
        """
        if self.preprocessor is not None:
            tokenizer = self.preprocessor.tokenizer
            vocabulary = vocabulary or tokenizer.vocabulary
            lowercase = tokenizer.lowercase if lowercase is None else lowercase
            task = self.preprocessor.task_json(self) if task is None else task
            info = self.preprocessor.info() | dict(info or {})
        if vocabulary is None:
            raise ConfigError("`vocabulary` is required for a model without `preprocessor`. Received: None")
        presets.save_preset(self._stored(), directory, vocabulary, lowercase is not False, task, info)

    def _stored(self) -> keras.Model:
        """Returns the model that a preset holds."""
        return self

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, with the encoder and the preprocessor serialized."""
        config = super().get_config()
        if self.preprocessor is None:
            return config
        return config | {"preprocessor": keras.saving.serialize_keras_object(self.preprocessor)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """Builds the model from the result of `get_config`."""
        if config.get("preprocessor") is not None:
            # Registers the class with Keras.
            cls.preprocessor_class()
            preprocessor = keras.saving.deserialize_keras_object(config["preprocessor"], custom_objects)
            config = config | {"preprocessor": preprocessor}
        return super().from_config(config, custom_objects)


# Arguments of `fit` that contain data, and their defaults.
_DATA_OPTIONS: dict[str, Any] = {
    "sample_weight": None,
    "validation_data": None,
    "validation_split": 0.0,
    "validation_batch_size": None,
    "shuffle": True,
}


# Names of the dtypes of texts in TensorFlow, Keras and pandas.
_TEXT_DTYPES = ("string", "str")


def _is_text(x: Any) -> bool:
    """Returns True for a text, and for lists, arrays, tensors, columns and data frames of texts."""
    while (isinstance(x, list | tuple | Mapping) and x) or hasattr(x, "columns"):
        is_named = isinstance(x, Mapping) or hasattr(x, "columns")
        x = x[next(iter(x))] if is_named else x[0]
    if getattr(getattr(x, "dtype", None), "kind", "") == "O" and np.size(x):
        x = np.asarray(x).flat[0]
    if isinstance(x, str | bytes):
        return True
    dtype = getattr(x, "dtype", None)
    return dtype.kind in "US" if isinstance(dtype, np.dtype) else str(getattr(dtype, "name", dtype)) in _TEXT_DTYPES


def _unpacked(data: Any) -> tuple[Any, Any, Any]:
    return keras.utils.unpack_x_y_sample_weight(data) if isinstance(data, tuple) else (data, None, None)


def _inputs_of(data: Any) -> Any:
    return _unpacked(data)[0]


def _steps(x: Any, batch_size: int | None, steps_per_epoch: int | None, epochs: int) -> int | None:
    """Returns the number of training steps; None if it is unknown."""
    if steps_per_epoch is None:
        if isinstance(x, Mapping):
            rows = len(next(iter(x.values())))
            steps_per_epoch = -(-rows // (batch_size or 32))
        elif hasattr(x, "cardinality"):
            steps_per_epoch = int(x.cardinality())
        elif hasattr(x, "num_batches"):
            steps_per_epoch = x.num_batches
    if not isinstance(steps_per_epoch, int) or steps_per_epoch < 1:
        return None
    return steps_per_epoch * max(epochs, 1)

"""Registry of the kinds of models that presets hold. Each model class registers itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras


@dataclass(frozen=True)
class Head:
    """Head of a task in checkpoints of other formats (see `bert_tf.conversion.tensors`).

    Args:
        name: name of the head in all formats.
        prefix: prefix of its tensors `output_weights` and `output_bias`.
        outputs: number of outputs; None if it is the model's `num_classes`.
    """

    name: str
    prefix: str
    outputs: int | None = None


@dataclass(frozen=True)
class ModelKind:
    """A kind of model.

    Args:
        model: model class.
        head: head of the task; None for an encoder, for pre-training, and for models that other formats do not support.
        convertible: whether other formats support the model.
    """

    model: type[Any]
    head: Head | None
    convertible: bool

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the constructor's parameters."""
        return tuple(inspect.signature(self.model.__init__).parameters)


# Kinds by the name of the class.
MODEL_KINDS: dict[str, ModelKind] = {}


def register_model(*, head: Head | None = None, convertible: bool = False) -> Callable[[type[Any]], type[Any]]:
    """Returns a decorator that registers a model class as a kind of model, and with Keras.

    Args:
        head: head of the task in checkpoints of other formats.
        convertible: whether other formats support a model without `head`.
    """

    def register(model: type[Any]) -> type[Any]:
        MODEL_KINDS[model.__name__] = ModelKind(model, head, convertible or head is not None)
        return keras.saving.register_keras_serializable(package="bert_tf")(model)

    return register

"""What a run on a task starts from: an encoder, what is put on it, what of it is trained."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import keras

from bert_tf.config import BertConfig, ConfigError
from bert_tf.models import BertBackbone, BertBiLSTMEncoder, Preset
from bert_tf.models.presets import encoder_of
from bert_tf.models.weights import copy_weights
from bert_tf.tasks.base import Task
from bert_tf.tasks.features.config import Features

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FinetuneInit:
    """What a run starts from.

    Args:
        preset: a preset of any kind, or the output of a run; where its encoder has no pooler and the task needs one, it
            gets a new one.
        from_scratch: keep the encoder's architecture but not its weights.
        keep_head: go on with the head of the preset too, which is one of this task.
        frozen_layers: None trains all; 0 leaves the embeddings as they are, n also the lowest n layers.
        length: tokens of a row at most; None takes the task's default, or the model's positions where they are fewer.
        features: train on what the encoder gives and leave it as it is; None trains the encoder.
        bilstm_dim: width of each direction of a new BiLSTM between the encoder and the task's head; None puts none
            there.
    """

    preset: str | Path
    from_scratch: bool = False
    keep_head: bool = False
    frozen_layers: int | None = None
    length: int | None = None
    features: Features | None = None
    bilstm_dim: int | None = None

    def __post_init__(self) -> None:
        others = self.from_scratch, self.frozen_layers is not None, self.bilstm_dim is not None
        if self.features and any(others):
            raise ConfigError(
                "features are those of an encoder with its own weights, all frozen, and nothing on it: they do not go "
                "with `from_scratch`, `frozen_layers` or `bilstm`."
            )

    def adapted(self, task: Task, config: BertConfig) -> Task:
        """Returns the task as it is learnt on this encoder; final states and fixed features stay what they are."""
        return task if self.bilstm_dim is not None or self.features else task.adapt_to_encoder(config)

    def tokens(self, task: Task, positions: int) -> int:
        """Returns the tokens of a row for a model of `positions`. Raises ValueError where it has too few."""
        if self.length is None:
            return min(task.default_length, positions)
        if self.length > positions:
            raise ValueError(
                f"`max_seq_length` must not exceed the model's {positions} positions. Received: {self.length}"
            )
        return self.length


def builder(task: Task, source: Preset, start: FinetuneInit) -> Callable[[], keras.Model]:
    """Returns what builds the task's model on a copy of the encoder, pooler and frozen layers as they are to be."""
    encoder = encoder_of(source.model)
    # The final states of a BiLSTM are read in its place.
    pooler = task.needs_pooler and start.bilstm_dim is None and not start.features
    if pooler and not source.config.pooler:
        logger.warning("the encoder of the preset has no pooler: the task's starts with random weights")

    def build() -> keras.Model:
        backbone = BertBackbone(replace(source.config, pooler=pooler))
        if not start.from_scratch:
            copy_weights(encoder, backbone)
        for name in _frozen(backbone, start.frozen_layers):
            backbone.get_layer(name).trainable = False
        if start.features:
            model: keras.Model = start.features.model(task, backbone)
        else:
            bilstm = start.bilstm_dim
            model = task.build(backbone if bilstm is None else BertBiLSTMEncoder(backbone, bilstm))
        if start.keep_head:
            copy_weights(source.model, model)
        return model

    return build


def _frozen(backbone: BertBackbone, layers: int | None) -> list[str]:
    names = list(backbone.layer_outputs)
    if layers is None:
        return []
    if not 0 <= layers < len(names):
        raise ValueError(f"`frozen_layers` must be from 0 to the model's {len(names) - 1} layers. Received: {layers}")
    return names[: layers + 1]

"""Initialization of fine-tuning runs: encoder, head, frozen layers."""

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
    """Initialization of a fine-tuning run.

    Args:
        preset: a preset of any kind, run, `RUN@STEP`, or checkpoint of another program; see `load_preset`. If the task
            needs a pooler and the encoder has none, a new one is added.
        from_scratch: keep the encoder's architecture, but initialize its weights randomly.
        keep_head: also copy the weights of the preset's head, which must be of this task.
        frozen_layers: None trains all layers; 0 freezes the embeddings, n also the lowest n layers.
        max_sequence_length: maximum tokens of a row; None uses the task's default, limited by the model's positions.
        features: train on features of the frozen encoder; None trains the encoder.
        bilstm_dim: width of each direction of a new BiLSTM between the encoder and the task's head; None adds no
            BiLSTM.

    Raises:
        ConfigError: if `features` is combined with `from_scratch`, `frozen_layers` or `bilstm_dim`.

    Example:
        >>> start = bert_tf.FinetuneInit("runs/laptop", frozen_layers=1)
        >>> start.tokens(bert_tf.task_class("sst2")(), positions=512)
        128
    """

    preset: str | Path
    from_scratch: bool = False
    keep_head: bool = False
    frozen_layers: int | None = None
    max_sequence_length: int | None = None
    features: Features | None = None
    bilstm_dim: int | None = None

    def __post_init__(self) -> None:
        conflicts = self.from_scratch, self.frozen_layers is not None, self.bilstm_dim is not None
        if self.features and any(conflicts):
            raise ConfigError(
                "`features` uses a frozen pre-trained encoder; it cannot be combined with `from_scratch`, "
                "`frozen_layers` or `bilstm`."
            )

    def adapted(self, task: Task, config: BertConfig) -> Task:
        """Returns the task adapted to the encoder; unchanged for a BiLSTM and for features."""
        return task if self.bilstm_dim is not None or self.features else task.adapt_to_encoder(config)

    def tokens(self, task: Task, positions: int) -> int:
        """Returns the maximum tokens of a row. Raises ValueError if they exceed the model's `positions`."""
        length = self.max_sequence_length
        if length is None:
            return min(task.max_sequence_length, positions)
        if length > positions:
            raise ValueError(
                f"`max_sequence_length` must not exceed the model's {positions} positions. Received: {length}"
            )
        return length


def builder(task: Task, source: Preset, start: FinetuneInit) -> Callable[[], keras.Model]:
    """Returns a function that builds the task's model on a copy of the encoder, with its pooler and frozen layers."""
    encoder = encoder_of(source.model)
    # With a BiLSTM, its final states replace the pooler's output.
    pooler = task.needs_pooler and source.config.heads_need_pooler and start.bilstm_dim is None and not start.features
    if pooler and not source.config.pooler:
        logger.warning("the preset's encoder has no pooler: the task's pooler starts with random weights")

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

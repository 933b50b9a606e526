"""Models on an encoder that stays as it is, whole: from token ids to logits.

What they learn is trained on features that are kept on disk; whole, they go into presets and answer texts. The outputs
of the encoder are rounded to float16 on their way, as those on disk are, so that both give the same.

Shape legend: B batch, S sequence, H hidden, C classes.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bert_tf.config import ConfigError
from bert_tf.config.features import CONCATENATED, WEIGHTED, Combination, combination
from bert_tf.data.schema import FEATURES, PADDING_MASK
from bert_tf.models.backbone import BertBackbone
from bert_tf.models.bilstm_tagger import BILSTM_DIM, BiLSTMTagger
from bert_tf.models.task_model import TaskModel, check_classes

POOLINGS = ("first", "mean", "max")
# Lower than any feature: what padding counts as where the largest is taken.
_LOWEST = -65504.0


@keras.saving.register_keras_serializable(package="bert_tf")
class BertFeatureTagger(TaskModel):
    """A `BiLSTMTagger` on the encoder, which it freezes.

    Args:
        backbone: the encoder; its `trainable` is set to False.
        num_classes: C.
        combination: a name of `config.features.COMBINATIONS`, or of one layer.
        bilstm_dim: width of each direction of the BiLSTM.
        dropout: rate in the tagger.
        name: of the model.
        **kwargs: `trainable`.

    Call arguments:
        inputs: the encoder's.

    Returns:
        Logits, (B, S, C), computed in float32 whatever the dtype policy.

    Raises:
        ConfigError: as `BiLSTMTagger` and `config.features.combination` do.
    """

    num_classes: int
    combination: str
    bilstm_dim: int
    dropout: float

    def __init__(
        self,
        backbone: BertBackbone,
        num_classes: int,
        combination: str = "concat_last_4",
        bilstm_dim: int = BILSTM_DIM,
        dropout: float = 0.1,
        name: str = "bert_feature_tagger",
        **kwargs: Any,
    ) -> None:
        chosen = _chosen(combination, backbone)
        tagger = BiLSTMTagger(
            num_classes,
            len(chosen.layers),
            backbone.config.hidden_dim,
            chosen.way,
            bilstm_dim,
            dropout,
            dtype=backbone.dtype_policy,
        )
        features = ops.stack(list(token_features(backbone, chosen.layers).values()), axis=2)
        outputs = tagger({FEATURES: features, PADDING_MASK: backbone.input[PADDING_MASK]})
        arguments = {
            "num_classes": num_classes,
            "combination": combination,
            "bilstm_dim": bilstm_dim,
            "dropout": dropout,
        }
        super().__init__(backbone, backbone.input, outputs, arguments, name, **kwargs)
        backbone.trainable = False
        self.tagger = tagger


@keras.saving.register_keras_serializable(package="bert_tf")
class BertProbe(TaskModel):
    """A linear classifier of whole texts on the encoder, which it freezes.

    Args:
        backbone: the encoder; its `trainable` is set to False.
        num_classes: C; 1 for a regression.
        combination: a name of `config.features.COMBINATIONS`, no weighted sum, or of one layer.
        pooling: how tokens become one vector: `first`, that of [CLS]; `mean` or `max` over all tokens.
        name: of the model.
        **kwargs: `trainable`.

    Call arguments:
        inputs: the encoder's.

    Returns:
        Logits, (B, C), computed in float32 whatever the dtype policy.

    Raises:
        ConfigError: for fewer than one class, another pooling, or as `config.features.combination` does.
    """

    num_classes: int
    combination: str
    pooling: str

    def __init__(
        self,
        backbone: BertBackbone,
        num_classes: int,
        combination: str = "last",
        pooling: str = "first",
        name: str = "bert_probe",
        **kwargs: Any,
    ) -> None:
        check_classes(num_classes)
        features = list(pooled_features(backbone, _chosen(combination, backbone), pooling).values())
        together = features[0] if len(features) == 1 else ops.concatenate(features, axis=-1)
        outputs = keras.layers.Dense(num_classes, dtype="float32", name="logits")(together)
        arguments = {"num_classes": num_classes, "combination": combination, "pooling": pooling}
        super().__init__(backbone, backbone.input, outputs, arguments, name, **kwargs)
        backbone.trainable = False


def token_features(backbone: BertBackbone, layers: tuple[str, ...]) -> dict[str, keras.KerasTensor]:
    """Returns the symbolic outputs of some layers by name, (B, S, H) float16, on the encoder's inputs."""
    outputs = backbone.features(layers)(backbone.input)
    return {name: ops.cast(outputs[name], "float16") for name in layers}


def pooled_features(backbone: BertBackbone, chosen: Combination, pooling: str) -> dict[str, keras.KerasTensor]:
    """Returns a vector a row of each layer, `layer.pooling` (B, H) float16, symbolic, on the encoder's inputs.

    Args:
        backbone: the encoder.
        chosen: layers, not to be weighted.
        pooling: of `POOLINGS`.

    Raises:
        ConfigError: for another pooling, or layers to be weighted.
    """
    if pooling not in POOLINGS:
        raise ConfigError(f"`pooling` must be one of {', '.join(POOLINGS)}. Received: {pooling!r}")
    if chosen.way == WEIGHTED:
        raise ConfigError(
            f"a linear classifier takes one layer, or several side by side ({CONCATENATED}), no sum whose weights are "
            f"to be learned. Received: {chosen.name}"
        )
    outputs = backbone.features(chosen.layers)(backbone.input)
    there = ops.expand_dims(ops.not_equal(backbone.input[PADDING_MASK], 0), axis=-1)
    return {
        f"{name}.{pooling}": ops.cast(_pooled(ops.cast(outputs[name], "float32"), there, pooling), "float16")
        for name in chosen.layers
    }


def _pooled(hidden: Any, there: Any, pooling: str) -> Any:
    if pooling == "first":
        return hidden[:, 0]
    if pooling == "max":
        return ops.max(ops.where(there, hidden, _LOWEST), axis=1)
    return ops.sum(ops.where(there, hidden, 0.0), axis=1) / ops.sum(ops.cast(there, "float32"), axis=1)


def _chosen(name: str, backbone: BertBackbone) -> Combination:
    return combination(name, backbone.config.num_layers)

"""Models with a frozen encoder, from token ids to logits.

Their heads are trained on features cached on disk; the complete models are saved as presets and used for prediction.
The encoder's outputs are rounded to float16, as in the cache, so that training and prediction see the same features.

Shape legend: B batch, S sequence, H hidden, C classes.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bert_tf.config import ConfigError
from bert_tf.config.features import CONCATENATED, WEIGHTED, Combination
from bert_tf.config.features import combination as combined
from bert_tf.config.model import POOLINGS
from bert_tf.data.schema import FEATURES, PADDING_MASK
from bert_tf.layers.pooling import TokenPooling
from bert_tf.models.backbone import BertBackbone
from bert_tf.models.base import TaskModel, check_at_least_one
from bert_tf.models.bilstm_tagger import BILSTM_DIM, BiLSTMTagger
from bert_tf.models.kinds import register_model

# Frozen encoders read in both directions, so that the last token is not special.
FEATURE_POOLINGS = POOLINGS[:3]


@register_model()
class BertFeatureTagger(TaskModel):
    """A `BiLSTMTagger` on a frozen encoder.

    Args:
        backbone: the encoder; its `trainable` attribute is set to False.
        num_classes: C.
        combination: key of `config.features.COMBINATIONS`, or the name of a single layer.
        bilstm_dim: number of units per direction of the BiLSTM.
        dropout: dropout rate of the tagger.
        name: model name.
        **kwargs: arguments of `keras.Model`, such as `trainable`.

    Call arguments:
        inputs: dictionary of the encoder's inputs.

    Returns:
        Logits, (B, S, C), computed in float32 under any dtype policy.

    Raises:
        ConfigError: for the arguments that `BiLSTMTagger` or `config.features.combination` rejects.

    Example:
        >>> backbone = bert_tf.BertBackbone(bert_tf.BertConfig.from_size("tiny", vocabulary_size=100))
        >>> model = bert_tf.BertFeatureTagger(backbone, num_classes=9, combination="last", bilstm_dim=8)
        >>> ids = np.array([[2, 5, 6, 3]])
        >>> keras.ops.shape(model({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 1 * (ids > 0)}))
        (1, 4, 9)
        >>> backbone.trainable
        False
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
        chosen = combined(combination, backbone.config.num_layers)
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


@register_model()
class BertProbe(TaskModel):
    """A linear text classifier on a frozen encoder.

    Args:
        backbone: the encoder; its `trainable` attribute is set to False.
        num_classes: C; 1 for regression.
        combination: key of `config.features.COMBINATIONS` (weighted sums excluded), or the name of a single layer.
        pooling: `first` (the [CLS] token), or `mean` or `max` over all tokens.
        name: model name.
        **kwargs: arguments of `keras.Model`, such as `trainable`.

    Call arguments:
        inputs: dictionary of the encoder's inputs.

    Returns:
        Logits, (B, C), computed in float32 under any dtype policy.

    Raises:
        ConfigError: for fewer than one class, an unknown pooling, or an invalid combination.

    Example:
        >>> backbone = bert_tf.BertBackbone(bert_tf.BertConfig.from_size("tiny", vocabulary_size=100))
        >>> model = bert_tf.BertProbe(backbone, num_classes=2, combination="last", pooling="mean")
        >>> ids = np.array([[2, 5, 6, 3]])
        >>> keras.ops.shape(model({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 1 * (ids > 0)}))
        (1, 2)
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
        check_at_least_one("num_classes", num_classes)
        chosen = combined(combination, backbone.config.num_layers)
        features = list(pooled_features(backbone, chosen, pooling).values())
        vector = features[0] if len(features) == 1 else ops.concatenate(features, axis=-1)
        outputs = keras.layers.Dense(num_classes, dtype="float32", name="logits")(vector)
        arguments = {"num_classes": num_classes, "combination": combination, "pooling": pooling}
        super().__init__(backbone, backbone.input, outputs, arguments, name, **kwargs)
        backbone.trainable = False


def token_features(backbone: BertBackbone, layers: tuple[str, ...]) -> dict[str, keras.KerasTensor]:
    """Returns the symbolic outputs of `layers` by name, (B, S, H) float16, for the encoder's inputs."""
    outputs = backbone.features(layers)(backbone.input)
    return {name: ops.cast(outputs[name], "float16") for name in layers}


def pooled_features(backbone: BertBackbone, chosen: Combination, pooling: str) -> dict[str, keras.KerasTensor]:
    """Returns one pooled vector per row and layer.

    Args:
        backbone: the encoder.
        chosen: combination of layers, not a weighted sum.
        pooling: one of `FEATURE_POOLINGS`.

    Returns:
        Symbolic outputs for the encoder's inputs, (B, H) float16, with names `layer.pooling`.

    Raises:
        ConfigError: for an unknown pooling, or a weighted sum.
    """
    if pooling not in FEATURE_POOLINGS:
        raise ConfigError(f"`pooling` must be one of {', '.join(FEATURE_POOLINGS)}. Received: {pooling!r}")
    if chosen.way == WEIGHTED:
        raise ConfigError(
            f"a linear classifier supports a single layer or concatenated layers ({CONCATENATED}), not a learned "
            f"weighted sum. Received: {chosen.name}"
        )
    outputs, mask = backbone.features(chosen.layers)(backbone.input), backbone.input[PADDING_MASK]

    def pool(name: str) -> keras.KerasTensor:
        if pooling == "first":
            return outputs[name][:, 0]
        return TokenPooling(pooling, dtype="float32", name=f"{name}_pooling")(outputs[name], mask)

    return {f"{name}.{pooling}": ops.cast(pool(name), "float16") for name in chosen.layers}

"""A label for every token from features of an encoder that is not trained.

Shape legend: B batch, S sequence, L layers, H hidden, C classes.
"""

from __future__ import annotations

from typing import Any

import keras

from bert_tf.config import ConfigError
from bert_tf.config.features import CONCATENATED, WEIGHTED
from bert_tf.data.schema import FEATURES, PADDING_MASK
from bert_tf.layers.bilstm import BiLSTM
from bert_tf.layers.weighted_sum import WeightedSum
from bert_tf.models.task_model import check_classes

# arXiv 1810.04805, section 5.3: "a randomly initialized two-layer 768-dimensional BiLSTM".
BILSTM_DIM, BILSTM_LAYERS = 768, 2


@keras.saving.register_keras_serializable(package="bert_tf")
class BiLSTMTagger(keras.Model):
    """The feature-based approach of arXiv 1810.04805, section 5.3: layers put together, a BiLSTM, a classifier.

    Args:
        num_classes: C.
        num_features: L, layers that come in.
        feature_dim: H.
        way: how layers are put together: `one`, `concat` or `weighted_sum`.
        bilstm_dim: width of each direction of the two-layer BiLSTM.
        dropout: rate on what each of its layers, and the classifier, reads.
        dtype: a Keras dtype policy or its name; the global one when `None`.
        name: of the model.
        **kwargs: `trainable`.

    Call arguments:
        inputs: dictionary of `features` (B, S, L, H) float16 and `padding_mask` (B, S) int32, 1 where there is a token.

    Returns:
        Logits, (B, S, C), computed in float32 whatever the dtype policy. Those of padding mean nothing.

    Raises:
        ConfigError: for fewer than one class, a rate outside [0, 1) or a width below 1.
    """

    def __init__(
        self,
        num_classes: int,
        num_features: int,
        feature_dim: int,
        way: str = CONCATENATED,
        bilstm_dim: int = BILSTM_DIM,
        dropout: float = 0.1,
        dtype: Any = None,
        name: str = "bilstm_tagger",
        **kwargs: Any,
    ) -> None:
        check_classes(num_classes)
        check_bilstm(bilstm_dim, dropout)
        policy = keras.dtype_policies.get(dtype)
        inputs = {
            FEATURES: keras.Input(shape=(None, num_features, feature_dim), dtype="float16", name=FEATURES),
            PADDING_MASK: keras.Input(shape=(None,), dtype="int32", name=PADDING_MASK),
        }
        together: keras.layers.Layer = (
            WeightedSum(dtype=policy, name="weighted_sum")
            if way == WEIGHTED
            else keras.layers.Reshape((-1, num_features * feature_dim), dtype=policy, name="side_by_side")
        )
        bilstm = BiLSTM(bilstm_dim, BILSTM_LAYERS, dropout, dtype=policy, name="bilstm")
        hidden, _ = bilstm(together(inputs[FEATURES]), inputs[PADDING_MASK])
        hidden = keras.layers.Dropout(dropout, dtype=policy, name="head_dropout")(hidden)
        outputs = keras.layers.Dense(num_classes, dtype="float32", name="logits")(hidden)
        super().__init__(inputs=inputs, outputs=outputs, name=name, **kwargs)
        self.dtype_policy = policy
        self._arguments = {
            "num_classes": num_classes,
            "num_features": num_features,
            "feature_dim": feature_dim,
            "way": way,
            "bilstm_dim": bilstm_dim,
            "dropout": dropout,
        }

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **self._arguments,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "name": self.name,
            "trainable": self.trainable,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> BiLSTMTagger:
        """Builds the model from what `get_config` gave."""
        return cls(**config)


def check_bilstm(bilstm_dim: int, dropout: float) -> None:
    """Raises ConfigError for a width below 1 or a rate outside [0, 1)."""
    if bilstm_dim < 1:
        raise ConfigError(f"`bilstm_dim` must be at least 1. Received: {bilstm_dim}")
    if not 0.0 <= dropout < 1.0:
        raise ConfigError(f"`dropout` must be in [0, 1). Received: {dropout}")

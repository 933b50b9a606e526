"""Token classifier on features of a frozen encoder.

Shape legend: B batch, S sequence, L layers, H hidden, C classes.
"""

from __future__ import annotations

from typing import Any

import keras

from bert_tf.config.features import CONCATENATED, WEIGHTED
from bert_tf.data.schema import FEATURES, PADDING_MASK
from bert_tf.layers.bilstm import BiLSTM
from bert_tf.layers.weighted_sum import WeightedSum
from bert_tf.models.base import check_at_least_one, check_dropout

# arXiv 1810.04805, section 5.3: "a randomly initialized two-layer 768-dimensional BiLSTM".
BILSTM_DIM, BILSTM_LAYERS = 768, 2


@keras.saving.register_keras_serializable(package="bert_tf")
class BiLSTMTagger(keras.Model):
    """Feature-based token classifier of arXiv 1810.04805, section 5.3: combined layers, a BiLSTM, a dense layer.

    Args:
        num_classes: C.
        num_features: L, number of input layers.
        feature_dim: H.
        way: how the layers are combined: `one`, `concat` or `weighted_sum`.
        bilstm_dim: number of units per direction of the two-layer BiLSTM.
        dropout: dropout rate on the inputs of each BiLSTM layer and of the classifier.
        dtype: Keras dtype policy or its name; defaults to the global policy.
        name: model name.
        **kwargs: arguments of `keras.Model`, such as `trainable`.

    Call arguments:
        inputs: dictionary of `features` (B, S, L, H) float16 and `padding_mask` (B, S) int32, 1 for tokens and
            0 for padding.

    Returns:
        Logits, (B, S, C), computed in float32 under any dtype policy. Logits at padding positions are undefined.

    Raises:
        ConfigError: for fewer than one class, a dropout rate outside [0, 1) or fewer than one unit.

    Example:
        >>> tagger = bert_tf.models.BiLSTMTagger(num_classes=9, num_features=4, feature_dim=16, bilstm_dim=8)
        >>> features = np.zeros((1, 5, 4, 16), "float16")  # one text of five tokens, four layers of 16 dimensions
        >>> keras.ops.shape(tagger({"features": features, "padding_mask": np.ones((1, 5))}))
        (1, 5, 9)
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
        check_at_least_one("num_classes", num_classes)
        check_at_least_one("bilstm_dim", bilstm_dim)
        check_dropout(dropout)
        policy = keras.dtype_policies.get(dtype)
        inputs = {
            FEATURES: keras.Input(shape=(None, num_features, feature_dim), dtype="float16", name=FEATURES),
            PADDING_MASK: keras.Input(shape=(None,), dtype="int32", name=PADDING_MASK),
        }
        combine: keras.layers.Layer = (
            WeightedSum(dtype=policy, name="weighted_sum")
            if way == WEIGHTED
            else keras.layers.Reshape((-1, num_features * feature_dim), dtype=policy, name="side_by_side")
        )
        bilstm = BiLSTM(bilstm_dim, BILSTM_LAYERS, dropout, dtype=policy, name="bilstm")
        hidden, _ = bilstm(combine(inputs[FEATURES]), inputs[PADDING_MASK])
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
        """Builds the model from the result of `get_config`."""
        return cls(**config)

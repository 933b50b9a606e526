"""A learned mixture of several layers' outputs.

Shape legend: B batch, S sequence, L layers, H hidden.
"""

from __future__ import annotations

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="bert_tf")
class WeightedSum(keras.layers.Layer):
    """`gamma` times the sum of the layers, each times its share, the softmax of `scores`.

    arXiv 1810.04805 does not say how the sums of its Table 7 are weighted. These are the weights of ELMo
    (arXiv 1802.05365, equation 1), whose features the paper compares its own with: shares that sum to one keep the
    scale of a layer's output, and one factor is free. At first all layers count alike.

    Call arguments:
        layers: (B, S, L, H).

    Returns:
        (B, S, H).
    """

    def build(self, layers_shape):
        """Creates a score for each layer, and the factor."""
        # Under this name, of layer normalization's factor, it is never decayed towards zero.
        self.gamma = self.add_weight(shape=(1,), initializer="ones", name="gamma")
        self.scores = self.add_weight(shape=(layers_shape[2],), initializer="zeros", name="scores")
        self.built = True

    def call(self, layers):
        """Returns the sum."""
        shares = self.gamma * ops.softmax(self.scores)
        return ops.squeeze(ops.matmul(ops.expand_dims(shares, 0), layers), axis=2)

    def compute_output_shape(self, layers_shape):
        """Returns (B, S, H)."""
        return (*layers_shape[:2], layers_shape[3])

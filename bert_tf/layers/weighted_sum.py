"""Learned weighted sum of layer outputs.

Shape legend: B batch, S sequence, L layers, H hidden.
"""

from __future__ import annotations

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="bert_tf")
class WeightedSum(keras.layers.Layer):
    """Computes `gamma` times the sum of the layers weighted by the softmax of `scores`.

    arXiv 1810.04805 does not specify the weights of the sums in its Table 7. This layer uses those of ELMo
    (arXiv 1802.05365, equation 1), the baseline of the paper: weights that sum to one preserve the scale of a layer's
    output, and `gamma` is a free factor. Initially all layers have equal weights.

    Call arguments:
        layers: (B, S, L, H).

    Returns:
        (B, S, H).

    Example:
        >>> layers = np.array([[[[1.0, 2.0], [3.0, 4.0]]]], "float32")  # one token, two layers of two dimensions
        >>> keras.ops.convert_to_numpy(bert_tf.layers.WeightedSum()(layers)).tolist()
        [[[2.0, 3.0]]]
    """

    def build(self, layers_shape):
        """Creates a score per layer and the factor `gamma`."""
        # The name `gamma`, as in layer normalization, excludes it from weight decay.
        self.gamma = self.add_weight(shape=(1,), initializer="ones", name="gamma")
        self.scores = self.add_weight(shape=(layers_shape[2],), initializer="zeros", name="scores")
        self.built = True

    def call(self, layers):
        """Returns the weighted sum."""
        shares = self.gamma * ops.softmax(self.scores)
        return ops.squeeze(ops.matmul(ops.expand_dims(shares, 0), layers), axis=2)

    def compute_output_shape(self, layers_shape):
        """Returns (B, S, H)."""
        return (*layers_shape[:2], layers_shape[3])

"""Layer normalization with a hand-written gradient.

Shape legend: (..., H) hidden states.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="bert_tf")
class LayerNormalization(keras.layers.LayerNormalization):
    """Normalizes the last axis in float32, like `keras.layers.LayerNormalization`.

    The gradient (arXiv 1607.06450; see `normalized`) is hand-written, because automatic differentiation needs more
    passes over memory. With `stores_float32` set to False, the layer reads its inputs and stores the normalized values
    for the backward pass in the compute dtype, which halves their memory in bfloat16; the statistics remain float32.

    Args:
        **kwargs: arguments of `keras.layers.LayerNormalization`, such as `center=False` for no beta; the axis must be
            the last one.

    Example:
        >>> outputs = bert_tf.layers.LayerNormalization(epsilon=1e-12)(np.array([[1.0, 3.0]], "float32"))
        >>> keras.ops.convert_to_numpy(outputs).tolist()
        [[-1.0, 1.0]]
    """

    stores_float32 = True

    def call(self, inputs):
        """Returns the normalized inputs, in the compute dtype."""
        stored = "float32" if self.stores_float32 else self.compute_dtype
        gamma = ops.cast(self.gamma, "float32")
        beta = ops.cast(self.beta, "float32") if self.center else ops.zeros_like(gamma)
        outputs = normalized(self.epsilon, stored)(ops.cast(inputs, stored), gamma, beta)
        return ops.cast(outputs, self.compute_dtype)


def normalized(epsilon: float, stored: str = "float32") -> Any:
    """Returns a function of inputs (..., H), gamma (H,) and beta (H,) with a hand-written gradient.

    Let x' = (x - mean) / sqrt(variance + epsilon), and let g be the gradient at x', i.e. the output gradient times
    gamma. Then the gradient at x is (g - mean(g) - x' * mean(g * x')) / sqrt(variance + epsilon).

    Args:
        epsilon: added to the variance.
        stored: dtype of the inputs and of x', which is kept for the backward pass. Everything else is float32.
    """

    @ops.custom_gradient
    def normalize(inputs, gamma, beta):
        wide = ops.cast(inputs, "float32")
        centred = wide - ops.mean(wide, axis=-1, keepdims=True)
        inverse = ops.rsqrt(ops.mean(ops.square(centred), axis=-1, keepdims=True) + epsilon)
        kept = ops.cast(centred * inverse, stored)

        def gradient(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            rows = tuple(range(len(upstream.shape) - 1))
            unit = ops.cast(kept, "float32")
            of_gamma = upstream * unit
            at_unit = upstream * gamma
            along = ops.mean(at_unit * unit, axis=-1, keepdims=True)
            at_inputs = (at_unit - ops.mean(at_unit, axis=-1, keepdims=True) - unit * along) * inverse
            return ops.cast(at_inputs, stored), ops.sum(of_gamma, axis=rows), ops.sum(upstream, axis=rows)

        return ops.cast(kept, "float32") * gamma + beta, gradient

    return normalize

"""Layer normalization with a hand-written gradient.

Shape legend: (..., H) hidden states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from bert_tf.config import ConfigError
from bert_tf.layers.base import AdjustableLayer


@keras.saving.register_keras_serializable(package="bert_tf")
class LayerNormalization(AdjustableLayer, keras.layers.LayerNormalization):
    """Normalizes the last axis in float32, like `keras.layers.LayerNormalization`.

    The gradient (arXiv 1607.06450; see `normalized`) is hand-written, because automatic differentiation needs more
    passes over memory. With `stores_float32` set to False, the layer reads its inputs and stores the normalized values
    for the backward pass in the compute dtype, which halves their memory in bfloat16; the statistics remain float32.

    Args:
        axis: the last axis, -1.
        epsilon: added to the variance.
        center: whether there is a bias, beta.
        scale: whether there is a scale, gamma.
        **kwargs: other arguments of `keras.layers.LayerNormalization` except `rms_scaling`.

    Raises:
        ConfigError: for another axis, and for `rms_scaling`.

    Example:
        >>> outputs = bert_tf.layers.LayerNormalization(epsilon=1e-12)(np.array([[1.0, 3.0]], "float32"))
        >>> keras.ops.convert_to_numpy(outputs).tolist()
        [[-1.0, 1.0]]
    """

    settings: ClassVar[Mapping[str, Sequence[Any]]] = {"stores_float32": (True, False)}
    stores_float32 = True

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        **kwargs: Any,
    ) -> None:
        # A built layer has a list of axes.
        if axis not in (-1, [-1], (-1,)):
            raise ConfigError(
                f"`axis` must be -1: this layer normalizes the last axis. Received: {axis!r}. Use "
                "`keras.layers.LayerNormalization` for other axes."
            )
        if kwargs.get("rms_scaling"):
            raise ConfigError(
                "`rms_scaling` must be False: this layer subtracts the mean. Received: True. Use "
                "`keras.layers.RMSNormalization`, or `keras.layers.LayerNormalization` for Keras's `rms_scaling`."
            )
        super().__init__(axis=axis, epsilon=epsilon, center=center, scale=scale, **kwargs)

    def call(self, inputs):
        """Returns the normalized inputs, in the compute dtype."""
        stored = "float32" if self.stores_float32 else self.compute_dtype
        gamma = ops.cast(self.gamma, "float32") if self.scale else ops.ones(inputs.shape[-1:])
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

"""Muon: orthogonalized momentum for the hidden matrices, AdamW for all other variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from bert_tf.optim.optimizers import AdamW, dense

# Coefficients of the quintic iteration (kellerjordan.github.io/posts/muon): they bring small singular values near 1 in
# few steps, and all of them into about [0.7, 1.2].
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
# Keeps a zero matrix finite; torch.optim.Muon has the same value.
_EPSILON = 1e-7


def _rms_scale(inputs: int, outputs: int) -> float:
    return 0.2 * math.sqrt(max(inputs, outputs))


def _original_scale(inputs: int, outputs: int) -> float:
    return math.sqrt(max(1.0, outputs / inputs))


# Factors of an orthogonal step. With `rms` its root mean square is 0.2, about that of an AdamW step (arXiv 2502.16982,
# section 2.2).
SCALES = {"rms": _rms_scale, "original": _original_scale}


@keras.saving.register_keras_serializable(package="bert_tf")
class Muon(AdamW):
    """Muon (kellerjordan.github.io/posts/muon; arXiv 2502.16982) for matrices, `AdamW` for all other variables.

    A matrix moves by its Nesterov momentum with all singular values brought near 1, `rate * (scale * orthogonalized +
    decay * matrix)`. `global_clipnorm` counts the gradients of matrices in the norm and does not scale them, because
    the step does not depend on their size. Matrices have one moment, which takes half of AdamW's memory.

    Args:
        matrix_axes: for each variable in the order of `build`, the number of leading axes that belong to the input if
            it is a matrix, such as 2 for a kernel (N, D, H) of all heads; 0 for a variable that AdamW trains.
        momentum: decay rate of the moment of a matrix.
        newton_schulz_steps: iterations of the orthogonalization.
        matrix_scale: `rms` for steps of 0.2 * sqrt(max(inputs, outputs)), so that matrices can take the rate of AdamW;
            `original` for sqrt(max(1, outputs / inputs)).
        iteration_dtype: dtype of the orthogonalization.
        **kwargs: arguments of `AdamW`. `rate_scales` can give matrices a rate of their own.

    Raises:
        ValueError: in `build`, if there are not as many `matrix_axes` as variables.
    """

    def __init__(
        self,
        *,
        matrix_axes: Sequence[int],
        momentum: float = 0.95,
        newton_schulz_steps: int = 5,
        matrix_scale: str = "rms",
        iteration_dtype: str = "float32",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.matrix_axes = tuple(matrix_axes)
        self.momentum = momentum
        self.newton_schulz_steps = newton_schulz_steps
        self.matrix_scale = matrix_scale
        self.iteration_dtype = iteration_dtype

    def build(self, variables: list[keras.Variable]) -> None:
        """Creates the moments of `variables`."""
        if len(self.matrix_axes) != len(variables):
            raise ValueError(f"`matrix_axes` must have {len(variables)} values. Received: {len(self.matrix_axes)}")
        super().build(variables)

    def add_variable_from_reference(self, reference_variable, name=None, initializer="zeros"):
        """Creates a moment of a variable; None for the second moment of a matrix."""
        if name == "velocity" and self.matrix_axes[self._get_variable_index(reference_variable)]:
            return None
        return super().add_variable_from_reference(reference_variable, name, initializer)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        names = ("matrix_axes", "momentum", "newton_schulz_steps", "matrix_scale", "iteration_dtype")
        return super().get_config() | {name: getattr(self, name) for name in names}

    def orthogonalized(self, direction, axes: int):
        """Returns the step of a matrix of any shape whose first `axes` axes belong to the input, without its rate."""
        shape = direction.shape
        inputs, outputs = math.prod(shape[:axes]), math.prod(shape[axes:])
        step = orthogonalize(ops.reshape(direction, (inputs, outputs)), self.newton_schulz_steps, self.iteration_dtype)
        return ops.reshape(step * SCALES[self.matrix_scale](inputs, outputs), shape)

    def _move(self, variable, gradient, rate, decay, index):
        axes = self.matrix_axes[index]
        if not axes:
            super()._move(variable, gradient, rate, decay, index)
            return
        momentum = self._momentums[index]
        self.assign_add(momentum, (gradient - momentum) * (1 - self.momentum))
        step = self.orthogonalized(gradient + self.momentum * (momentum - gradient), axes)
        if decay:
            step = step + decay * ops.convert_to_tensor(variable)
        self.assign_sub(variable, rate * step)

    def _clip_gradients(self, grads):
        grads = [dense(grad) for grad in grads]
        clipped = super()._clip_gradients(grads)
        return [own if axes else other for axes, own, other in zip(self.matrix_axes, grads, clipped, strict=True)]


def orthogonalize(matrix, steps: int = 5, dtype: str = "float32"):
    """Returns a matrix with the singular vectors of `matrix` and singular values near 1, by Newton-Schulz iterations.

    Args:
        matrix: (m, n), float32.
        steps: number of iterations. After 5, singular values above 0.005 of the Frobenius norm are in about [0.7, 1.2].
        dtype: dtype of the iterations; the reference uses bfloat16.

    Returns:
        (m, n), float32.
    """
    a, b, c = _COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    # The products of the shorter side are the cheaper ones.
    x = ops.transpose(matrix) if is_tall else matrix
    x = ops.cast(x / ops.maximum(ops.sqrt(ops.sum(ops.square(x))), _EPSILON), dtype)
    for _ in range(steps):
        gram = ops.matmul(x, ops.transpose(x))
        x = a * x + ops.matmul(b * gram + c * ops.matmul(gram, gram), x)
    x = ops.cast(x, matrix.dtype)
    return ops.transpose(x) if is_tall else x

"""Dropout that can be repeated."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="bert_tf")
class SeededDropout(keras.layers.Dropout):
    """`keras.layers.Dropout` that takes another seed on request.

    Rematerialization computes the activations of a layer twice. Keras's layer would draw another mask the second time.
    """

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(rate, **kwargs)
        # Keras tracks seed generators that are attributes of a layer or in its lists, as state.
        self._fixed = SimpleNamespace(seed=None)

    @contextlib.contextmanager
    def with_seed(self, seed: Any) -> Iterator[None]:
        """Uses `seed`, a value of the layer's seed generator, inside the block."""
        self._fixed.seed = _FixedSeed(seed)
        try:
            yield
        finally:
            self._fixed.seed = None

    def call(self, inputs, training=False):
        """Returns the inputs with dropout."""
        if not (training and self._fixed.seed):
            return super().call(inputs, training=training)
        return self._dropped(inputs, self._fixed.seed)

    def next_seed(self):
        """Returns the next value of the layer's seed generator, or the seed of `with_seed`."""
        return (self._fixed.seed or self.seed_generator).next()

    def with_mask_of(self, inputs, seed, part=0):
        """Returns the inputs with the dropout of a seed; parts of an array, by number, have masks of their own."""
        shift = ops.cast(ops.stack([part, 0]), seed.dtype)
        return self._dropped(inputs, _FixedSeed(seed + shift))

    def _dropped(self, inputs, seed: keras.random.SeedGenerator):
        return keras.random.dropout(inputs, self.rate, noise_shape=self.noise_shape, seed=seed)


class _FixedSeed(keras.random.SeedGenerator):
    """A seed generator that returns one value."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def next(self, ordered: bool = True) -> Any:
        """Returns the value."""
        return self._value

"""Count of the batch shapes for which XLA compiles a training step."""

from __future__ import annotations

import logging

from bert_tf.data.input.bins import BINS

_LOGGER = logging.getLogger(__name__)
# All length bins of data with two lengths.
MOST_SHAPES = 2 * BINS


class CompiledShapes:
    """Records the shapes of batches, and warns once if there are more than length bins and packed rows explain."""

    def __init__(self) -> None:
        self._shapes: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._shapes)

    def add(self, shape: str) -> None:
        """Records the shape of a batch, such as `32x128`."""
        if shape in self._shapes:
            return
        self._shapes[shape] = None
        if len(self._shapes) == MOST_SHAPES + 1:
            _LOGGER.warning(
                "XLA has compiled the training step for more than %d shapes of batches (rows x length): %s. Each new "
                "shape takes as long as the first step. Pad the batches to fewer lengths (`training.padding`: full, "
                "bins or pack), or, with TensorFlow, set `training.jit_compile=false`.",
                MOST_SHAPES,
                ", ".join(self._shapes),
            )

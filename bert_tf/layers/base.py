"""Base class of layers with arguments."""

from __future__ import annotations

import inspect
from typing import Any

import keras


class ConfiguredLayer(keras.layers.Layer):
    """A layer that has its constructor's arguments as attributes of the same names."""

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        names = [name for name in inspect.signature(type(self).__init__).parameters if name not in ("self", "kwargs")]
        return super().get_config() | {name: getattr(self, name) for name in names}

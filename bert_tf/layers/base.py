"""Base classes of layers: arguments that are attributes, and settings of the computation, which configurations keep."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import keras

from bert_tf.config import ConfigError

# Key of a configuration in which settings differ from the defaults.
SETTINGS = "settings"


class AdjustableLayer(keras.layers.Layer):
    """A layer with settings, which are attributes that change neither weights nor architecture.

    Its configuration keeps the settings that differ from their defaults, also those of its sublayers.
    """

    settings: ClassVar[Mapping[str, Sequence[Any]]] = {}
    """Values that each setting may have, the default first."""

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments and the changed settings."""
        return super().get_config() | changed_settings(self)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Builds the layer from the result of `get_config`."""
        layer = super().from_config({name: value for name, value in config.items() if name != SETTINGS})
        restore_settings(layer, config)
        return layer


class ConfiguredLayer(AdjustableLayer):
    """A layer that has its constructor's arguments as attributes of the same names."""

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments and the changed settings."""
        names = [name for name in inspect.signature(type(self).__init__).parameters if name not in ("self", "kwargs")]
        return super().get_config() | {name: getattr(self, name) for name in names}


def changed_settings(layer: keras.layers.Layer, without: Iterable[keras.layers.Layer] = ()) -> dict[str, Any]:
    """Returns the settings of a layer or model and its sublayers that differ from their defaults.

    Args:
        layer: a layer or model. `trainable` is a setting of the layers of a model.
        without: sublayers whose configurations have settings of their own.

    Returns:
        An entry of the configuration, such as `{"settings": {"layer_1/rematerialize": True}}`; empty without changes.
    """
    changed = {
        f"{path}{name}": getattr(sublayer, name)
        for path, sublayer, settings in _adjustable(layer, without)
        for name, allowed in settings.items()
        if getattr(sublayer, name) != allowed[0]
    }
    return {SETTINGS: changed} if changed else {}


def restore_settings(
    layer: keras.layers.Layer, config: Mapping[str, Any], without: Iterable[keras.layers.Layer] = ()
) -> None:
    """Sets the settings in a configuration, to which `changed_settings` added them.

    Args:
        layer: a layer or model.
        config: its configuration.
        without: as for `changed_settings`.

    Raises:
        ConfigError: for an unknown setting, or a value that it cannot have.
    """
    changed = dict(config.get(SETTINGS, {}))
    for path, sublayer, settings in _adjustable(layer, without):
        for name, allowed in settings.items():
            value = changed.pop(f"{path}{name}", allowed[0])
            if value not in allowed:
                raise ConfigError(
                    f"{layer.name}: `{path}{name}` must be in {allowed}. Received: {value!r}. Take the configuration "
                    "from `get_config`."
                )
            if value != getattr(sublayer, name):
                setattr(sublayer, name, value)
    if changed:
        raise ConfigError(
            f"{layer.name}: `{SETTINGS}` must name settings of its layers. Received: {', '.join(changed)}. Take the "
            "configuration from `get_config`."
        )


def _adjustable(
    layer: keras.layers.Layer, without: Iterable[keras.layers.Layer]
) -> Iterator[tuple[str, keras.layers.Layer, dict[str, Sequence[Any]]]]:
    """Yields a layer and its sublayers, once each and outer ones first, with path and settings.

    The path is empty or ends with `/`.
    """
    is_model = isinstance(layer, keras.Model)
    seen = {id(inner) for outer in without for inner in outer._flatten_layers()}

    def below(path: str, inner: keras.layers.Layer, freezes: bool) -> Iterator[Any]:
        if id(inner) in seen:
            return
        seen.add(id(inner))
        settings = dict(inner.settings) if isinstance(inner, AdjustableLayer) else {}
        yield path, inner, settings | ({"trainable": (True, False)} if freezes else {})
        for sublayer in inner._flatten_layers(include_self=False, recursive=False):
            # Freezing a layer freezes its sublayers.
            yield from below(f"{path}{sublayer.name}/", sublayer, is_model and inner.trainable)

    yield from below("", layer, False)

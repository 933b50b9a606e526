"""The error of an invalid configuration, and checks of its fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class ConfigError(ValueError):
    """Raised for an invalid configuration; the message names the field, the rule and the value received.

    Example:
        >>> try:
        ...     bert_tf.BertConfig(hidden_dim=100, num_heads=3)
        ... except bert_tf.ConfigError as error:
        ...     print(error)
        `hidden_dim` must be a multiple of `num_heads`. Received: 100 and 3
    """


def check_fields(
    config: object, names: Iterable[str], allowed: Callable[[Any], bool], rule: str, section: str = ""
) -> None:
    """Checks fields of a configuration.

    Args:
        config: the configuration.
        names: names of the fields.
        allowed: returns True for an allowed value.
        rule: rule for the error, for example `must be at least 1`.
        section: prefix of the names in the error, for example `training.`.

    Raises:
        ConfigError: for the first field with a value that is not allowed.
    """
    for name in names:
        value = getattr(config, name)
        if not allowed(value):
            raise ConfigError(f"`{section}{name}` {rule}. Received: {value!r}")

"""The error of an invalid configuration, checks of its fields, and suggestions for misspelled names."""

from __future__ import annotations

import difflib
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


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns a suggestion for a misspelled name, to append to an error message.

    Args:
        name: the name received.
        known: known names.

    Returns:
        ` (did you mean `NAME`?)` with the closest known name; empty if none is close.

    Example:
        >>> from bert_tf.config.errors import did_you_mean
        >>> did_you_mean("smal", ["tiny", "small"])
        ' (did you mean `small`?)'
        >>> did_you_mean("x", ["tiny", "small"])
        ''
    """
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f" (did you mean `{near[0]}`?)" if near else ""

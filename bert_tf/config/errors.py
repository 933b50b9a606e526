"""The error of an invalid configuration."""


class ConfigError(ValueError):
    """Raised for an invalid configuration; the message names the field, the rule and the value received."""

"""Tables and figures by their name on the command line."""

from __future__ import annotations

import importlib
from types import ModuleType

from bert_tf.config import ConfigError
from bert_tf.experiments.design import Table
from bert_tf.experiments.scales import Scale

_MODULES = {
    "table1": "table1_glue",
    "table2": "table2_squad1",
    "table3": "table3_squad2",
    "table4": "table4_swag",
    "table5": "table5_objectives",
    "table6": "table6_sizes",
    "table7": "table7_features",
    "table8": "table8_masking",
    "figure5": "figure5_steps",
}
TABLES = tuple(_MODULES)


def module_of(name: str) -> ModuleType:
    """Returns the module of a table. Raises ConfigError if it is not one of `TABLES`."""
    if name not in _MODULES:
        raise ConfigError(f"the table must be one of {', '.join(TABLES)}. Received: {name!r}")
    return importlib.import_module(f"bert_tf.experiments.{_MODULES[name]}")


def table(name: str, scale: Scale) -> Table:
    """Returns a table at a scale.

    Args:
        name: one of `TABLES`.
        scale: scale of its runs.

    Raises:
        ConfigError: if there is no such table.
    """
    return module_of(name).table(scale)

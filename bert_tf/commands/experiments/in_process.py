"""Executes another command of `bert-tf` in this process, for commands that consist of several."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from bert_tf.commands.arguments import Parser


def run_command(arguments: Sequence[str]) -> dict[str, Any]:
    """Executes a command whose module is in `bert_tf.commands`, and returns its summary.

    Args:
        arguments: arguments of `bert-tf`, without flags before the command.

    Raises:
        Exception: as the command does.
    """
    module = importlib.import_module(f"bert_tf.commands.{arguments[0]}")
    parser = Parser(prog=f"bert-tf {arguments[0]}")
    module.add_arguments(parser)
    args = parser.parse_args(list(arguments[1:]))
    module.check(args)
    return module.run(args)

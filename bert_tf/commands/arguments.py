"""Arguments shared by several commands."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from bert_tf.config import ConfigError, local_path
from bert_tf.config.data import VERIFY


class Parser(argparse.ArgumentParser):
    """An argument parser that rejects URLs for arguments of type `Path`, also in its subcommands."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register("type", Path, _local)


def _local(text: str) -> Path:
    try:
        return local_path(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_preset(parser: argparse.ArgumentParser) -> None:
    """Adds `--preset`."""
    parser.add_argument("--preset", type=Path, required=True, help="preset, or output directory of a run")


def add_max_sequence_length(parser: argparse.ArgumentParser, default: str) -> None:
    """Adds `--max_sequence_length`, also under its name in google-research/bert.

    Args:
        parser: the parser.
        default: default in the help.
    """
    parser.add_argument(
        "--max_sequence_length", "--max_seq_length", type=int, help=f"maximum sequence length; default: {default}"
    )


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Adds `--verify`."""
    parser.add_argument(
        "--verify",
        choices=VERIFY,
        default="once",
        help="checksum verification of the data: never, once per data directory, or always; default: once",
    )


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Adds `--set`, which is repeatable and takes several values."""
    parser.add_argument(
        "--set",
        dest="overrides",
        nargs="+",
        action="extend",
        default=[],
        metavar="SECTION.FIELD=VALUE",
        help="configuration fields to override, for example training.seed=3",
    )


def refuse_overrides(overrides: Iterable[str], fields: Collection[str], reason: str) -> None:
    """Raises ConfigError for an override of a field that the command ignores.

    Args:
        overrides: values of `--set`.
        fields: fields without effect.
        reason: reason in the error message.
    """
    for override in overrides:
        name = override.partition("=")[0]
        if name in fields:
            raise ConfigError(f"--set {override}: `{name}` has no effect here: {reason}.")

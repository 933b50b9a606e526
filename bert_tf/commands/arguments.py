"""Arguments that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from bert_tf.config import ConfigError, local_path
from bert_tf.config.data import VERIFY


class Parser(argparse.ArgumentParser):
    """A parser whose arguments of type `Path`, and those of its subcommands, must be local paths, not URLs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register("type", Path, _local)


def _local(text: str) -> Path:
    try:
        return local_path(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def existing(path: Path, what: str) -> Path:
    """Returns `path`. Raises FileNotFoundError naming `what` where there is nothing."""
    if not path.exists():
        raise FileNotFoundError(f"{what} {str(path)!r} does not exist")
    return path


def add_preset(parser: argparse.ArgumentParser) -> None:
    """Adds `--preset`."""
    parser.add_argument("--preset", type=Path, required=True, help="a preset, or the output of a run")


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Adds `--verify`."""
    parser.add_argument(
        "--verify",
        choices=VERIFY,
        default="once",
        help="compare the data's checksums: never, once for each data directory, or always; default: once",
    )


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Adds `--set`, repeatable and with several values."""
    parser.add_argument(
        "--set",
        dest="overrides",
        nargs="+",
        action="extend",
        default=[],
        metavar="SECTION.FIELD=VALUE",
        help="override any field of the configuration, for example training.seed=3",
    )


def refuse_overrides(overrides: Iterable[str], fields: Collection[str], reason: str) -> None:
    """Raises ConfigError for an override of one of `fields`, which the command would not read."""
    for override in overrides:
        name = override.partition("=")[0]
        if name in fields:
            raise ConfigError(f"--set {override}: `{name}` has no effect here: {reason}.")

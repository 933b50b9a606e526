"""Completion scripts for shells: commands, flags, choices, settings and paths."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

SHELLS = ("bash", "zsh", "fish")


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Returns the completion script of a shell.

    Args:
        parser: parser of all commands.
        shell: one of `SHELLS`.
    """
    import shtab

    for action in _actions(parser):
        if action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.dest == "overrides":
            action.complete = _words(getattr(action, "settings", ()))  # type: ignore[attr-defined]
    return shtab.complete(parser, shell=shell)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yields the arguments of a parser and its subcommands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from _actions(subparser)


def _words(settings: Sequence[str]) -> dict[str, Any]:
    """Returns the completion of one of several words, in the syntax of every shell."""
    words = " ".join(f"{name}=" for name in settings)
    function = f"_bert_tf_settings_{len(settings)}"
    return {
        "bash": function,
        "zsh": f"({words})",
        "fish": words,
        "preamble": {"bash": f"{function}() {{\n  compgen -W '{words}' -- $1\n}}"},
    }

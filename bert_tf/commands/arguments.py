"""Parser of the command line, and arguments shared by several commands."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from bert_tf.commands.urls import Url, path_or_url
from bert_tf.config import ConfigError
from bert_tf.config.data import VERIFY
from bert_tf.config.describe import describe_fields
from bert_tf.config.errors import did_you_mean
from bert_tf.config.preset_names import HUGGINGFACE_PREFIX

_USAGE_ERROR = 2
PRESET_HELP = (
    "preset, run, RUN@STEP for a checkpoint of a run, or a checkpoint of transformers, keras-hub or TensorFlow"
)
# Greatest width of the names in a section of `--help`.
_COLUMN = 36


class Parser(argparse.ArgumentParser):
    """A strict argument parser, also for its subcommands.

    It rejects flags that are abbreviated. Arguments of type `Path` may be URLs (see `urls`). Its errors suggest the
    closest known name for every unknown command, flag or choice, also if a required flag is missing at the same time.
    """

    def __init__(self, **kwargs: Any) -> None:
        options: dict[str, Any] = {"allow_abbrev": False, "formatter_class": argparse.RawDescriptionHelpFormatter}
        super().__init__(**(options | kwargs))
        self.register("type", Path, path_or_url)
        self._received: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses arguments; all of them must be known."""
        self._received = list(sys.argv[1:] if args is None else args)
        if (commands := self._commands()) and self._received and self._received[0] in self._unknown_flags():
            flag, self._received = self._received[0], ()
            self.error(f"{commands.metavar} must come before {flag}: {self.prog} {commands.metavar} {flag} ...")
        namespace, rest = super().parse_known_args(self._received, namespace)
        if rest:
            self.error("" if self._unknown_flags() else f"unexpected value: {' '.join(rest)}")
        return namespace, rest

    def error(self, message: str) -> NoReturn:
        """Prints a message with suggestions for unknown flags, and exits with status 2."""
        unknown = [f"unknown flag {flag}{did_you_mean(flag, self._flags())}" for flag in self._unknown_flags()]
        text = "; ".join(filter(None, [message, *unknown]))
        self.exit(_USAGE_ERROR, f"{self.prog}: error: {text}. See `{self.prog} --help`.\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raises ArgumentError with a suggestion for a value that is not one of the choices."""
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            hint = f"{did_you_mean(str(value), names)}. Choose one of {', '.join(names)}"
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint}")

    def _commands(self) -> argparse.Action | None:
        return next((action for action in self._actions if isinstance(action, argparse._SubParsersAction)), None)

    def _flags(self) -> list[str]:
        return [flag for flag in self._option_string_actions if flag.startswith("--")]

    def _unknown_flags(self) -> list[str]:
        """Returns the unknown flags on the command line, up to a subcommand or a flag that takes all of the rest."""
        flags = []
        commands = self._commands()
        for argument in self._received:
            name = argument.partition("=")[0]
            action = self._option_string_actions.get(name)
            if argument == "--" or (commands is not None and not argument.startswith("-")):
                break
            if action is not None and action.nargs == argparse.REMAINDER:
                break
            if action is None and name.startswith("--"):
                flags.append(name)
        return flags


def preset_name(text: str) -> Path | Url:
    """Returns a name of a preset as a path or a URL; see `config.preset_names`.

    Example:
        >>> from bert_tf.commands.arguments import preset_name
        >>> preset_name("hf:models/other").as_posix()
        'hf:models/other'
    """
    name = path_or_url(text.removeprefix(HUGGINGFACE_PREFIX))
    return name if isinstance(name, Url) else Path(text)


def definitions(title: str, entries: Mapping[str, str]) -> str:
    """Returns a section of `--help` with names and their wrapped texts.

    Args:
        title: title of the section.
        entries: texts by name.

    Example:
        >>> from bert_tf.commands.arguments import definitions
        >>> print(definitions("recipes", {"small": "two cores"}))
        recipes:
          small  two cores
    """
    column = min(max(map(len, entries)) + 4, _COLUMN)
    width = max(column + 30, shutil.get_terminal_size().columns - 2)
    indent = " " * column
    lines = [f"{title}:"]
    for name, text in entries.items():
        wrapped = textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent) or [""]
        if len(name) + 3 < column:
            wrapped[0] = f"  {name}".ljust(column) + wrapped[0].strip()
        else:
            wrapped.insert(0, f"  {name}")
        lines += wrapped
    return "\n".join(lines)


def settings_of(config: Any, without: Collection[str] = ()) -> dict[str, str]:
    """Returns the meaning of every setting of `--set`, by `section.field=DEFAULT`.

    Args:
        config: dataclass of sections, whose values are the defaults.
        without: settings that the command rejects.

    Example:
        >>> from bert_tf.commands.arguments import settings_of
        >>> settings_of(bert_tf.RunConfig())["training.worker_timeout=600.0"]
        'seconds that a `multi_worker` process waits for the other workers at the start.'
    """
    return {
        # Without the quotation marks of Python, as `--set` takes the value.
        f"{section.name}.{field.name}={field.default.strip(chr(39))}": field.text
        for section in describe_fields(config)
        for field in describe_fields(getattr(config, section.name))
        if f"{section.name}.{field.name}" not in without
    }


def add_preset(parser: argparse.ArgumentParser) -> None:
    """Adds `--preset`."""
    parser.add_argument("--preset", type=preset_name, required=True, help=PRESET_HELP)


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
        help="compare the checksums of the data: never, which trusts the files, once for each directory, or always; "
        "default: once",
    )


def add_overrides(parser: argparse.ArgumentParser, settings: Iterable[str]) -> None:
    """Adds `--set`, which is repeatable and takes several values.

    Args:
        parser: the parser.
        settings: names of the settings, for shell completion.
    """
    action = parser.add_argument(
        "--set",
        dest="overrides",
        nargs="+",
        action="extend",
        default=[],
        metavar="SECTION.FIELD=VALUE",
        help="settings to change, for example training.seed=3",
    )
    action.settings = [setting.partition("=")[0] for setting in settings]  # type: ignore[attr-defined]


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

"""URLs on the command line: inputs become local copies, training data a mirror, and outputs a working copy."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bert_tf.config import ConfigError, local_path
from bert_tf.storage import Store, data_path, input_path, is_url, preset_path, working_copy
from bert_tf.training.output import is_chief

# Arguments that are not inputs, by their names in the parsed arguments.
_OUTPUTS = ("output", "target")
_PRESETS = ("preset", "init", "ensemble")
# Arguments of `serve`, which looks for changes at their URLs.
_SERVED = ("model", "model_base_path", "model_config_file")
# Commands whose `--data` is an output directory of `bert-tf data`.
_ON_DATA = ("pretrain", "evaluate")


class Url(str):
    """A URL on the command line."""

    __slots__ = ()


def path_or_url(text: str) -> Path | Url:
    """Converts an argument to a path or a URL. Raises ArgumentTypeError for a URL without an object store."""
    if is_url(text) and not text.startswith("file:"):
        return Url(text.rstrip("/"))
    try:
        return local_path(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def text_or_url(text: str) -> str:
    """Converts an argument to a URL, or keeps it as it is."""
    return Url(text.rstrip("/")) if is_url(text) else text


@contextlib.contextmanager
def local_arguments(args: argparse.Namespace) -> Iterator[Callable[[dict[str, Any]], dict[str, Any]]]:
    """Replaces the URLs in parsed arguments by local paths, and uploads the output at the end of the block.

    Args:
        args: parsed arguments, which are changed.

    Yields:
        A function that replaces the local paths in the summary of a command by the URLs.

    Raises:
        ConfigError: for an argument that must be on this machine.
        FileNotFoundError: if an input does not exist.
        StoreError: if a store refuses or does not answer.
        LeaseError: if another process writes to the output.
    """
    urls: dict[str, str] = {}

    def localized(value: Any, local: Callable[[str], Path]) -> Any:
        if isinstance(value, list):
            return [localized(item, local) for item in value]
        if not isinstance(value, Url):
            return value
        path = local(value)
        urls[str(path)] = value
        return path

    with contextlib.ExitStack() as stack:

        def written(url: str) -> Path:
            output = working_copy(url, fetches=args.command != "export", writes=is_chief(_strategy(args)))
            return stack.enter_context(output)

        # Outputs last, so that nobody waits for a lease while inputs are downloaded.
        for name in sorted(vars(args), key=lambda name: name in _OUTPUTS):
            if args.command == "serve" and name in _SERVED:
                continue
            _check_may_be_url(args.command, name, getattr(args, name))
            local = written if name in _OUTPUTS else _reader(args.command, name)
            setattr(args, name, localized(getattr(args, name), local))
        yield lambda summary: {name: _with_urls(value, urls) for name, value in summary.items()}


def _reader(command: str, name: str) -> Callable[[str], Path]:
    """Returns the function from the URL of an input to its local path."""
    if name == "data" and command in _ON_DATA:
        return data_path
    if command == "inspect":
        return _inspected
    if name in _PRESETS:
        return lambda url: Path(preset_path(url))
    return input_path


def _check_may_be_url(command: str, name: str, value: Any) -> None:
    """Raises ConfigError for the URL of a directory that only this machine can use."""
    if not isinstance(value, Url):
        return
    if command == "demo":
        raise ConfigError(
            f"`demo --{name}` must be a directory of this machine, because all steps of the demo run here. Received: "
            f"{value}. Use a local path, then copy the directory to the store with the tools of the store."
        )
    if name == "feature_cache":
        raise ConfigError(
            "`--feature_cache` must be a directory of this machine, because several runs read and write it. Received: "
            f"{value}. Use a local path, or leave it out: the features are then part of --output, which may be a URL."
        )


def _inspected(url: str) -> Path:
    """Returns a mirror of a data directory, of which few shards are read, and a copy of everything else."""
    is_data = any(name.rpartition("/")[2] == "manifest.json" and name.count("/") < 2 for name in Store(url).files())
    return data_path(url) if is_data else input_path(url, "preset")


def _strategy(args: argparse.Namespace) -> str:
    for override in getattr(args, "overrides", ()):
        if override.startswith("training.strategy="):
            return override.partition("=")[2]
    return getattr(args, "strategy", None) or "none"


def _with_urls(value: Any, urls: dict[str, str]) -> Any:
    if isinstance(value, str):
        for path, url in urls.items():
            if value == path or value.startswith(f"{path}/"):
                return url + value[len(path) :]
    return value

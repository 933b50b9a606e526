"""Reads, writes and overrides frozen dataclasses, with strict validation."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bert_tf.config.errors import ConfigError, did_you_mean
from bert_tf.config.files import write_file

T = TypeVar("T")
# Maximum nesting of arrays and objects in a JSON text; model and task files have fewer than ten levels.
MAX_NESTING = 100


def to_dict(config: Any) -> dict[str, Any]:
    """Converts the dataclass `config` to nested dictionaries.

    Example:
        >>> from bert_tf.config import CleaningConfig, to_dict
        >>> to_dict(CleaningConfig(min_words=50))["min_words"]
        50
    """
    return dataclasses.asdict(config)


def from_dict(cls: type[T], mapping: Mapping[str, Any], source: str = "configuration") -> T:
    """Builds an instance of dataclass `cls` from `mapping`.

    Args:
        cls: dataclass type; nested dataclass fields are built recursively.
        mapping: field values by name.
        source: origin of the mapping (a path or flag), used in error messages.

    Returns:
        An instance of `cls`.

    Raises:
        ConfigError: for an unknown key (the closest known key is suggested) or a value of the wrong type.

    Example:
        >>> from bert_tf.config import from_dict
        >>> from_dict(bert_tf.BertConfig, {"num_layers": 2}).num_layers
        2
        >>> try:
        ...     from_dict(bert_tf.BertConfig, {"num_layer": 2}, source="model.json")
        ... except bert_tf.ConfigError as error:
        ...     print(error)
        model.json: unknown key `num_layer` (did you mean `num_layers`?).
    """
    if not isinstance(mapping, Mapping):
        raise ConfigError(f"{source}: expected a JSON object. Received: {mapping!r}")
    hints = typing.get_type_hints(cls)
    fields = {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    values = {}
    for key, value in mapping.items():
        if key not in fields:
            raise unknown_key(source, key, fields)
        values[key] = checked_value(value, fields[key], f"{source}: `{key}`")
    try:
        return cls(**values)
    except (TypeError, ConfigError) as error:
        raise ConfigError(f"{source}: {error}") from error


def load_json(cls: type[T], path: str | Path) -> T:
    """Reads a dataclass of type `cls` from the JSON file at `path`. Raises ConfigError if the content is invalid.

    Example:
        >>> from bert_tf.config import load_json, save_json
        >>> save_json(bert_tf.BertConfig.from_size("tiny"), "model.json")
        >>> load_json(bert_tf.BertConfig, "model.json").num_layers
        2
    """
    return from_dict(cls, read_json_object(path), source=str(path))


def parse_json(text: str, **options: Any) -> Any:
    """Parses JSON and limits its nesting depth.

    Args:
        text: JSON text, possibly untrusted.
        **options: passed to `json.loads`.

    Returns:
        The value, nested at most `MAX_NESTING` levels deep, so that recursive code cannot exhaust the stack.

    Raises:
        ValueError: for invalid JSON, deeper nesting, or an integer with thousands of digits.
    """
    try:
        value = json.loads(text, **options)
    except RecursionError:
        deepest = MAX_NESTING + 1
    else:
        deepest = _levels(value)
    if deepest <= MAX_NESTING:
        return value
    raise ValueError(f"arrays and objects must be nested at most {MAX_NESTING} levels deep. Received: more levels")


def _levels(value: Any) -> int:
    """Returns the nesting depth of `value`, counted up to `MAX_NESTING` + 1."""
    containers, levels = [value], 0
    while levels <= MAX_NESTING and (containers := [item for item in containers if isinstance(item, dict | list)]):
        levels += 1
        containers = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]
    return levels


def flatten(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested dictionaries as one, with names joined by dots."""
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def read_json_object(path: str | Path) -> dict[str, Any]:
    """Reads a JSON object from the file at `path`. Raises ConfigError for any other content."""
    try:
        mapping = parse_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a readable JSON file: {error}. Correct or restore the file.") from error
    if not isinstance(mapping, dict):
        raise ConfigError(f"{path}: expected a JSON object. Received: {type(mapping).__name__}")
    return mapping


def save_json(config: Any, path: str | Path) -> None:
    """Writes a dataclass or dictionary to `path` as indented JSON (atomic write).

    Example:
        >>> from pathlib import Path
        >>> from bert_tf.config import save_json
        >>> save_json({"learning_rate": 0.0005}, "settings.json")
        >>> print(Path("settings.json").read_text().strip())
        {
          "learning_rate": 0.0005
        }
    """
    mapping = config if isinstance(config, Mapping) else to_dict(config)
    write_file(path, f"{json.dumps(mapping, indent=2, ensure_ascii=False)}\n".encode())


def with_overrides(config: T, overrides: Iterable[str]) -> T:
    """Returns a copy of `config` with fields replaced.

    Args:
        config: dataclass, possibly nested.
        overrides: `field=value` strings with dotted field paths, such as `training.seed=3`.

    Returns:
        The new dataclass.

    Raises:
        ConfigError: for a string without `=`, an unknown field or a value of the wrong type.

    Example:
        >>> from bert_tf.config import with_overrides
        >>> run = with_overrides(bert_tf.RunConfig(), ["training.seed=3", "model.dropout=0.0"])
        >>> run.training.seed, run.model.dropout
        (3, 0.0)
    """
    values: dict[tuple[str, ...], Any] = {}
    for override in overrides:
        path, separator, text = override.partition("=")
        if not separator or not path:
            raise ConfigError(f"--set {override}: expected `section.field=value`. Received: {override!r}")
        names = path.split(".")
        sections = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}  # type: ignore[arg-type]
        if names[0] not in sections and all(map(dataclasses.is_dataclass, sections.values())):
            raise ConfigError(f"--set {override}: {_unknown_section(names, sections)}")
        values[tuple(names)] = _value_of(config, names, text, f"--set {override}")
    return _replace(config, values)


def _unknown_section(names: list[str], sections: Mapping[str, Any]) -> str:
    """Returns the error for a setting outside of all sections; suggests the settings of the same name."""
    settings = [f"{section}.{field.name}" for section, value in sections.items() for field in dataclasses.fields(value)]
    same = [setting for setting in settings if setting.partition(".")[2] == names[-1]]
    hint = f" (did you mean {' or '.join(f'`{name}`' for name in same)}?)" if same else ""
    hint = hint or did_you_mean(names[0], sections) or did_you_mean(f"training.{names[-1]}", settings)
    return f"unknown section `{names[0]}`{hint}. Sections: {', '.join(sections)}; `--help` lists their settings."


def _replace(config: Any, values: Mapping[tuple[str, ...], Any]) -> Any:
    """Sets fields by their paths, all at once, because some are valid only together."""
    changes: dict[str, Any] = {}
    for name in dict.fromkeys(path[0] for path in values):
        inner = {path[1:]: value for path, value in values.items() if path[0] == name}
        changes[name] = inner[()] if () in inner else _replace(getattr(config, name), inner)
    # Some configurations have fields that depend on others.
    with_changes = getattr(config, "with_changes", functools.partial(dataclasses.replace, config))
    return with_changes(**changes)


def _value_of(config: Any, path: list[str], text: str, source: str) -> Any:
    """Returns the value of a field from its text."""
    hints = typing.get_type_hints(type(config))
    fields = {f.name: hints[f.name] for f in dataclasses.fields(config)}
    name = path[0]
    if name not in fields:
        raise ConfigError(f"{source}: unknown field `{name}`{_suggest(name, fields)}.")
    current = getattr(config, name)
    if len(path) > 1:
        if not dataclasses.is_dataclass(current):
            raise ConfigError(f"{source}: `{name}` has no fields.")
        return _value_of(current, path[1:], text, source)
    if dataclasses.is_dataclass(current):
        raise ConfigError(f"{source}: `{name}` is a section. Set one of its fields instead.")
    value = _parse(text)
    if fields[name] is str and not isinstance(value, str):
        value = text  # Such as `true`, a name and not a truth value.
    try:
        return checked_value(value, fields[name], f"{source}: `{name}`")
    except ConfigError as error:
        raise ConfigError(f"{error}. The default is {current!r}.") from error


def _parse(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)


def unknown_key(source: str, key: str, known: Iterable[str]) -> ConfigError:
    """Returns the error for an unknown key of `source`; it suggests the closest known key."""
    return ConfigError(f"{source}: unknown key `{key}`{_suggest(key, known)}.")


def checked_value(value: Any, hint: Any, where: str) -> Any:
    """Checks a value that was read from JSON.

    Args:
        value: the value.
        hint: type annotation: a dataclass, a basic type, a tuple, a dictionary, or a union of these.
        where: origin of the value, used in error messages.

    Returns:
        The value as an instance of `hint`.

    Raises:
        ConfigError: for a value of another type, or a number that is not finite.
    """
    if dataclasses.is_dataclass(hint):
        return from_dict(typing.cast(type, hint), value, where)
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for option in options:
        kind, items = typing.get_origin(option), typing.get_args(option)
        if option is float and isinstance(value, int | float) and not isinstance(value, bool):
            return _finite(value, where)
        if option in (int, float, str, bool, types.NoneType) and type(value) is option:
            return value
        if kind in (tuple, list) and isinstance(value, list | tuple):
            return kind(checked_value(item, items[0], f"{where}: {number}") for number, item in enumerate(value))
        if kind is dict and isinstance(value, dict):
            return {key: checked_value(item, items[1], f"{where}: `{key}`") for key, item in value.items()}
        if option is Any:
            return value
    names = " or ".join(getattr(option, "__name__", str(option)).replace("tuple", "list") for option in options)
    raise ConfigError(f"{where} must be {names}. Received: {value!r}")


def _finite(value: float, where: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ConfigError(f"{where} must be a finite number. Received: {number}")
    return number


def _suggest(key: str, known: Iterable[str]) -> str:
    known = sorted(known)
    return did_you_mean(key, known) or f" (known: {', '.join(known)})"

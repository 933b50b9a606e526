"""Writes the tables of settings in docs/training.md and the list of flags in docs/cli.md.

Run `python docs/settings.py`; with `--check` it only compares. Names, types and defaults of settings come from the
dataclasses of `bert_tf.config`, their descriptions from the docstrings, the flags from the parsers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
BEGIN, END = "<!-- {}: begin, written by docs/settings.py -->", "<!-- {}: end -->"
# Of argparse: the parameter has no default.
_WITHOUT_DEFAULT = (None, False, [], "", argparse.SUPPRESS)


def table(config: Any) -> str:
    """Returns the Markdown table of a dataclass. Raises ValueError if its docstring lacks a field."""
    from bert_tf.config.describe import describe_fields

    rows = ["| field | type | default | description |", "|---|---|---|---|"]
    for field in describe_fields(config):
        if not field.text:
            raise ValueError(f"The Args section of `{config.__name__}` must describe `{field.name}`.")
        cells = (f"`{field.name}`", f"`{field.type}`", f"`{field.default}`", field.text)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def settings() -> str:
    """Returns the tables of all configurations."""
    from bert_tf.config import BertConfig, CleaningConfig, DataConfig, TrainingConfig

    configs = (TrainingConfig, BertConfig, DataConfig, CleaningConfig)
    return "\n\n".join(f"### {config.__name__}\n\n{table(config)}" for config in configs)


def flags() -> str:
    """Returns the flags of all commands, one line for each."""
    from bert_tf.cli import build_parser

    return "\n\n".join(_sections(build_parser(pipelines=True)))


def _sections(parser: argparse.ArgumentParser, name: str = "bert-tf") -> Iterator[str]:
    """Yields the section of the program, then those of its commands."""
    commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    yield _section(f"## {name}", parser, _lines(parser))
    for command, subparser in commands.choices.items():
        tasks = next((a for a in subparser._actions if isinstance(a, argparse._SubParsersAction)), None)
        if tasks is None:
            yield _section(f"## {name} {command}", subparser, _lines(subparser))
        else:
            yield from _task_sections(subparser, tasks, f"{name} {command}")


def _task_sections(parser: argparse.ArgumentParser, tasks: argparse.Action, name: str) -> Iterator[str]:
    """Yields the flags that all tasks of a command have, then the others, once for all tasks with the same ones."""
    lines = {task: _lines(subparser) for task, subparser in dict(tasks.choices or {}).items()}
    shared = [line for line in next(iter(lines.values())) if all(line in others for others in lines.values())]
    yield _section(f"## {name} {tasks.metavar}", parser, shared)
    groups: dict[tuple[str, ...], list[str]] = {}
    for task, of_task in lines.items():
        groups.setdefault(tuple(line for line in of_task if line not in shared), []).append(task)
    for own, names in groups.items():
        if own:
            yield "\n".join([f"### {name} {', '.join(names)}", "", *own])


def _section(heading: str, parser: argparse.ArgumentParser, lines: list[str]) -> str:
    text = parser.description or ""
    return "\n".join([heading, "", f"{text[:1].upper()}{text[1:].removesuffix('.')}.", "", *lines])


def _lines(parser: argparse.ArgumentParser) -> list[str]:
    """Returns the list items of the arguments of a parser, without `--help` and subcommands."""
    return [_line(a) for a in parser._actions if not isinstance(a, argparse._HelpAction | argparse._SubParsersAction)]


def _line(action: argparse.Action) -> str:
    """Returns the list item of an argument: names, choices, whether it is required, and its help with the default."""
    names = ", ".join(f"`{name}`" for name in action.option_strings or [action.metavar or action.dest])
    text = (action.help or "").replace("%(default)s", str(action.default)).replace("<", "&lt;")
    if action.required and "required" not in text:
        text = f"required: {text}"
    if action.choices and not all(str(choice) in text for choice in action.choices):
        text += f"; one of {', '.join(map(str, action.choices))}"
    if "default" not in text and action.default not in _WITHOUT_DEFAULT:
        text += f"; default: {action.default}"
    return f"- {names}: {text}"


# Document -> name of its markers, and the function that writes the text between them.
DOCUMENTS: dict[str, tuple[str, Callable[[], str]]] = {
    "docs/training.md": ("settings", settings),
    "docs/cli.md": ("flags", flags),
}


def updated(text: str, name: str, content: str) -> str:
    """Returns a document with new content between its two markers."""
    begin, end = BEGIN.format(name), END.format(name)
    before, separator, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not separator or not found:
        raise ValueError(f"The document must contain {begin!r} and {end!r}, in this order.")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def main(arguments: list[str]) -> int:
    """Rewrites the documents, or with `--check` compares them and returns 1 if one is not up to date."""
    sys.path.insert(0, str(REPOSITORY))
    status = 0
    for path, (name, content) in DOCUMENTS.items():
        text = (REPOSITORY / path).read_text(encoding="utf-8")
        new = updated(text, name, content())
        if arguments != ["--check"]:
            (REPOSITORY / path).write_text(new, encoding="utf-8")
        elif new != text:
            print(f"{path} is not up to date. Run `python docs/settings.py`.", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

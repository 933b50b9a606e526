"""Writes the files of this folder that follow from the project: templates' metadata and workers' requirements.

Usage: python deployment/dataflow/generate.py

The metadata has a parameter for each flag of `bert-tf data` and `bert-tf vocab`. requirements.txt has the packages of
the extra `data` and their dependencies, with the versions of constraints.txt. Run it in an environment with the extra.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from beam_pipelines.options import PROGRAMS

FOLDER = Path(__file__).resolve().parent
REPOSITORY = FOLDER.parent.parent
DESCRIPTIONS = {
    "create_pretraining_data": (
        "bert_tf pre-training data",
        "Builds BERT pre-training examples from raw text: TFRecord shards, manifest, vocabulary and report page.",
    ),
    "build_vocabulary": ("bert_tf vocabulary", "Learns a WordPiece vocabulary from raw text."),
}
# Flags that are paths on object stores.
_PATHS = ("input", "output", "vocabulary")
# Flags that start no job.
_LOCAL = ("help", "estimate")
# Regular expressions of values by type.
_VALUES = {int: "^[0-9]+$", float: r"^-?[0-9]+(\.[0-9]+)?(e-?[0-9]+)?$"}
_PATH, _ANY, _BOOLEAN = "^gs:\\/\\/[^\\n\\r]+$", "^[^\\n\\r]*$", "^(true|false)$"


def files() -> dict[str, str]:
    """Returns the content of each file by its name in this folder."""
    templates = {f"{name}.json": f"{json.dumps(template(name), indent=2)}\n" for name in PROGRAMS}
    return {**templates, "requirements.txt": requirements()}


def template(program: str) -> dict[str, Any]:
    """Returns the metadata of a flex template, with one parameter for each flag of the program."""
    parser = argparse.ArgumentParser()
    for options in PROGRAMS[program].classes:
        options._add_argparse_args(parser)
    formatter = parser._get_formatter()
    name, description = DESCRIPTIONS[program]
    parameters = []
    for action in parser._actions:
        flag = action.option_strings[-1].removeprefix("--")
        if flag not in _LOCAL:
            parameters.append(_parameter(flag, action, formatter._expand_help(action)))
    return {"name": name, "description": description, "streaming": False, "parameters": parameters}


def _parameter(flag: str, action: argparse.Action, text: str) -> dict[str, Any]:
    if flag in _PATHS:
        pattern = _PATH
    elif action.const is True:
        pattern = _BOOLEAN
    else:
        pattern = _VALUES.get(action.type, _ANY)  # type: ignore[call-overload]
    parameter = {"name": flag, "label": flag.replace("_", " ").capitalize(), "helpText": text, "regexes": [pattern]}
    return parameter if text.startswith("required") else {**parameter, "isOptional": True}


def requirements() -> str:
    """Returns the packages of the extra `data` with all their dependencies, pinned."""
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {canonicalize_name(line.partition("==")[0]): line for line in lines if "==" in line}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pending = [Requirement(line) for line in [*project["dependencies"], *project["optional-dependencies"]["data"]]]
    names: set[str] = set()
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        if name not in names:
            names.add(name)
            dependencies = [Requirement(line) for line in metadata.requires(name) or ()]
            pending += [one for one in dependencies if one.marker is None or one.marker.evaluate({"extra": ""})]
    title = "# Packages of Dataflow's workers, written by generate.py from pyproject.toml and constraints.txt.\n"
    return title + "".join(f"{pins[name]}\n" for name in sorted(names))


if __name__ == "__main__":
    for file_name, content in files().items():
        (FOLDER / file_name).write_text(content, encoding="utf-8")
        print(FOLDER / file_name)

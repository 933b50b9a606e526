"""Files of deployment/dataflow: requirements of the workers, and metadata of the flex templates."""

from __future__ import annotations

import argparse
import json
import re
import runpy
from importlib.metadata import version
from typing import Any

import pytest

from beam_pipelines.options import PROGRAMS, parse
from tests.support.paths import REPOSITORY

FOLDER = REPOSITORY / "deployment" / "dataflow"
REQUIRED = {"input": "gs://b/a*.bz2,gs://b/c", "output": "gs://b/data", "vocabulary": "gs://b/vocab.txt"}
# Flags without a default, and those whose default is no value of the command line.
VALUES = {"max_predictions_per_seq": "20", "vocabulary_size": "30522"}


@pytest.mark.skipif(
    version("tensorflow") < "2.21", reason="the dependencies are those of the TensorFlow in constraints.txt"
)
def test_the_files_are_up_to_date() -> None:
    """After a change of a flag or of a pin, run `python deployment/dataflow/generate.py`."""
    files = runpy.run_path(str(FOLDER / "generate.py"))["files"]()
    assert {name: (FOLDER / name).read_text(encoding="utf-8") for name in files} == files


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_template_has_every_flag_and_the_program_takes_its_values(program: str) -> None:
    parser = argparse.ArgumentParser()
    for options in PROGRAMS[program].classes:
        options._add_argparse_args(parser)
    defaults = {action.option_strings[-1].removeprefix("--"): action.default for action in parser._actions}
    parameters = json.loads((FOLDER / f"{program}.json").read_text(encoding="utf-8"))["parameters"]
    assert {parameter["name"] for parameter in parameters} == defaults.keys() - {"help", "estimate"}
    assert (FOLDER / f"{program}.py").exists()

    def value_of(parameter: dict[str, Any]) -> str:
        name, (pattern,) = parameter["name"], parameter["regexes"]
        value = REQUIRED.get(name) or VALUES.get(name) or str(defaults[name])
        value = value.lower() if isinstance(defaults[name], bool) else value
        assert re.fullmatch(pattern, value), (name, value)
        return value

    flags = [f"--{parameter['name']}={value_of(parameter)}" for parameter in parameters]
    args, beam_args = parse(flags, *PROGRAMS[program])
    assert beam_args == []
    assert args.cased is False
    switched, _ = parse([*flags, "--cased=true"], *PROGRAMS[program])
    assert switched.cased is True

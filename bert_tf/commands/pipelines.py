"""Runs Beam pipelines; the only module of `bert_tf` that imports them, so that nothing else needs Beam."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from bert_tf.entry.quiet import without_collecting


def run_pipeline(module: str, argv: Sequence[str]) -> dict[str, Any]:
    """Runs `beam_pipelines.<module>` with `argv` and returns its summary."""
    name = f"beam_pipelines.{module}"
    if name not in sys.modules:
        with without_collecting():
            importlib.import_module(name)
    return sys.modules[name].run(list(argv))


def add_pipeline_arguments(parser: argparse.ArgumentParser, module: str) -> None:
    """Adds the flags of `beam_pipelines.<module>` to a parser, without those of Beam itself."""
    programs = importlib.import_module("beam_pipelines.options").PROGRAMS
    for options in programs[module].classes:
        options._add_argparse_args(parser)

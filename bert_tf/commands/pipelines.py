"""Runs Beam pipelines; the only module of `bert_tf` that imports them, so that nothing else needs Beam."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any


def run_pipeline(module: str, argv: Sequence[str]) -> dict[str, Any]:
    """Runs `beam_pipelines.<module>` with `argv` and returns its summary."""
    return importlib.import_module(f"beam_pipelines.{module}").run(list(argv))

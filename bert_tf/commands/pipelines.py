"""The one place of `bert_tf` that starts a Beam pipeline, so that nothing else needs Beam."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from typing import Any


def run_pipeline(module: str, argv: Sequence[str]) -> dict[str, Any]:
    """Runs `beam_pipelines.<module>` with `argv` and returns its summary."""
    # While it is imported, Beam warns of cloud libraries that are not installed and not asked for.
    logging.disable(logging.WARNING)
    try:
        pipeline = importlib.import_module(f"beam_pipelines.{module}")
    finally:
        logging.disable(logging.NOTSET)
    return pipeline.run(list(argv))

"""The output directory of a run. Without Keras, so that the command line checks it first."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection
from pathlib import Path

from bert_tf.config import ConfigError
from bert_tf.config.preset_names import CHECKPOINTS_NAME, RUN_PRESET_NAME

HISTORY_NAME = "history.jsonl"
REPORT_NAME = "report.html"
TENSORBOARD_NAME = "tensorboard"
RECOVERY_NAME = "detours.json"
STATUS_NAME = "status.json"
# Configuration that the recipe `auto` has chosen.
PLAN_NAME = "plan.json"
# All names that a run's output directory may hold, those of the commands included.
OUTPUT_NAMES = frozenset(
    {CHECKPOINTS_NAME, RECOVERY_NAME, HISTORY_NAME, PLAN_NAME, REPORT_NAME, STATUS_NAME, TENSORBOARD_NAME, "run.json"}
    | {RUN_PRESET_NAME}
    | {"augment", "dev", "features", "result.json", "skipped.tsv", "trial.json"}
)


def check_output(output: Path) -> None:
    """Checks the output directory of a run.

    Args:
        output: the output directory, which may be missing.

    Raises:
        ConfigError: if `output` is not a directory, or holds files that no run has written.
    """
    check_names(output, OUTPUT_NAMES, "this run")


def check_names(output: Path, names: Collection[str], owner: str) -> None:
    """Checks the names in an output directory, other than hidden ones.

    Args:
        output: the output directory, which may be missing.
        names: names that it may hold.
        owner: what writes these names, in the error message.

    Raises:
        ConfigError: if `output` is not a directory, or holds other files.
    """
    if not output.exists():
        return
    if not output.is_dir():
        raise ConfigError(f"`output` must be a directory. Received: {output}, a file. Choose another output directory.")
    others = sorted(path.name for path in output.iterdir() if path.name not in names and path.name[0] != ".")
    if others:
        raise ConfigError(
            f"{output}: the output directory must be new, empty or of {owner}, but it holds "
            f"{', '.join(others[:5])}. Choose another output directory."
        )


def is_chief(strategy: str) -> bool:
    """Returns True if this process writes the output: unless `TF_CONFIG` or JAX_PROCESS_ID name another worker.

    Args:
        strategy: distribution strategy.

    Example:
        >>> from bert_tf.training.output import is_chief
        >>> is_chief("none")
        True
    """
    if strategy != "multi_worker":
        return True
    # Invalid variables are reported when the workers meet.
    with contextlib.suppress(ValueError, KeyError, TypeError):
        if cluster := os.environ.get("TF_CONFIG"):
            return int(json.loads(cluster)["task"]["index"]) == 0
        return int(os.environ.get("JAX_PROCESS_ID", 0)) == 0
    return True


def make_output(output: Path) -> None:
    """Creates the output directory of a run. Raises ConfigError as `check_output` does."""
    check_output(output)
    output.mkdir(parents=True, exist_ok=True)

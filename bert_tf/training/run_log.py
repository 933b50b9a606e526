"""The figures of a run: a progress line on stderr, `history.jsonl` and TensorBoard scalars."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

HISTORY_NAME = "history.jsonl"
TENSORBOARD_NAME = "tensorboard"
# Recorded, but too much for a progress line.
_UNSHOWN = frozenset({"mlm_loss", "nsp_loss", "gradient_norm", "seconds_per_step", "padding", "input_wait"})


class RunLog:
    """Writes the figures of a run, going on after `start_step`.

    `history.jsonl` has one JSON object a line: `split` (`train` or `validation`), `step` and the figures. Lines
    after `start_step`, of steps that will be run again, and a line cut short are dropped.

    Args:
        output: directory of the run.
        start_step: finished steps.
        total_steps: steps of the whole run.
        writes: whether this process is the one that writes, among several of one run.
    """

    def __init__(self, output: Path, start_step: int, total_steps: int, writes: bool = True) -> None:
        self._path = output / HISTORY_NAME
        self._total_steps = total_steps
        self.records = [r for r in read_history(self._path) if r["step"] <= start_step]
        self._writes = writes
        if writes:
            staging = self._path.with_name(f".{self._path.name}.tmp")
            staging.write_text("".join(json.dumps(record) + "\n" for record in self.records), encoding="utf-8")
            staging.replace(self._path)
        self._writers: dict[str, Any] = {}
        self._tensorboard = output / TENSORBOARD_NAME

    def write(self, split: str, step: int, figures: Mapping[str, float]) -> None:
        """Records the figures of `split` at `step`.

        Args:
            split: `train` or `validation`.
            step: finished steps.
            figures: name to value; `eta_seconds` is shown, not kept.
        """
        kept = {name: value for name, value in figures.items() if name != "eta_seconds"}
        record = {"split": split, "step": step} | kept
        self.records.append(record)
        if not self._writes:
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        if split not in self._writers:
            self._writers[split] = tf.summary.create_file_writer(str(self._tensorboard / split))
        with self._writers[split].as_default(step=step):
            for name, value in kept.items():
                tf.summary.scalar(name, value)
        self._writers[split].flush()
        parts = "  ".join(_shown(name, value) for name, value in figures.items() if name not in _UNSHOWN)
        print(f"{split:<10} step {step}/{self._total_steps}  {parts}", file=sys.stderr, flush=True)

    def find(self, split: str, step: int) -> dict[str, float] | None:
        """Returns the figures recorded for `split` at `step`, None where there are none."""
        for record in reversed(self.records):
            if record["split"] == split and record["step"] == step:
                return {name: value for name, value in record.items() if name not in ("split", "step")}
        return None

    def close(self) -> None:
        """Closes the TensorBoard files."""
        for writer in self._writers.values():
            writer.close()


def read_history(path: Path) -> list[dict[str, Any]]:
    """Reads the whole lines of `history.jsonl`; [] where there is no such file.

    Raises:
        ValueError: naming file and line, for a line other than the last that is not one of ours.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    records = []
    # What follows the last newline is empty, or a line that a killed process did not finish.
    for number, line in enumerate(lines[:-1], start=1):
        try:
            record = json.loads(line)
            records.append(record | {"step": int(record["step"]), "split": str(record["split"])})
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}:{number}: not a line of a training history. Received: {line!r}") from error
    return records


def _shown(name: str, value: float) -> str:
    if name == "eta_seconds":
        minutes, seconds = divmod(round(value), 60)
        return f"eta {minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
    if name == "learning_rate":
        return f"{name} {value:.3e}"
    return f"{name} {value:.0f}" if abs(value) >= 1000 else f"{name} {value:.4f}"

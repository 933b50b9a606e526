"""Metrics of a run: a progress line on stderr, `history.jsonl` and TensorBoard scalars."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_tf.config.files import write_file
from bert_tf.entry.amounts import in_time
from bert_tf.training.evaluation.baselines import Baseline, Evaluation
from bert_tf.training.evaluation.mask_samples import in_markdown
from bert_tf.training.logging.tensorboard import EVENT_FILES, EventFile, session_end, session_start
from bert_tf.training.output import HISTORY_NAME, TENSORBOARD_NAME

# TensorBoard's HParams tab shows the metrics of the folder that holds the settings of the run.
_HELD_OUT = "validation"
# Recorded, but not shown in the progress line.
_UNSHOWN = frozenset(
    {"mlm_loss", "causal_lm_loss", "nsp_loss", "gradient_norm", "seconds_per_step", "padding", "input_wait"}
)


class RunLog:
    """Writes the metrics of a run, resuming after `start_step`, in the process of the run that `writes` files.

    `history.jsonl` has one JSON object per line: `split` (`train` or `validation`), `step` and the metrics. Lines after
    `start_step`, whose steps will be repeated, and an incomplete last line are dropped, as are TensorBoard's points.
    TensorBoard's HParams tab shows the `settings`, which are nested dictionaries.
    """

    def __init__(
        self,
        output: Path,
        start_step: int,
        total_steps: int,
        writes: bool = True,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._path = output / HISTORY_NAME
        self._total_steps = total_steps
        former = read_history(self._path)
        self.records = [record for record in former if record["step"] <= start_step]
        self._writes = writes
        self._start_step = start_step
        self._tensorboard = output / TENSORBOARD_NAME
        self._event_files: dict[str, EventFile] = {}
        self._source_shown = False
        if writes:
            if len(self.records) < len(former):
                # New files mark the superseded events for TensorBoard.
                for name in sorted({path.parent.name for path in self._tensorboard.glob(f"*/{EVENT_FILES}")}):
                    self._events_of(name)
            if settings and not any((self._tensorboard / _HELD_OUT).glob(EVENT_FILES)):
                self._events_of(_HELD_OUT).summary(session_start(settings), start_step)
            write_file(self._path, "".join(json.dumps(record) + "\n" for record in self.records).encode())

    def say(self, *lines: str) -> None:
        """Prints lines on stderr in the process that writes; they are not recorded."""
        if self._writes and lines:
            print("\n".join(lines), file=sys.stderr, flush=True)

    def write(self, split: str, step: int, figures: Mapping[str, float], expected: Baseline | None = None) -> None:
        """Records the metrics of a split and their baselines after `step` steps; `eta_seconds` is only shown."""
        expected = expected or Baseline()
        recorded = {name: value for name, value in figures.items() if name != "eta_seconds"}
        record = {"split": split, "step": step} | recorded | _baselines(expected)
        self.records.append(record)
        if not self._writes:
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        for name, value in recorded.items():
            self._events_of(split).scalar(name, value, step)
            # Curves with the same name share a chart; each folder has its own colour.
            for folder in ("chance", "published"):
                if name in getattr(expected, folder):
                    self._events_of(folder).scalar(name, getattr(expected, folder)[name], step)
        parts = "  ".join(_shown(name, value, expected) for name, value in figures.items() if name not in _UNSHOWN)
        lines = [f"{split:<10} step {step}/{self._total_steps}  {parts}"]
        lines += [f"{split:<10} step {step}/{self._total_steps}: {remark}" for remark in expected.remarks]
        if expected.source and not self._source_shown:
            lines.append(f"chance: the best constant guess; published: after full training, {expected.source}")
            self._source_shown = True
        self.say(*lines)

    def write_evaluation(self, step: int, evaluation: Evaluation) -> None:
        """Records an evaluation after `step` steps: its metrics, their baselines, and texts for TensorBoard."""
        self.write(_HELD_OUT, step, evaluation.figures, evaluation.expected)
        if not self._writes:
            return
        if evaluation.expected.remarks:
            self._events_of(_HELD_OUT).text("remarks", "\n\n".join(evaluation.expected.remarks), step)
        if evaluation.filled:
            text = "\n\n---\n\n".join(map(in_markdown, evaluation.filled))
            self._events_of(_HELD_OUT).text("filled_masks", text, step)

    def find(self, split: str, step: int) -> dict[str, float] | None:
        """Returns the metrics recorded for `split` at `step`, None if there are none."""
        for record in reversed(self.records):
            if record["split"] == split and record["step"] == step:
                return {name: value for name, value in record.items() if name not in ("split", "step")}
        return None

    def finish(self) -> None:
        """Marks the run as finished for TensorBoard, unless it was finished at the start."""
        if self._writes and self._start_step < self._total_steps:
            self._events_of(_HELD_OUT).summary(session_end(), self._total_steps)

    def close(self) -> None:
        """Closes the TensorBoard files."""
        for file in self._event_files.values():
            file.close()

    def _events_of(self, split: str) -> EventFile:
        if split not in self._event_files:
            self._event_files[split] = EventFile(self._tensorboard / split, self._start_step)
        return self._event_files[split]


def read_history(path: Path) -> list[dict[str, Any]]:
    """Returns the complete lines of `history.jsonl`, if any. Raises ValueError with file and line of a wrong one."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    records = []
    # The text after the last newline is empty, or an incomplete line of a killed process.
    for number, line in enumerate(lines[:-1], start=1):
        try:
            record = json.loads(line)
            records.append(record | {"step": int(record["step"]), "split": str(record["split"])})
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}:{number}: must be a line of a training history. Received: {line!r}") from error
    return records


def _baselines(expected: Baseline) -> dict[str, Any]:
    """Returns the baselines to record with metrics, without empty ones."""
    parts = {"chance": dict(expected.chance), "published": dict(expected.published), "remarks": list(expected.remarks)}
    return {name: part for name, part in parts.items() if part}


def _shown(name: str, value: float, expected: Baseline) -> str:
    """Returns a metric as text, with its baselines in brackets."""
    parts = (("chance", expected.chance.get(name)), ("published", expected.published.get(name)))
    baselines = ", ".join(f"{word} {_number(number)}" for word, number in parts if number is not None)
    return _named(name, value) + (f" ({baselines})" if baselines and name != "loss" else "")


def _named(name: str, value: float) -> str:
    if name == "eta_seconds":
        return f"eta {in_time(value)}"
    if name == "learning_rate":
        return f"{name} {value:.3e}"
    return f"{name} {_number(value)}"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4f}"

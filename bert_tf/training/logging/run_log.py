"""The figures of a run: a progress line on stderr, `history.jsonl` and TensorBoard scalars."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_tf.training.evaluation.baselines import Baseline
from bert_tf.training.evaluation.context import Evaluation
from bert_tf.training.evaluation.mask_samples import in_markdown
from bert_tf.training.logging.event_files import EVENT_FILES, EventFile
from bert_tf.training.logging.tensorboard_hparams import session_end, session_start

HISTORY_NAME = "history.jsonl"
REPORT_NAME = "report.html"
TENSORBOARD_NAME = "tensorboard"
# TensorBoard's HParams tab takes the figures of the folder where it finds the settings for a run's metrics.
_HELD_OUT = "validation"
# Recorded, but too much for a progress line.
_UNSHOWN = frozenset({"mlm_loss", "nsp_loss", "gradient_norm", "seconds_per_step", "padding", "input_wait"})


class RunLog:
    """Writes the figures of a run, going on after `start_step`.

    `history.jsonl` has one JSON object a line: `split` (`train` or `validation`), `step` and the figures. Lines
    after `start_step`, of steps that will be run again, and a line cut short are dropped; so are TensorBoard's points.

    Args:
        output: directory of the run.
        start_step: finished steps.
        total_steps: steps of the whole run.
        writes: whether this process is the one that writes, among several of one run.
        settings: what the run depends on, as nested dictionaries, for TensorBoard's HParams tab.
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
        self._source_told = False
        if writes:
            if len(self.records) < len(former):
                # Opening them tells TensorBoard what is superseded.
                for name in sorted({path.parent.name for path in self._tensorboard.glob(f"*/{EVENT_FILES}")}):
                    self._events_of(name)
            if settings and not any((self._tensorboard / _HELD_OUT).glob(EVENT_FILES)):
                self._events_of(_HELD_OUT).summary(session_start(settings), start_step)
            staging = self._path.with_name(f".{self._path.name}.tmp")
            staging.write_text("".join(json.dumps(record) + "\n" for record in self.records), encoding="utf-8")
            staging.replace(self._path)

    def write(self, split: str, step: int, figures: Mapping[str, float], expected: Baseline | None = None) -> None:
        """Records the figures of `split` at `step`.

        Args:
            split: `train` or `validation`.
            step: finished steps.
            figures: name to value; `eta_seconds` is shown, not kept.
            expected: what to expect of them; recorded beside them.
        """
        expected = expected or Baseline()
        kept = {name: value for name, value in figures.items() if name != "eta_seconds"}
        record = {"split": split, "step": step} | kept | _beside(expected)
        self.records.append(record)
        if not self._writes:
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        for name, value in kept.items():
            self._events_of(split).scalar(name, value, step)
            # Curves of one name are drawn in one chart, those of each folder in a colour of their own.
            for folder in ("chance", "published"):
                if name in getattr(expected, folder):
                    self._events_of(folder).scalar(name, getattr(expected, folder)[name], step)
        parts = "  ".join(_shown(name, value, expected) for name, value in figures.items() if name not in _UNSHOWN)
        lines = [f"{split:<10} step {step}/{self._total_steps}  {parts}"]
        lines += [f"{split:<10} step {step}/{self._total_steps}: {remark}" for remark in expected.remarks]
        if expected.source and not self._source_told:
            lines.append(f"chance: the best constant guess; published: after full training, {expected.source}")
            self._source_told = True
        print("\n".join(lines), file=sys.stderr, flush=True)

    def write_evaluation(self, step: int, evaluation: Evaluation) -> None:
        """Records an evaluation at `step`: its figures, what to expect of them, and its texts for TensorBoard.

        Args:
            step: finished steps.
            evaluation: what came of it.
        """
        self.write(_HELD_OUT, step, evaluation.figures, evaluation.expected)
        if not self._writes:
            return
        if evaluation.expected.remarks:
            self._events_of(_HELD_OUT).text("remarks", "\n\n".join(evaluation.expected.remarks), step)
        if evaluation.filled:
            text = "\n\n---\n\n".join(map(in_markdown, evaluation.filled))
            self._events_of(_HELD_OUT).text("filled_masks", text, step)

    def find(self, split: str, step: int) -> dict[str, float] | None:
        """Returns the figures recorded for `split` at `step`, None where there are none."""
        for record in reversed(self.records):
            if record["split"] == split and record["step"] == step:
                return {name: value for name, value in record.items() if name not in ("split", "step")}
        return None

    def finish(self) -> None:
        """Tells TensorBoard that the run has come to its end, unless that was so before."""
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


def _beside(expected: Baseline) -> dict[str, Any]:
    """Returns what is recorded beside figures, without what is empty."""
    parts = {"chance": dict(expected.chance), "published": dict(expected.published), "remarks": list(expected.remarks)}
    return {name: part for name, part in parts.items() if part}


def _shown(name: str, value: float, expected: Baseline) -> str:
    """Returns a figure in words, what is to be expected of it in brackets."""
    parts = (("chance", expected.chance.get(name)), ("published", expected.published.get(name)))
    beside = ", ".join(f"{word} {_number(number)}" for word, number in parts if number is not None)
    return _named(name, value) + (f" ({beside})" if beside and name != "loss" else "")


def _named(name: str, value: float) -> str:
    if name == "eta_seconds":
        minutes, seconds = divmod(round(value), 60)
        return f"eta {minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
    if name == "learning_rate":
        return f"{name} {value:.3e}"
    return f"{name} {_number(value)}"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4f}"

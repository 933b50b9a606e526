"""The state of a run while it trains and after it, for its page and `status.json`."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bert_tf.config.files import write_file
from bert_tf.training.evaluation.baselines import Evaluation
from bert_tf.training.output import STATUS_NAME

RUNNING, FINISHED, STOPPED, FAILED = "running", "finished", "stopped", "failed"
# Between two reports without a new evaluation: seconds, and the duration of a report times this factor, so that reports
# take at most a fiftieth of the time.
_PAUSE, _SHARE = 30.0, 50.0
_REASON_CHARACTERS = 300
_OF_SIGNAL = 128


@dataclass(frozen=True)
class RunStatus:
    """State of a run.

    Args:
        name: the last two parts of the output directory.
        total_steps: steps of the whole run.
        step: finished steps.
        state: `running`, `finished`, `stopped` (by a signal) or `failed`.
        reason: signal or error; "" for the other states.
        started: ISO 8601 time of the first start in UTC; "" if it was not recorded.
        updated: ISO 8601 time of this state in UTC.
        eta_seconds: expected seconds until the last step; None if unknown.
        model: `kind`, `parameters`, `backend`, `devices`.
        data: facts about the data, as in `RunSpec.facts`.
        settings: settings of the run, which are not part of `status.json`.
    """

    name: str
    total_steps: int
    step: int = 0
    state: str = RUNNING
    reason: str = ""
    started: str = ""
    updated: str = ""
    eta_seconds: float | None = None
    model: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


# Called with the output directory, the state of the run, and its last evaluation.
ReportHook = Callable[[Path, RunStatus, Evaluation | None], object]


def run_name(output: Path) -> str:
    """Returns the name of a run: the last two parts of its output directory."""
    return "/".join(output.absolute().parts[1:][-2:])


class StatusReporter:
    """Reports the state of a run: at its start, at evaluations, from time to time between them, and at its end.

    A killed process leaves the state `running` with the time of its last report. A process that fails before `start`,
    for example because the output directory holds another run, reports nothing.

    Args:
        output: output directory of the run.
        status: the facts of the run that do not change.
        hook: writes the page of the run; None reports nothing.
    """

    def __init__(self, output: Path, status: RunStatus, hook: ReportHook | None) -> None:
        self._output, self._status, self._hook = output, status, hook
        self._evaluation: Evaluation | None = None
        self._is_started = False
        self._due = 0.0

    def start(self, step: int) -> None:
        """Reports that the run starts, or resumes after `step`."""
        self._is_started = True
        started = _recorded_start(self._output / STATUS_NAME) or ("" if step else _now())
        self._status = replace(self._status, step=step, started=started)
        self._report()
        # The first metrics are worth a report.
        self._due = 0.0

    def update(self, step: int, eta_seconds: float | None = None, evaluation: Evaluation | None = None) -> None:
        """Reports an evaluation after `step`, or the step itself if the last report is old enough."""
        eta = self._status.eta_seconds if eta_seconds is None else eta_seconds
        self._status = replace(self._status, step=step, eta_seconds=eta)
        self._evaluation = evaluation or self._evaluation
        if evaluation or time.monotonic() >= self._due:
            self._report()

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Reports the end of the block as the end of the run: finished, stopped or failed."""
        try:
            yield
        except BaseException as error:
            # The error of the run is more important than that of its report.
            with contextlib.suppress(OSError):
                self._end(*_ended_by(error))
            raise
        self._end(FINISHED, "")

    def _end(self, state: str, reason: str) -> None:
        if self._is_started:
            self._status = replace(self._status, state=state, reason=reason, eta_seconds=None)
            self._report()

    def _report(self) -> None:
        if self._hook is None:
            return
        began = time.monotonic()
        self._status = replace(self._status, updated=_now())
        fields = {name: value for name, value in asdict(self._status).items() if name != "settings"}
        write_file(self._output / STATUS_NAME, (json.dumps(fields, indent=2) + "\n").encode())
        self._hook(self._output, self._status, self._evaluation)
        ended = time.monotonic()
        self._due = ended + max(_PAUSE, _SHARE * (ended - began))


def _ended_by(error: BaseException) -> tuple[str, str]:
    """Returns the state of a run that an exception ended, and the reason."""
    if isinstance(error, KeyboardInterrupt):
        return STOPPED, signal.SIGINT.name
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 0
        return STOPPED, signal.Signals(code - _OF_SIGNAL).name if code > _OF_SIGNAL else f"exit status {code}"
    return FAILED, f"{type(error).__name__}: {error}"[:_REASON_CHARACTERS]


def _recorded_start(path: Path) -> str:
    """Returns the time of the first start that an earlier process recorded; "" without one."""
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

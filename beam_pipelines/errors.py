"""What can end a run."""

from __future__ import annotations


class InputError(ValueError):
    """An input that cannot be read in full: it ends the run, for what follows the fault would be lost."""


class PipelineError(RuntimeError):
    """A pipeline that did not end well; the message is one line."""

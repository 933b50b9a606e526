"""Errors that end a run."""

from __future__ import annotations


class InputError(ValueError):
    """An input that cannot be read in full. It ends the run, because the text after the fault would be lost."""


class PipelineError(RuntimeError):
    """A failed pipeline; the message is one line."""

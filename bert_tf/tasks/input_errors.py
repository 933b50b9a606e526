"""Errors in input files: raised at once, or collected and skipped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bert_tf.config.files import staged_file


@dataclass(frozen=True)
class Problem:
    """One input error: file and line (or file and the entry's id), and the rule with the received value."""

    place: str
    message: str


class InputErrors:
    """Collects the errors of input files; with `skip`, faulty entries are skipped, otherwise they raise an error."""

    def __init__(self, skip: bool = False) -> None:
        self.skip = skip
        # A file may be read more than once.
        self._problems: dict[Problem, None] = {}

    def __len__(self) -> int:
        return len(self._problems)

    @property
    def problems(self) -> list[Problem]:
        """The distinct input errors."""
        return list(self._problems)

    def add(self, place: str, message: str) -> None:
        """Records that the entry at `place`, file and line or id, is skipped. Raises ValueError unless `skip` is on."""
        if not self.skip:
            raise ValueError(f"{place}: {message}")
        self._problems[Problem(place, message)] = None

    def write(self, path: Path) -> None:
        """Writes one line for each input error: place, tab, message."""
        with staged_file(path) as file:
            file.write("".join(f"{problem.place}\t{problem.message}\n" for problem in self.problems).encode())

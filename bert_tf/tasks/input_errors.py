"""What is wrong with the input of a task: refused at once, or counted and listed where the user asks to go on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bert_tf.data.atomic_files import staged_file


@dataclass(frozen=True)
class Problem:
    """One fault of the input.

    Args:
        place: file and line, or file and what names the entry there.
        message: the rule and what was received.
    """

    place: str
    message: str


class InputErrors:
    """The faults met while reading.

    Args:
        skip: whether to leave out what is faulty and go on.
    """

    def __init__(self, skip: bool = False) -> None:
        self.skip = skip
        # A file may be read more than once.
        self._found: dict[Problem, None] = {}

    def __len__(self) -> int:
        return len(self._found)

    @property
    def found(self) -> list[Problem]:
        """The faults, each once."""
        return list(self._found)

    def add(self, place: str, message: str) -> None:
        """Notes that what stands at `place` is left out.

        Raises:
            ValueError: with both, unless faults are to be skipped.
        """
        if not self.skip:
            raise ValueError(f"{place}: {message}")
        self._found[Problem(place, message)] = None

    def write(self, path: Path) -> None:
        """Writes one line for each fault: place, tab, message."""
        with staged_file(path) as file:
            file.write("".join(f"{problem.place}\t{problem.message}\n" for problem in self.found).encode())

"""Training rows of all contenders of `benchmarks.finetune`: a file of arrays that needs only numpy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

BATCH_SIZE = 32
LEARNING_RATE = 3e-5


@dataclass(frozen=True)
class Rows:
    """Concatenated word pieces of all rows, and the targets.

    Args:
        token_ids: int32 (T,).
        row_splits: int64 (N + 1,).
        first_lengths: int32 (N,), tokens of a row's first segment.
        targets: int32 (N,) each: `label`, or `start` and `end`.
        max_length: padded length of programs that pad to a fixed length.
    """

    token_ids: np.ndarray
    row_splits: np.ndarray
    first_lengths: np.ndarray
    targets: dict[str, np.ndarray]
    max_length: int

    def __len__(self) -> int:
        return len(self.first_lengths)

    def row(self, number: int) -> dict[str, np.ndarray | int]:
        """Returns `input_ids` and `token_type_ids` of one row, and its targets."""
        ids = self.token_ids[self.row_splits[number] : self.row_splits[number + 1]]
        segments = (np.arange(len(ids)) >= self.first_lengths[number]).astype(np.int32)
        targets = {name: int(values[number]) for name, values in self.targets.items()}
        return {"input_ids": ids, "token_type_ids": segments, **targets}

    @property
    def num_labels(self) -> int:
        """Number of classes of `label`."""
        return int(self.targets["label"].max()) + 1


def write_rows(path: Path, rows: Rows) -> None:
    """Writes rows to a file."""
    targets = {f"target_{name}": values for name, values in rows.targets.items()}
    np.savez(
        path,
        token_ids=rows.token_ids,
        row_splits=rows.row_splits,
        first_lengths=rows.first_lengths,
        max_length=rows.max_length,
        **targets,
    )


def read_rows(path: Path) -> Rows:
    """Reads the rows in a file of `write_rows`."""
    with np.load(path) as file:
        targets = {name.removeprefix("target_"): file[name] for name in file.files if name.startswith("target_")}
        arrays = (file["token_ids"], file["row_splits"], file["first_lengths"])
        return Rows(*arrays, targets, int(file["max_length"]))

"""Packed documents on disk, and references to them through the shuffle: Beam's local runner holds what crosses it.

The runner keeps several copies of every byte that it gathers, in the memory of its driver. What it gathers here are
references of a few bytes for each 64 KiB, so that a corpus of any size needs the memory of its buckets alone.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from beam_pipelines.transforms.packed_documents import header, kind_of

# Chunks of one bucket written together, and all that wait for it.
_RUN_BYTES, _WAITING_BYTES = 64 << 10, 32 << 20
# In the place of the bytes of a token id: the chunk stands elsewhere.
REFERENCE = -1


class SpillToDisk(beam.DoFn):
    """Writes chunks to files of this machine; (bucket, chunk) become (bucket, reference).

    Args:
        directory: an existing directory for the files; the driver deletes it when the run ends.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def start_bundle(self) -> None:
        """Begins a file, which is made with the first chunk."""
        self._waiting: dict[int, list[bytes]] = defaultdict(list)
        self._sizes: dict[int, int] = defaultdict(int)
        self._total = 0
        self._path = Path(self._directory, f"{uuid.uuid4().hex}.chunks")
        self._file: BinaryIO | None = None

    def process(self, element: tuple[int, bytes]) -> Iterable[tuple[int, bytes]]:
        """Yields the reference to a run of chunks once it is long enough."""
        bucket, chunk = element
        self._waiting[bucket].append(chunk)
        self._sizes[bucket] += len(chunk)
        self._total += len(chunk)
        if self._sizes[bucket] >= _RUN_BYTES:
            yield bucket, self._written(bucket)
        elif self._total >= _WAITING_BYTES:
            for waiting in list(self._waiting):
                yield waiting, self._written(waiting)

    def finish_bundle(self) -> Iterable[WindowedValue]:
        """Yields references to what is left; all that was written can be read when it returns."""
        found = [(bucket, self._written(bucket)) for bucket in sorted(self._waiting)]
        if self._file:
            self._file.close()
        for each in found:
            yield GlobalWindows.windowed_value(each)

    def _written(self, bucket: int) -> bytes:
        if self._file is None:
            # The directory is not created here: a worker that outlives its run must not bring it back.
            self._file = self._path.open("wb")
        chunks = self._waiting.pop(bucket)
        self._total -= self._sizes.pop(bucket)
        begin = self._file.tell()
        try:
            self._file.writelines(chunks)
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from error
        numbers = np.array([begin, *map(len, chunks)], "<i8")
        return header(len(chunks), REFERENCE) + numbers.tobytes() + str(self._path).encode()


def read_spilled(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yields `chunks`, those that references stand for in their place."""
    for chunk in chunks:
        count, kind = kind_of(chunk)
        if kind != REFERENCE:
            yield chunk
            continue
        head = len(header(count, REFERENCE))
        begin, *sizes = np.frombuffer(chunk, "<i8", 1 + count, head).tolist()
        path = Path(chunk[head + 8 * (1 + count) :].decode())
        with path.open("rb") as file:
            file.seek(begin)
            for size in sizes:
                yield file.read(size)

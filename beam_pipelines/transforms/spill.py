"""Spills packed documents to disk and sends references to them through the shuffle of Beam's local runner.

The runner keeps several copies of all shuffled bytes in the memory of its driver. A reference takes a few bytes per
64 KiB, so a corpus of any size needs only the memory of its buckets.
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

# Size at which chunks of one bucket are written, and size at which all waiting chunks are written.
_RUN_BYTES, _WAITING_BYTES = 64 << 10, 32 << 20
# Value in place of the width of a token id, for a reference to a chunk on disk.
REFERENCE = -1


class SpillToDisk(beam.DoFn):
    """Writes chunks to local files and converts (bucket, chunk) to (bucket, reference).

    Args:
        directory: existing directory for the files; the driver deletes it when the run ends.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def start_bundle(self) -> None:
        """Starts a file, which is created with the first chunk."""
        self._waiting: dict[int, list[bytes]] = defaultdict(list)
        self._sizes: dict[int, int] = defaultdict(int)
        self._total = 0
        self._path = Path(self._directory, f"{uuid.uuid4().hex}.chunks")
        self._file: BinaryIO | None = None

    def process(self, element: tuple[int, bytes]) -> Iterable[tuple[int, bytes]]:
        """Yields a reference when enough chunks of a bucket are waiting."""
        bucket, chunk = element
        self._waiting[bucket].append(chunk)
        self._sizes[bucket] += len(chunk)
        self._total += len(chunk)
        if self._sizes[bucket] >= _RUN_BYTES:
            yield bucket, self._write_chunks(bucket)
        elif self._total >= _WAITING_BYTES:
            for waiting in list(self._waiting):
                yield waiting, self._write_chunks(waiting)

    def finish_bundle(self) -> Iterable[WindowedValue]:
        """Yields references to the remaining chunks; the file is complete on return."""
        references = [(bucket, self._write_chunks(bucket)) for bucket in sorted(self._waiting)]
        if self._file:
            self._file.close()
        for reference in references:
            yield GlobalWindows.windowed_value(reference)

    def _write_chunks(self, bucket: int) -> bytes:
        if self._file is None:
            # The directory is not created here, because a worker that outlives its run must not recreate it.
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
    """Yields `chunks` with references replaced by the chunks on disk."""
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

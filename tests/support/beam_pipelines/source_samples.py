"""Helpers to read sources: files of test data, whole or in parts, and real corpora if available."""

from __future__ import annotations

import bz2
import functools
import gzip
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow
import pytest
import zstandard

from beam_pipelines.sources.documents import Format, InputFile, Part, RawDocument, ReadSettings
from tests.support.paths import REPOSITORY

RAW = REPOSITORY / "../shared/data/raw"
needs_raw = pytest.mark.skipif(not RAW.is_dir(), reason="the real corpora (../shared/data/raw) are absent")

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    # No time stamp: the bytes are part of the names of parametrised tests, which must be equal in all workers.
    ".gz": functools.partial(gzip.compress, mtime=0),
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def read(format: type[Format], path: Path, **settings: object) -> list[RawDocument]:
    """Reads the whole file at `path`."""
    return list(format(ReadSettings(**settings)).read(Part(str(path))))


def read_parts(format: type[Format], path: Path, edges: Iterable[int], **settings: object) -> list[RawDocument]:
    """Reads the file at `path` in the parts between `edges`."""
    reader = format(ReadSettings(**settings))
    return [document for begin, end in pairwise(edges) for document in reader.read(Part(str(path), begin, end))]


def split(format: type[Format], path: Path, **settings: object) -> list[Part]:
    """Splits the file at `path`."""
    return list(format(ReadSettings(**settings)).split(InputFile(str(path), path.stat().st_size, 0.0)))


def texts(documents: Sequence[RawDocument]) -> list[tuple[str, ...]]:
    """Returns the paragraphs of documents."""
    return [document.paragraphs for document in documents]


def contents(documents: Sequence[RawDocument]) -> list[tuple[tuple[str, ...], str]]:
    """Returns paragraphs and reason, which do not depend on the split of a file."""
    return [(document.paragraphs, document.reason) for document in documents]


def peak_bytes(documents: Iterable[RawDocument]) -> int:
    """Returns the peak memory of Python objects and Arrow buffers in bytes while `documents` are iterated."""
    default = pyarrow.default_memory_pool()
    arrow = pyarrow.proxy_memory_pool(default)
    pyarrow.set_memory_pool(arrow)
    tracemalloc.start()
    try:
        for _ in documents:
            pass
        return tracemalloc.get_traced_memory()[1] + arrow.max_memory()
    finally:
        tracemalloc.stop()
        pyarrow.set_memory_pool(default)

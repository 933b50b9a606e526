"""One corpus in all layouts whose size `--estimate` has to know."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tests.support.beam_pipelines.samples import documents, write_corpus

TEXTS = documents(12_000, seed=5)
TEXT = "\n".join(TEXTS)


def as_plain(folder: Path) -> str:
    return write_corpus(folder, TEXTS, files=2)


def as_small_files(folder: Path) -> str:
    return write_corpus(folder, TEXTS, files=60)


def as_gzip(folder: Path) -> str:
    (folder / "text.txt.gz").write_bytes(gzip.compress(TEXT.encode(), mtime=0))
    return str(folder / "text.txt.gz")


def as_bzip2(folder: Path) -> str:
    # Level 1 has blocks of 100 kB.
    (folder / "text.txt.bz2").write_bytes(bz2.compress(TEXT.encode(), 1))
    return str(folder / "text.txt.bz2")


def as_zstandard(folder: Path) -> str:
    with pa.output_stream(str(folder / "text.txt.zst"), compression="zstd") as file:
        file.write(TEXT.encode())
    return str(folder / "text.txt.zst")


def as_jsonl(folder: Path) -> str:
    lines = [json.dumps({"id": number, "text": text}) for number, text in enumerate(TEXTS)]
    (folder / "text.jsonl").write_text("\n".join(lines) + "\n")
    return str(folder / "text.jsonl")


def as_parquet(folder: Path) -> str:
    junk = np.random.default_rng(0).integers(0, 2**62, (len(TEXTS), 40)).tolist()
    table = pa.table({"junk": junk, "text": TEXTS})
    pa.parquet.write_table(table, folder / "text.parquet", row_group_size=2500)
    return str(folder / "text.parquet")


LAYOUTS: dict[str, tuple[Callable[[Path], str], str]] = {
    "plain": (as_plain, "text"),
    "small_files": (as_small_files, "text"),
    "gzip": (as_gzip, "text"),
    "bzip2": (as_bzip2, "text"),
    "zstandard": (as_zstandard, "text"),
    "jsonl": (as_jsonl, "jsonl"),
    "parquet": (as_parquet, "parquet"),
}

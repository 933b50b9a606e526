"""Near-duplicate search: MinHash-LSH in one GroupByKey over compact tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import GlobalWindows

from beam_pipelines.cleaning.signatures import ROW, band_shape, find_near_duplicates, sign_documents
from beam_pipelines.sources.documents import RawDocument
from beam_pipelines.transforms.tokenize import Buckets, RecentDocuments
from bert_tf.data.examples.build import document_id

# A bucket has about 32 MB of text: 10,000 Wikipedia documents, whose rows take 8 MB at a threshold of 0.8. There are
# more partitions than buckets, because short documents have more rows per byte of text.
_PARTITIONS_PER_BUCKET = 4
_LEAST_PARTITIONS = 16
# Rows buffered by a worker before they are emitted: 10 MB.
_ROWS_A_TABLE = 200_000


@beam.ptransform_fn
def near_duplicate_ids(
    documents: beam.PCollection[list[RawDocument]], threshold: float, seed: int, buckets: Buckets
) -> beam.PCollection[tuple[int, bytes]]:
    """Finds the documents to drop as near-duplicates of documents that are kept or dropped.

    A document is dropped if it shares a band of minimum hashes with a document of a smaller id (a hash of its text)
    and their estimated Jaccard similarity reaches the threshold, see `cleaning.signatures`. The result depends only on
    the set of documents, not on order, batches, workers or runner. In a chain of similar pairs the document with the
    smallest id is always kept. Documents with a reason and documents without words are ignored. Exact duplicates share
    an id, so they are not dropped for each other.

    Returns (bucket, int64 ids as `<i8` bytes); an id may be repeated.
    """
    bands, rows = band_shape(threshold)
    partitions = max(_LEAST_PARTITIONS, _PARTITIONS_PER_BUCKET * len(buckets))
    return (
        documents
        | "Sign" >> beam.ParDo(SignDocuments(seed, bands, rows, partitions))
        | "GatherBands" >> beam.GroupByKey()
        | "Compare" >> beam.FlatMap(_compare, threshold, buckets)
    )


@dataclasses.dataclass(eq=False, repr=False)
class SignDocuments(beam.DoFn):
    """Collects rows of `bands` bands of `rows` hashes over a bundle; yields (partition of bands, packed rows)."""

    seed: int
    bands: int
    rows: int
    partitions: int

    def start_bundle(self) -> None:
        """Starts without rows."""
        self._recent = RecentDocuments()
        self._tables: list[np.ndarray] = []

    def process(self, batch: list[RawDocument]) -> Iterable[tuple[int, bytes]]:
        """Computes signatures of one batch, once for each distinct text of a bundle."""
        good = [document.paragraphs for document in batch if not document.reason]
        fresh = [text for text in good if not self._recent.is_copy(document_id("\n".join(text)))]
        self._tables.append(sign_documents(fresh, self.seed, self.bands, self.rows))
        if sum(map(len, self._tables)) > _ROWS_A_TABLE:
            yield from self._pack_tables()

    def finish_bundle(self) -> Iterator[Any]:
        """Emits the remaining rows."""
        for element in self._pack_tables():
            yield GlobalWindows.windowed_value(element)

    def _pack_tables(self) -> Iterator[tuple[int, bytes]]:
        table = np.concatenate([np.zeros(0, ROW), *self._tables])
        self._tables = []
        yield from pack_by(table["band"] % np.uint64(self.partitions), table)


def _compare(element: tuple[int, Iterable[bytes]], threshold: float, buckets: Buckets) -> Iterable[tuple[int, bytes]]:
    """Yields the documents to drop in one partition of bands as (bucket, packed ids)."""
    ids = find_near_duplicates(np.frombuffer(b"".join(element[1]), ROW), threshold)
    yield from pack_by(buckets.of(ids), ids.astype("<i8"))


def pack_by(keys: np.ndarray, values: np.ndarray) -> Iterator[tuple[int, bytes]]:
    """Yields each distinct key, in ascending order, with the bytes of its values, which keep their order."""
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    distinct, counts = np.unique(keys, return_counts=True)
    ends = np.cumsum(counts)
    for key, begin, end in zip(distinct.tolist(), ends - counts, ends, strict=True):
        yield key, values[begin:end].tobytes()

"""Which documents say about the same as another: MinHash-LSH in one GroupByKey over compact tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import GlobalWindows

from beam_pipelines.cleaning.signatures import ROW, band_shape, find_near_duplicates, sign_documents
from beam_pipelines.sources.documents import RawDocument
from beam_pipelines.transforms.duplicates import RecentDocuments
from beam_pipelines.transforms.tokenize import Buckets
from bert_tf.data.examples.build import document_id

# A bucket holds about 32 MB of text: 10,000 documents of Wikipedia, whose rows take 8 MB at a threshold of 0.8.
# Short documents have more rows for their text, hence more partitions than buckets.
_PARTITIONS_PER_BUCKET = 4
_LEAST_PARTITIONS = 16
# Rows a worker holds before it passes them on: 10 MB.
_ROWS_A_TABLE = 200_000


class FindNearDuplicates(beam.PTransform):
    """Finds the documents to drop, so that none stays that is about the same as one that stays or was dropped.

    A document is dropped when another one with a smaller id (a hash of its text) shares a band of minimum hashes
    with it and their estimated similarity reaches the threshold, see `cleaning.signatures`. This is a property of
    the set of documents: neither order nor batches, workers or runner matter. Of documents that form a chain of
    similar pairs the one with the smallest id always stays. Documents with a reason and documents without words are
    not looked at; exact duplicates share an id, so none is dropped for another.

    Batches of documents go in. (bucket, int64 ids as `<i8` bytes) come out; an id may come out several times.

    Args:
        threshold: Jaccard similarity from which on documents count as about the same.
        seed: of the permutations.
        buckets: say to which bucket a document goes.
    """

    def __init__(self, threshold: float, seed: int, buckets: Buckets) -> None:
        super().__init__()
        self._threshold = threshold
        self._seed = seed
        self._buckets = buckets

    def expand(self, documents: beam.PCollection[list[RawDocument]]) -> beam.PCollection[tuple[int, bytes]]:
        """Batches to rows to partitions of bands to ids."""
        bands, rows = band_shape(self._threshold)
        partitions = max(_LEAST_PARTITIONS, _PARTITIONS_PER_BUCKET * len(self._buckets))
        return (
            documents
            | "Sign" >> beam.ParDo(SignDocuments(self._seed, bands, rows, partitions))
            | "GatherBands" >> beam.GroupByKey()
            | "Compare" >> beam.ParDo(CompareSignatures(self._threshold, self._buckets))
        )


class SignDocuments(beam.DoFn):
    """Gathers the rows of documents over a bundle and yields (partition of bands, packed rows).

    Args:
        seed: of the permutations.
        bands: bands of a signature.
        rows: minimum hashes in a band.
        partitions: over which bands are spread.
    """

    def __init__(self, seed: int, bands: int, rows: int, partitions: int) -> None:
        self._seed = seed
        self._bands = bands
        self._rows = rows
        self._partitions = partitions

    def start_bundle(self) -> None:
        """Begins without rows."""
        self._recent = RecentDocuments()
        self._tables: list[np.ndarray] = []

    def process(self, batch: list[RawDocument]) -> Iterable[tuple[int, bytes]]:
        """Signs one batch, each text of a bundle once."""
        good = [document.paragraphs for document in batch if not document.reason]
        fresh = [text for text in good if not self._recent.is_copy(document_id("\n".join(text)))]
        self._tables.append(sign_documents(fresh, self._seed, self._bands, self._rows))
        if sum(map(len, self._tables)) > _ROWS_A_TABLE:
            yield from self._packed()

    def finish_bundle(self) -> Iterator[Any]:
        """Passes on what is left."""
        for element in self._packed():
            yield GlobalWindows.windowed_value(element)

    def _packed(self) -> Iterator[tuple[int, bytes]]:
        table = np.concatenate([np.zeros(0, ROW), *self._tables])
        self._tables = []
        yield from pack_by(table["band"] % np.uint64(self._partitions), table)


class CompareSignatures(beam.DoFn):
    """Finds the documents to drop in one partition of bands and yields (bucket, packed ids).

    Args:
        threshold: Jaccard similarity.
        buckets: say to which bucket a document goes.
    """

    def __init__(self, threshold: float, buckets: Buckets) -> None:
        self._threshold = threshold
        self._buckets = buckets

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterable[tuple[int, bytes]]:
        """Compares the rows of one partition."""
        _, tables = element
        ids = find_near_duplicates(np.frombuffer(b"".join(tables), ROW), self._threshold)
        yield from pack_by(self._buckets.of(ids), ids.astype("<i8"))


def pack_by(keys: np.ndarray, values: np.ndarray) -> Iterator[tuple[int, bytes]]:
    """Yields each key, int [n], with the bytes of its `values`, [n], keys and values in order."""
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    distinct, counts = np.unique(keys, return_counts=True)
    ends = np.cumsum(counts)
    for key, begin, end in zip(distinct.tolist(), ends - counts, ends, strict=True):
        yield key, values[begin:end].tobytes()

"""Packs tokenized documents to bytes for the shuffle, far smaller than text or Python objects.

Beam's local runner keeps several copies of all shuffled bytes in the memory of its driver. There, packed documents are
spilled to disk, and references to them cross the shuffle. A reference takes a few bytes per 64 KiB, so a corpus of any
size needs only the memory of its buckets.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from bert_tf.data.examples.build import TokenizedDocument

_HEADER = 4  # documents, sentences, tokens, bytes of a token id
_TOKEN_TYPES = {2: "<u2", 4: "<i4"}
# Values in place of the width of a token id: for ids to leave out, a reference to chunks on disk, numbers of copies.
_UNWANTED, _REFERENCE, _COPIES = 0, -1, -2
# Size at which chunks of one bucket are spilled, and size at which all waiting chunks are spilled.
_RUN_BYTES, _WAITING_BYTES = 64 << 10, 32 << 20


@dataclass(frozen=True)
class Gathered:
    """The documents of a bucket."""

    documents: list[TokenizedDocument]  # with unique ids, in any order
    unwanted: frozenset[int]  # ids of documents to leave out
    copies: Counter[int]  # exact duplicates dropped before the shuffle or here, by source


def pack(documents: Sequence[TokenizedDocument], vocabulary_size: int) -> bytes:
    """Packs `documents`; token ids take two bytes if `vocabulary_size` allows."""
    width = 2 if vocabulary_size <= 1 << 16 else 4
    sentences = [len(document.sentence_lengths) for document in documents]
    lengths = np.concatenate([document.sentence_lengths for document in documents])
    tokens = np.concatenate([document.token_ids for document in documents])
    header = np.array([len(documents), len(lengths), len(tokens), width], "<i8")
    ids = np.array([document.document_id for document in documents], "<i8")
    sources = np.array([document.source for document in documents], "<i4")
    counts = np.array(sentences, "<i4")
    arrays = (header, ids, sources, counts, lengths.astype("<i4"), tokens.astype(_TOKEN_TYPES[width]))
    return b"".join(array.tobytes() for array in arrays)


def mark_unwanted(packed_ids: bytes) -> bytes:
    """Returns the chunk of documents to leave out; `packed_ids` are their ids as `<i8`."""
    return _header(len(packed_ids) // 8, _UNWANTED) + packed_ids


def mark_copies(copies: Mapping[int, int]) -> bytes:
    """Returns the chunk with the number of dropped copies by source."""
    return _header(len(copies), _COPIES) + np.array(sorted(copies.items()), "<i8").tobytes()


def _header(count: int, kind: int) -> bytes:
    """Returns the header of a chunk with `count` items of a `kind` other than documents, below 1."""
    return np.array([count, 0, 0, kind], "<i8").tobytes()


def unpack(chunks: Iterable[bytes]) -> Gathered:
    """Unpacks `chunks`; of equal documents the one with the lowest source is kept.

    Copies are dropped while chunks are read, so memory does not grow with their number.
    """
    documents: dict[int, TokenizedDocument] = {}
    unwanted: set[int] = set()
    copies: Counter[int] = Counter()
    for chunk in chunks:
        count, sentences, tokens, width = np.frombuffer(chunk, "<i8", _HEADER).tolist()
        if width == _UNWANTED:
            unwanted.update(np.frombuffer(chunk, "<i8", count, 8 * _HEADER).tolist())
        elif width == _COPIES:
            for source, number in np.frombuffer(chunk, "<i8", 2 * count, 8 * _HEADER).reshape(-1, 2).tolist():
                copies[source] += number
        else:
            _add(list(_documents(chunk, count, sentences, tokens, width)), documents, copies)
    return Gathered(list(documents.values()), frozenset(unwanted), copies)


def _add(
    chunk_documents: Sequence[TokenizedDocument], documents: dict[int, TokenizedDocument], copies: Counter[int]
) -> None:
    """Adds the documents of one chunk to `documents`, and counts dropped duplicates in `copies`."""
    added: set[int] = set()
    for document in chunk_documents:
        number = document.document_id
        other = documents.get(number)
        if other is None or document.source < other.source:
            documents[number] = document
            added.add(number)
        if other is not None:
            copies[max(document.source, other.source)] += 1
    if len(added) < len(chunk_documents):
        # Documents are views of the chunk's arrays; without a copy the whole chunk would stay in memory.
        for number in added:
            document = documents[number]
            documents[number] = replace(
                document, token_ids=document.token_ids.copy(), sentence_lengths=document.sentence_lengths.copy()
            )


def _documents(chunk: bytes, count: int, sentences: int, tokens: int, width: int) -> Iterator[TokenizedDocument]:
    offset = 8 * _HEADER
    ids = np.frombuffer(chunk, "<i8", count, offset)
    offset += 8 * count
    sources, per_document = np.frombuffer(chunk, "<i4", 2 * count, offset).reshape(2, count)
    offset += 8 * count
    lengths = np.frombuffer(chunk, "<i4", sentences, offset).astype(np.int32)
    offset += 4 * sentences
    values = np.frombuffer(chunk, _TOKEN_TYPES[width], tokens, offset).astype(np.int32)
    sentence_ends = np.cumsum(per_document)[:-1]
    token_ends = np.concatenate([[0], np.cumsum(lengths)])[sentence_ends]
    for number, source, of_document, token_ids in zip(
        ids.tolist(), sources.tolist(), np.split(lengths, sentence_ends), np.split(values, token_ends), strict=True
    ):
        yield TokenizedDocument(number, token_ids, of_document, source)


class SpillToDisk(beam.DoFn):
    """Writes chunks to local files and converts (bucket, chunk) to (bucket, reference).

    The directory of the files exists; the driver deletes it when the run ends.
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
        return _header(len(chunks), _REFERENCE) + numbers.tobytes() + str(self._path).encode()


def read_spilled(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yields `chunks` with references replaced by the chunks on disk."""
    for chunk in chunks:
        count, _, _, kind = np.frombuffer(chunk, "<i8", _HEADER).tolist()
        if kind != _REFERENCE:
            yield chunk
            continue
        begin, *sizes = np.frombuffer(chunk, "<i8", 1 + count, 8 * _HEADER).tolist()
        path = Path(chunk[8 * (_HEADER + 1 + count) :].decode())
        with path.open("rb") as file:
            file.seek(begin)
            for size in sizes:
                yield file.read(size)

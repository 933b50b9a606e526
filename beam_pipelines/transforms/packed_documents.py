"""Packs tokenized documents to bytes for the shuffle, far smaller than text or Python objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bert_tf.data.examples.build import TokenizedDocument

_HEADER = 4  # documents, sentences, tokens, bytes of a token id
_TOKEN_TYPES = {2: "<u2", 4: "<i4"}
# Values in place of the width of a token id, for chunks with ids to leave out or with numbers of copies.
_UNWANTED, _COPIES = 0, -2


@dataclass(frozen=True)
class Gathered:
    """The documents of a bucket.

    Args:
        documents: documents with unique ids, in any order.
        unwanted: ids of documents to leave out.
        copies: number of exact duplicates dropped before the shuffle or here, by source.
    """

    documents: list[TokenizedDocument]
    unwanted: frozenset[int]
    copies: Counter[int]


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
    return header(len(packed_ids) // 8, _UNWANTED) + packed_ids


def mark_copies(copies: Mapping[int, int]) -> bytes:
    """Returns the chunk with the number of dropped copies by source."""
    return header(len(copies), _COPIES) + np.array(sorted(copies.items()), "<i8").tobytes()


def header(count: int, kind: int) -> bytes:
    """Returns the header of a chunk with `count` items of a `kind` other than documents, below 1."""
    return np.array([count, 0, 0, kind], "<i8").tobytes()


def kind_of(chunk: bytes) -> tuple[int, int]:
    """Returns the count and the kind in the header of a chunk; the kind is above 0 for documents."""
    count, _, _, kind = np.frombuffer(chunk, "<i8", _HEADER).tolist()
    return count, kind


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

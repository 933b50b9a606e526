"""Tokenized documents as bytes: what crosses the shuffle, far smaller than text or Python objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bert_tf.data.pairs import TokenizedDocument

_HEADER = 4  # documents, sentences, tokens, bytes of a token id
_TOKEN_TYPES = {2: "<u2", 4: "<i4"}
# Stands for the bytes of a token id in a chunk that names documents instead of holding them.
_UNWANTED = 0


def pack(documents: Sequence[TokenizedDocument], vocabulary_size: int) -> bytes:
    """Returns `documents` as bytes; ids take two bytes where the vocabulary allows."""
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
    """Returns the chunk that says which documents to leave out; `packed_ids` are their ids as `<i8`."""
    return marked(len(packed_ids) // 8, _UNWANTED) + packed_ids


def marked(count: int, kind: int) -> bytes:
    """Returns the header of a chunk that holds no documents but `count` things of a `kind` below 1."""
    return np.array([count, 0, 0, kind], "<i8").tobytes()


def kind_of(chunk: bytes) -> tuple[int, int]:
    """Returns the count in the header of a chunk and its kind, above 0 for documents."""
    count, _, _, kind = np.frombuffer(chunk, "<i8", _HEADER).tolist()
    return count, kind


def unpack(chunks: Iterable[bytes]) -> tuple[list[TokenizedDocument], frozenset[int]]:
    """Returns the documents of packed `chunks`, and the ids of those to leave out."""
    documents: list[TokenizedDocument] = []
    unwanted: set[int] = set()
    for chunk in chunks:
        count, sentences, tokens, width = np.frombuffer(chunk, "<i8", _HEADER).tolist()
        if width == _UNWANTED:
            unwanted.update(np.frombuffer(chunk, "<i8", count, 8 * _HEADER).tolist())
        else:
            documents += _documents(chunk, count, sentences, tokens, width)
    return documents, frozenset(unwanted)


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
    for number, source, of_document, own in zip(
        ids.tolist(), sources.tolist(), np.split(lengths, sentence_ends), np.split(values, token_ends), strict=True
    ):
        yield TokenizedDocument(number, own, of_document, source)

"""Tokenized documents as bytes: what crosses the shuffle, far smaller than text or Python objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bert_tf.data.pairs import TokenizedDocument

_HEADER = 4  # documents, sentences, tokens, bytes of a token id
_TOKEN_TYPES = {2: "<u2", 4: "<i4"}


def pack(documents: Sequence[TokenizedDocument], vocabulary_size: int) -> bytes:
    """Returns `documents` as bytes; ids take two bytes where the vocabulary allows."""
    width = 2 if vocabulary_size <= 1 << 16 else 4
    sentences = [len(document.sentence_lengths) for document in documents]
    lengths = np.concatenate([document.sentence_lengths for document in documents])
    tokens = np.concatenate([document.token_ids for document in documents])
    header = np.array([len(documents), len(lengths), len(tokens), width], "<i8")
    ids = np.array([document.document_id for document in documents], "<i8")
    arrays = (header, ids, np.array(sentences, "<i4"), lengths.astype("<i4"), tokens.astype(_TOKEN_TYPES[width]))
    return b"".join(array.tobytes() for array in arrays)


def unpack(chunks: Iterable[bytes]) -> Iterator[TokenizedDocument]:
    """Yields the documents of packed `chunks`."""
    for chunk in chunks:
        count, sentences, tokens, width = np.frombuffer(chunk, "<i8", _HEADER).tolist()
        offset = 8 * _HEADER
        ids = np.frombuffer(chunk, "<i8", count, offset)
        offset += 8 * count
        per_document = np.frombuffer(chunk, "<i4", count, offset)
        offset += 4 * count
        lengths = np.frombuffer(chunk, "<i4", sentences, offset).astype(np.int32)
        offset += 4 * sentences
        values = np.frombuffer(chunk, _TOKEN_TYPES[width], tokens, offset).astype(np.int32)
        sentence_ends = np.cumsum(per_document)[:-1]
        token_ends = np.concatenate([[0], np.cumsum(lengths)])[sentence_ends]
        for number, of_document, own in zip(
            ids.tolist(), np.split(lengths, sentence_ends), np.split(values, token_ends), strict=True
        ):
            yield TokenizedDocument(number, own, of_document)

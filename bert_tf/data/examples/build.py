"""Pre-training examples of one bucket of documents: sentence pairs for next sentence prediction, or single segments.

The algorithm follows the paper (arXiv 1810.04805, A.2) and its `create_pretraining_data`. Sentences of a document are
collected up to a target length. A random prefix of them is the first segment. The second segment is the rest (*next*)
or text from another document of the bucket that starts at a random sentence (*random*); in that case the unused rest
is returned to the document. Two differences keep the labels balanced and use all text:

- The original labels every chunk of one sentence *random*, so the share of random pairs grows with sentence length.
  Here the label is drawn first. If a chunk of one sentence is labelled *next*, its second segment is the following
  sentence, which stays available for the next chunk. At the end of a document the chunk is extended backwards by as
  many sentences as the target allows.
- A document of one sentence is cut in two at a random word start, as if it were two sentences.

Every pair is *random* with probability `random_next_prob`, with two exceptions. A document of a single word is always
*random*. If a bucket holds one document, all pairs are *next*; a document of a single word is then skipped and counted
in `Pairs.skipped`. The target length is drawn for every chunk; the original draws it once per document.

See `single_segments` for single segments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data.examples.assemble import assemble_rows
from bert_tf.data.examples.draw import Bucket, Chunks, draw_pairs, merged, splits
from bert_tf.data.examples.single_segments import draw_singles
from bert_tf.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class TokenizedDocument:
    """A document as word pieces.

    Args:
        document_id: 63-bit content hash, see `document_id`.
        token_ids: int32 [T], without special tokens.
        sentence_lengths: int32 [n], n >= 1, all >= 1, sum T.
        source: index of its input.

    Raises:
        ValueError: if an argument is out of range.
    """

    document_id: int
    token_ids: np.ndarray
    sentence_lengths: np.ndarray
    source: int = 0

    def __post_init__(self) -> None:
        lengths = self.sentence_lengths
        if not 0 <= self.document_id < 2**63:
            raise ValueError(f"`document_id` must be in [0, 2**63). Received: {self.document_id}")
        if len(lengths) == 0 or lengths.min() < 1 or lengths.sum() != len(self.token_ids):
            raise ValueError(
                f"document {self.document_id}: `sentence_lengths` must be positive and sum to the number of tokens, "
                f"{len(self.token_ids)}. Received: {lengths!r}"
            )


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs as a flat ragged array: `[CLS] a [SEP] b [SEP]`, or `[CLS] a [SEP]` for single segments.

    Args:
        token_ids: int32 [T], concatenated pairs without padding.
        row_splits: int64 [n+1], offsets of the pairs in `token_ids`.
        segment_lengths: int32 [n, 2]; the first includes [CLS] and the first [SEP], the second includes the second
            [SEP] and is 0 for single segments.
        next_sentence_labels: int32 [n], 0 next, 1 random; 0 for single segments.
        keys: uint64 [n], keys of the pairs' random streams; rows are sorted by key.
        skipped: number of chunks without an available second segment.
    """

    token_ids: np.ndarray
    row_splits: np.ndarray
    segment_lengths: np.ndarray
    next_sentence_labels: np.ndarray
    keys: np.ndarray
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.keys)


def document_id(text: str) -> int:
    """Returns the content hash of a document: BLAKE2b of its UTF-8 bytes, in [0, 2**63)."""
    digest = hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


@dataclass(frozen=True)
class Examples:
    """The drawn examples of a bucket; rows are assembled on demand.

    Args:
        token_ids: int32 [T], tokens that `chunks` refers to.
        chunks: n token ranges, sorted by key.
        config: length and kind of the rows.
        vocabulary: vocabulary with [CLS] and [SEP].
        skipped: see `Pairs`.
    """

    token_ids: np.ndarray
    chunks: Chunks
    config: DataConfig
    vocabulary: Vocabulary
    skipped: int

    def __len__(self) -> int:
        return len(self.chunks.keys)

    def rows(self, begin: int = 0, end: int | None = None) -> Pairs:
        """Returns the rows from `begin` to `end` (all by default), sorted by key."""
        chunks = self.chunks[begin:end]
        rows = assemble_rows(self.token_ids, chunks, self.config, self.vocabulary)
        return Pairs(*rows, chunks.is_random.astype(np.int32), chunks.keys, self.skipped)


def draw_examples(
    documents: Sequence[TokenizedDocument], copies: np.ndarray, config: DataConfig, vocabulary: Vocabulary
) -> Examples:
    """Draws all examples of one bucket, in a random order that depends only on content and seed.

    Args:
        documents: documents sorted by id, each id once.
        copies: int64 [D], number of passes over each document; each pass draws different examples.
        config: lengths, probabilities and seed.
        vocabulary: vocabulary with [CLS], [SEP] and the continuation pieces.

    Returns:
        Examples of at most `config.max_seq_length` tokens: pairs with two non-empty segments, or single segments
        if `config.next_sentence` is off.
    """
    draw = draw_pairs if config.next_sentence else draw_singles
    texts: list[np.ndarray] = []
    parts: list[Chunks] = []
    base = skipped = 0
    bucket = None
    for copy in range(int(copies.max(initial=0))):
        taken = np.flatnonzero(copies > copy)
        if bucket is None or len(taken) != len(bucket.ids):
            base += len(texts[-1]) if texts else 0
            bucket = _bucket_of([documents[index] for index in taken.tolist()])
            texts.append(bucket.token_ids)
        chunks, without = draw(bucket, config, vocabulary, copy)
        parts.append(chunks.shifted(base))
        skipped += without
    token_ids = np.concatenate([np.zeros(0, np.int32), *texts])
    return Examples(token_ids, merged(parts), config, vocabulary, skipped)


def build_pairs(
    documents: Sequence[TokenizedDocument], config: DataConfig, vocabulary: Vocabulary, copies: int = 1
) -> Pairs:
    """Draws and assembles all examples of documents in any order.

    Args:
        documents: documents, duplicates included.
        config: lengths, probabilities and seed.
        vocabulary: vocabulary with [CLS], [SEP] and the continuation pieces.
        copies: number of passes over every document.

    Returns:
        All rows of `draw_examples`.
    """
    by_id = {document.document_id: document for document in documents}
    unique = [by_id[number] for number in sorted(by_id)]
    return draw_examples(unique, np.full(len(unique), copies, np.int64), config, vocabulary).rows()


def _bucket_of(documents: Sequence[TokenizedDocument]) -> Bucket:
    lengths = [document.sentence_lengths for document in documents]
    return Bucket(
        np.array([document.document_id for document in documents], np.uint64),
        np.concatenate([document.token_ids for document in documents]).astype(np.int32, copy=False),
        splits(np.concatenate(lengths)),
        splits(np.array([len(sentences) for sentences in lengths])),
    )

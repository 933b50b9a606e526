"""Sentence pairs for next sentence prediction, built over one bucket of documents.

The algorithm is that of the paper (arXiv 1810.04805, A.2) and its `create_pretraining_data`: sentences of a document
are gathered until a target length is reached; a random prefix of them is the first segment; the second is the rest
(*next*) or text from another document of the bucket that starts at a random sentence (*random*), and then the
unused rest goes back. Two things differ, both for the sake of the labels and of no text lost:

- The original labels every chunk of one sentence *random*, so the share of random pairs grows with the length of the
  sentences. Here the label is drawn first. A lone sentence that is to have a *next* segment takes the sentence after
  it (which is not used up by that), or at the end of a document as many sentences before it as the target allows.
- A document of one sentence is cut in two at a random word start, as if it were two sentences.

So *random* has the probability `random_next_prob` for every pair, with two exceptions: a document of a single word is
always *random*, and where a bucket holds one document all pairs are *next* (a single word alone is skipped and
counted in `Pairs.skipped`). The target length is drawn for every chunk; the original draws it once a document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data import chunks as chunking
from bert_tf.data.segments import assemble, ranges
from bert_tf.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class TokenizedDocument:
    """A document as word pieces.

    Args:
        document_id: 63-bit content hash, see `document_id`.
        token_ids: int32 [T], no special tokens.
        sentence_lengths: int32 [n], n >= 1, all >= 1, of sum T.

    Raises:
        ValueError: where these rules are broken.
    """

    document_id: int
    token_ids: np.ndarray
    sentence_lengths: np.ndarray

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
    """Packed pairs, ragged and flat: `[CLS] a [SEP] b [SEP]`, unpadded.

    Args:
        token_ids: int32 [T], all pairs one after the other.
        row_splits: int64 [n+1], where each pair begins and the last ends.
        segment_lengths: int32 [n, 2]; the first counts [CLS] and the first [SEP], the second the second [SEP].
        next_sentence_labels: int32 [n], 0 next, 1 random.
        keys: uint64 [n], keys of the pairs' random streams; rows are sorted by them.
        skipped: chunks that gave no pair for want of a second segment.
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
    """Returns the content hash that names a document: BLAKE2b of its UTF-8, in [0, 2**63)."""
    digest = hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def unique_documents(documents: Sequence[TokenizedDocument]) -> tuple[list[TokenizedDocument], int]:
    """Returns the documents sorted by id, each id once, and how many were dropped as duplicates."""
    unique = {document.document_id: document for document in documents}
    return [unique[key] for key in sorted(unique)], len(documents) - len(unique)


def build_pairs(
    documents: Sequence[TokenizedDocument], config: DataConfig, vocabulary: Vocabulary, copy: int = 0
) -> Pairs:
    """Builds the pairs of one bucket, in a random order that depends on nothing but content and seed.

    Args:
        documents: the bucket in any order; of several with one id one counts.
        config: lengths, probabilities and the seed.
        vocabulary: gives [CLS], [SEP] and the pieces that continue a word.
        copy: number of the pass over the corpus (`config.dupe_factor` in all); each draws other pairs.

    Returns:
        At most `config.max_seq_length` tokens a pair, both segments never empty.
    """
    documents, _ = unique_documents(documents)
    if not documents:
        empty = np.zeros(0, np.int32)
        return Pairs(empty, np.zeros(1, np.int64), empty.reshape(0, 2), empty, np.zeros(0, np.uint64))
    bucket = chunking.make_bucket(
        np.array([document.document_id for document in documents], np.uint64),
        np.concatenate([document.token_ids for document in documents]).astype(np.int32, copy=False),
        [document.sentence_lengths for document in documents],
    )
    bucket = chunking.cut_lone_sentences(bucket, vocabulary.is_continuation, config.seed, copy)
    chunks, skipped = chunking.draw_chunks(bucket, config, copy)
    token_ids, row_splits, segment_lengths = assemble(
        bucket.token_ids, chunks, config.max_seq_length, vocabulary.cls_id, vocabulary.sep_id
    )
    labels = chunks.is_random.astype(np.int32)
    return Pairs(token_ids, row_splits, segment_lengths, labels, chunks.keys, skipped)


def merge_pairs(parts: Sequence[Pairs]) -> Pairs:
    """Returns all rows of `parts` (the copies of one bucket, at least one) as one, sorted by key."""
    keys = np.concatenate([part.keys for part in parts])
    order = np.argsort(keys, kind="stable")
    lengths = np.concatenate([np.diff(part.row_splits) for part in parts])
    starts = np.cumsum(lengths) - lengths
    token_ids = np.concatenate([part.token_ids for part in parts])
    return Pairs(
        token_ids=token_ids[ranges(starts[order], lengths[order])],
        row_splits=np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int64),
        segment_lengths=np.concatenate([part.segment_lengths for part in parts])[order],
        next_sentence_labels=np.concatenate([part.next_sentence_labels for part in parts])[order],
        keys=keys[order],
        skipped=sum(part.skipped for part in parts),
    )

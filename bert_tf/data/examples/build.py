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

Without next sentence prediction, whole sentences of a document are packed up to the target length as single segments
(DOC-SENTENCES of RoBERTa, arXiv 1907.11692, section 4.2). A sentence longer than an example is first cut at the last
word start that fits, so no token is lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data.examples.draw import TRUNCATION, Bucket, Chunks, draw_pairs, draw_singles, merged, splits
from bert_tf.data.randomness import random_bits
from bert_tf.text.vocabulary import Vocabulary

_FULL = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True)
class TokenizedDocument:
    """A document as word pieces. Raises ValueError if an argument is out of range."""

    document_id: int  # 63-bit content hash, see `document_id`
    token_ids: np.ndarray  # int32 [T], without special tokens
    sentence_lengths: np.ndarray  # int32 [n], n >= 1, all >= 1, sum T
    source: int = 0  # index of its input

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

    The length of the first segment includes [CLS] and the first [SEP]. The length of the second segment includes the
    second [SEP]; it is 0 for single segments.
    """

    token_ids: np.ndarray  # int32 [T], concatenated pairs without padding
    row_splits: np.ndarray  # int64 [n+1], offsets of the pairs in `token_ids`
    segment_lengths: np.ndarray  # int32 [n, 2]
    next_sentence_labels: np.ndarray  # int32 [n], 0 next, 1 random; 0 for single segments
    keys: np.ndarray  # uint64 [n], keys of the pairs' random streams; rows are sorted by key
    skipped: int = 0  # number of chunks without an available second segment

    def __len__(self) -> int:
        return len(self.keys)


def document_id(text: str) -> int:
    """Returns the content hash of a document: BLAKE2b of its UTF-8 bytes, in [0, 2**63)."""
    digest = hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


@dataclass(frozen=True)
class Examples:
    """The n drawn examples of a bucket; rows are assembled on demand."""

    token_ids: np.ndarray  # int32 [T], tokens that `chunks` refers to
    chunks: Chunks  # sorted by key
    config: DataConfig
    vocabulary: Vocabulary
    skipped: int  # see `Pairs`

    def __len__(self) -> int:
        return len(self.chunks.keys)

    def rows(self, begin: int = 0, end: int | None = None) -> Pairs:
        """Returns the rows from `begin` to `end` (all by default), sorted by key and truncated to fit.

        As in the original, each removed token is taken from the front or the back of its segment with equal
        probability. Raises ValueError if a single segment is too long.
        """
        chunks, pairs = self.chunks[begin:end], self.config.next_sentence
        longest = self.config.max_seq_length - (3 if pairs else 2)
        before_a, before_b = chunks.a_end - chunks.a_start, chunks.b_end - chunks.b_start
        if not pairs and before_a.max(initial=0) > longest:
            raise ValueError(f"a segment must have at most {longest} tokens. Received: {before_a.max()}")
        a, b = truncated_lengths(before_a, before_b, longest)
        a_start = chunks.a_start + _front_losses(chunks.keys, before_a - a, 0)
        b_start = chunks.b_start + _front_losses(chunks.keys, before_b - b, 1)
        first, second = a + 2, b + 1 if pairs else np.zeros_like(b)
        row_splits = splits(first + second)
        begins, ends = row_splits[:-1], row_splits[1:]
        rows = np.empty(row_splits[-1], np.int32)
        rows[begins] = self.vocabulary.cls_id
        rows[begins + a + 1] = self.vocabulary.sep_id
        rows[ends - 1] = self.vocabulary.sep_id
        rows[ranges(begins + 1, a)] = self.token_ids[ranges(a_start, a)]
        rows[ranges(begins + a + 2, b)] = self.token_ids[ranges(b_start, b)]
        segment_lengths = np.stack([first, second], axis=1).astype(np.int32)
        labels = chunks.is_random.astype(np.int32)
        return Pairs(rows, row_splits, segment_lengths, labels, chunks.keys, self.skipped)


def draw_examples(
    documents: Sequence[TokenizedDocument], copies: np.ndarray, config: DataConfig, vocabulary: Vocabulary
) -> Examples:
    """Draws all examples of one bucket, in a random order that depends only on content and seed.

    The D documents are sorted by id, each id once. `copies`, int64 [D], is the number of passes over each document;
    each pass draws different examples. They have at most `config.max_seq_length` tokens: pairs with two non-empty
    segments, or single segments if `config.next_sentence` is off.
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
    """Draws and assembles all examples of documents in any order, duplicates included, in `copies` passes over each."""
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


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns the concatenated integer ranges [starts, starts + lengths): int64 [sum]."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)


def truncated_lengths(a: np.ndarray, b: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lengths, int64 [n] each, of first and second segments after truncation to a sum of at most `longest`.

    Tokens are removed one at a time from the longer segment, from the second if both are equal.
    """
    kept_a = np.minimum(a, np.maximum(longest - b, (longest + 1) // 2))
    kept_b = np.minimum(b, np.maximum(longest - a, longest // 2))
    return kept_a, kept_b


def _front_losses(keys: np.ndarray, lost: np.ndarray, side: int) -> np.ndarray:
    """Returns the number of `lost` tokens to remove from the front: one coin flip per token, 64 flips per draw."""
    words = (lost + 63) // 64
    number = ranges(np.zeros_like(words), words)
    bits = random_bits(np.repeat(keys, words), TRUNCATION + 2 * number + side)
    coins = np.minimum(np.repeat(lost, words) - 64 * number, 64).astype(np.uint64)
    heads = np.bitwise_count(bits & (_FULL >> (np.uint64(64) - coins))).astype(np.int64)
    return np.bincount(np.repeat(np.arange(len(lost)), words), weights=heads, minlength=len(lost)).astype(np.int64)

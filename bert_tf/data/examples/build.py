"""Examples over one bucket of documents: sentence pairs for next sentence prediction, or single segments.

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

Single segments are described in `singles`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data.examples import draw as chunking
from bert_tf.data.examples.assemble import assemble_pairs, assemble_singles
from bert_tf.data.examples.single_segments import draw_singles
from bert_tf.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class TokenizedDocument:
    """A document as word pieces.

    Args:
        document_id: 63-bit content hash, see `document_id`.
        token_ids: int32 [T], no special tokens.
        sentence_lengths: int32 [n], n >= 1, all >= 1, of sum T.
        source: number of the input it came from.

    Raises:
        ValueError: where these rules are broken.
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
    """Packed pairs, ragged and flat: `[CLS] a [SEP] b [SEP]`, unpadded; or single segments, `[CLS] a [SEP]`.

    Args:
        token_ids: int32 [T], all pairs one after the other.
        row_splits: int64 [n+1], where each pair begins and the last ends.
        segment_lengths: int32 [n, 2]; the first counts [CLS] and the first [SEP], the second the second [SEP], or
            is 0.
        next_sentence_labels: int32 [n], 0 next, 1 random; 0 for single segments.
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


def unique_documents(documents: Sequence[TokenizedDocument]) -> tuple[list[TokenizedDocument], list[TokenizedDocument]]:
    """Returns the documents sorted by id, each id once, and those dropped; of equal ones the lowest source is kept."""
    ranked = sorted(documents, key=lambda document: (document.document_id, document.source))
    kept: list[TokenizedDocument] = []
    dropped: list[TokenizedDocument] = []
    for document in ranked:
        same = bool(kept) and kept[-1].document_id == document.document_id
        (dropped if same else kept).append(document)
    return kept, dropped


class Examples:
    """The examples of a bucket, drawn but not laid out: rows are made when they are asked for.

    Args:
        token_ids: int32 [T], what the ranges of `chunks` are cut from.
        chunks: n ranges, sorted by key.
        config: length and kind of the rows.
        vocabulary: gives [CLS] and [SEP].
        skipped: see `Pairs`.
    """

    def __init__(
        self, token_ids: np.ndarray, chunks: chunking.Chunks, config: DataConfig, vocabulary: Vocabulary, skipped: int
    ) -> None:
        self._token_ids = token_ids
        self._chunks = chunks
        self._config = config
        self._vocabulary = vocabulary
        self.skipped = skipped

    def __len__(self) -> int:
        return len(self._chunks.keys)

    def rows(self, begin: int = 0, end: int | None = None) -> Pairs:
        """Returns the rows from `begin` to `end` (all by default), sorted by key."""
        chunks = self._chunks[begin:end]
        assemble = assemble_pairs if self._config.next_sentence else assemble_singles
        token_ids, row_splits, segment_lengths = assemble(
            self._token_ids, chunks, self._config.max_seq_length, self._vocabulary.cls_id, self._vocabulary.sep_id
        )
        labels = chunks.is_random.astype(np.int32)
        return Pairs(token_ids, row_splits, segment_lengths, labels, chunks.keys, self.skipped)


def draw_examples(
    documents: Sequence[TokenizedDocument], copies: np.ndarray, config: DataConfig, vocabulary: Vocabulary
) -> Examples:
    """Draws all examples of one bucket, in a random order that depends on nothing but content and seed.

    Args:
        documents: as `unique_documents` gives them.
        copies: int64 [D], how many passes take each document in; each pass draws other examples.
        config: lengths, probabilities and the seed.
        vocabulary: gives [CLS], [SEP] and the pieces that continue a word.

    Returns:
        Examples of at most `config.max_seq_length` tokens: pairs with both segments never empty or, where
        `config.next_sentence` is off, single segments.
    """
    draw = _draw_pairs if config.next_sentence else draw_singles
    texts: list[np.ndarray] = []
    parts: list[chunking.Chunks] = []
    base = skipped = 0
    bucket = None
    for copy in range(int(copies.max(initial=0))):
        taken = np.flatnonzero(copies > copy)
        if bucket is None or len(taken) != len(bucket.ids):
            base += len(texts[-1]) if texts else 0
            bucket = _make_bucket([documents[index] for index in taken.tolist()])
            texts.append(bucket.token_ids)
        chunks, without = draw(bucket, config, vocabulary, copy)
        parts.append(chunks.shifted(base))
        skipped += without
    token_ids = np.concatenate([np.zeros(0, np.int32), *texts])
    return Examples(token_ids, chunking.merged(parts), config, vocabulary, skipped)


def build_pairs(
    documents: Sequence[TokenizedDocument], config: DataConfig, vocabulary: Vocabulary, copies: int = 1
) -> Pairs:
    """Returns all rows of `draw_examples` for `documents` in any order, each in `copies` passes."""
    unique, _ = unique_documents(documents)
    return draw_examples(unique, np.full(len(unique), copies, np.int64), config, vocabulary).rows()


def _make_bucket(documents: Sequence[TokenizedDocument]) -> chunking.Bucket:
    return chunking.make_bucket(
        np.array([document.document_id for document in documents], np.uint64),
        np.concatenate([document.token_ids for document in documents]).astype(np.int32, copy=False),
        [document.sentence_lengths for document in documents],
    )


def _draw_pairs(
    bucket: chunking.Bucket, config: DataConfig, vocabulary: Vocabulary, copy: int
) -> tuple[chunking.Chunks, int]:
    bucket = chunking.cut_lone_sentences(bucket, vocabulary.is_continuation, chunking.base_key(config), copy)
    return chunking.draw_chunks(bucket, config, copy)

"""Tokenizes raw documents and assigns them to buckets."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import sentencex
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from beam_pipelines.runners.versions import SameVersionsDoFn
from beam_pipelines.sources.documents import EMPTY, RawDocument
from beam_pipelines.transforms.packed_documents import mark_copies, pack
from beam_pipelines.transforms.rejections import account
from bert_tf.config import DataConfig
from bert_tf.data.examples.build import TokenizedDocument, document_id
from bert_tf.data.randomness import integers, stream_keys, uniform
from bert_tf.entry.quiet import import_tensorflow
from bert_tf.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from bert_tf.text.tokenizer import BertTokenizer

# Key of the random stream of bucket choices, among the streams of (seed, document id).
_BUCKET_STREAM = 0x6275636B6574
# An entry takes about 200 bytes, so a full table takes 26 MB in each worker.
_CAPACITY = 1 << 17


@dataclasses.dataclass(frozen=True)
class Buckets:
    """Assignment of documents to `train` training buckets, followed by `validation` held-out buckets."""

    seed: int
    train: int
    validation: int
    validation_fraction: float

    def __len__(self) -> int:
        return self.train + self.validation

    def of(self, document_ids: np.ndarray) -> np.ndarray:
        """Returns the buckets, int64 [n], of `document_ids`, int64 [n]."""
        keys = stream_keys(self.seed, _BUCKET_STREAM, document_ids)
        held_out = uniform(keys, 0) < self.validation_fraction
        train = integers(keys, 1, self.train)
        validation = self.train + integers(keys, 2, max(self.validation, 1))
        return np.where(held_out, validation, train)

    def name(self, bucket: int) -> tuple[str, int, int]:
        """Returns (split, index, total) of `bucket`."""
        if bucket < self.train:
            return "train", bucket, self.train
        return "validation", bucket - self.train, self.validation


def split_sentences(paragraphs: Iterable[str], language: str) -> list[str]:
    """Returns the sentences of `paragraphs`; with `language` `none` each paragraph is one sentence."""
    if language == "none":
        return list(paragraphs)
    return [sentence for paragraph in paragraphs for sentence in sentencex.segment(language, paragraph)]


@functools.lru_cache(maxsize=2)
def shared_tokenizer(tokens: tuple[str, ...], lowercase: bool) -> BertTokenizer:
    """Returns the cached tokenizer of this process; building it takes most of a second."""
    import_tensorflow()
    from bert_tf.text.tokenizer import BertTokenizer  # imports TensorFlow, which only workers need

    return BertTokenizer(Vocabulary(tokens), lowercase)


class RecentDocuments:
    """Remembers the most recent `capacity` documents of one bundle, to drop exact duplicates before the shuffle.

    Each bundle needs a new object, because the output of a failed bundle is lost and its documents must be forgotten.
    `packed_documents.unpack` drops the remaining duplicates. A Beam `CombineFn` is not suitable. Before a shuffle,
    runners combine only within one bundle, too, but they keep up to 100,000 values of any size, and a combiner keyed by
    document would send all text through another shuffle.
    """

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._sources: OrderedDict[int, int] = OrderedDict()

    def is_copy(self, document_id: int, source: int = 0) -> bool:
        """Returns True if an equal document with the same or a lower source is remembered; remembers the document."""
        lowest = self._sources.get(document_id)
        if lowest is not None:
            self._sources.move_to_end(document_id)
            if lowest <= source:
                return True
        self._sources[document_id] = source
        if len(self._sources) > self._capacity:
            self._sources.popitem(last=False)
        return False

    def forget(self, document_id: int) -> None:
        """Forgets a document that was not emitted."""
        self._sources.pop(document_id, None)


@dataclasses.dataclass(eq=False, repr=False)
class TokenizeDocuments(SameVersionsDoFn):
    """Splits, tokenizes and packs batches of documents; copies of a document of the same bundle are dropped.

    Main output: (bucket, packed documents) and, at the end of a bundle, (bucket, number of copies dropped). Copies are
    counted by bucket, so a resumed run counts those of a finished bucket once. The other outputs are those of
    `rejections.account`. The documents of finished buckets are counted but not emitted. The vocabulary is sent with the
    pipeline, because workers cannot read the driver's disk.
    """

    config: DataConfig  # case and seed are used
    languages: Sequence[str]  # of each source, for sentence splitting
    vocabulary: Vocabulary
    buckets: Buckets
    finished: frozenset[int]  # buckets with complete shards

    def setup(self) -> None:
        """Checks the versions and builds the tokenizer, once per process."""
        super().setup()
        self._tokenizer = shared_tokenizer(self.vocabulary.tokens, self.config.lowercase)

    def start_bundle(self) -> None:
        """Starts without documents."""
        self._recent = RecentDocuments()
        self._copies: dict[int, Counter[int]] = defaultdict(Counter)

    def process(self, batch: list[RawDocument]) -> Iterable[tuple[int, bytes]]:
        """Yields the outputs of one batch."""
        left_out = [(document, document.reason) for document in batch if document.reason]
        fresh: dict[int, list[RawDocument]] = defaultdict(list)
        copies: dict[int, list[RawDocument]] = defaultdict(list)
        for document in batch:
            if not document.reason:
                number = document_id("\n".join(document.paragraphs))
                (copies if self._recent.is_copy(number, document.source) else fresh)[number].append(document)
        numbers = [number for number, equal in fresh.items() for _ in equal]
        raw = [document for equal in fresh.values() for document in equal]
        tokenized = list(filter(None, tokenize_documents(raw, numbers, self.languages, self._tokenizer)))
        for number in fresh.keys() - {document.document_id for document in tokenized}:
            self._recent.forget(number)
            left_out += [(document, EMPTY) for document in fresh[number] + copies.pop(number, [])]
        yield from account(batch, left_out)
        self._count(copies)
        yield from self._pack_documents(tokenized)

    def finish_bundle(self) -> Iterable[WindowedValue]:
        """Yields the numbers of copies."""
        for bucket, copies in sorted(self._copies.items()):
            if bucket not in self.finished:
                yield GlobalWindows.windowed_value((bucket, mark_copies(copies)))

    def _count(self, copies: Mapping[int, Sequence[RawDocument]]) -> None:
        """Adds copies by id to the counts of their buckets."""
        buckets = self.buckets.of(np.array(list(copies), np.int64))
        for bucket, equal in zip(buckets.tolist(), copies.values(), strict=True):
            self._copies[bucket].update(document.source for document in equal)

    def _pack_documents(self, documents: Sequence[TokenizedDocument]) -> Iterable[tuple[int, bytes]]:
        by_bucket: dict[int, list[TokenizedDocument]] = defaultdict(list)
        buckets = self.buckets.of(np.array([document.document_id for document in documents], np.int64))
        for document, bucket in zip(documents, buckets.tolist(), strict=True):
            by_bucket[bucket].append(document)
        for bucket, bucket_documents in sorted(by_bucket.items()):
            if bucket not in self.finished:
                yield bucket, pack(bucket_documents, len(self.vocabulary))


def tokenize_documents(
    documents: Sequence[RawDocument], numbers: Sequence[int], languages: Sequence[str], tokenizer: BertTokenizer
) -> list[TokenizedDocument | None]:
    """Splits n documents into sentences in the language of their source, and sentences into word pieces.

    The tokenizer is called once. Returns n documents with the ids `numbers`; None for a document without pieces.
    """
    sentences = [split_sentences(document.paragraphs, languages[document.source]) for document in documents]
    ids = tokenizer.tokenize([sentence for document_sentences in sentences for sentence in document_sentences])
    lengths = np.diff(ids.row_splits).astype(np.int32)
    tokenized: list[TokenizedDocument | None] = []
    first = 0
    for document, number, document_sentences in zip(documents, numbers, sentences, strict=True):
        last = first + len(document_sentences)
        token_ids = ids.values[ids.row_splits[first] : ids.row_splits[last]]
        sentence_lengths = lengths[first:last]
        first = last
        if not len(token_ids):
            tokenized.append(None)
            continue
        tokenized.append(TokenizedDocument(number, token_ids, sentence_lengths[sentence_lengths > 0], document.source))
    return tokenized

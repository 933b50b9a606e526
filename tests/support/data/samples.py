"""Small vocabularies, documents and data directories for the tests of `bert_tf.data`."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from bert_tf.config import DataConfig
from bert_tf.data.examples.build import Pairs, TokenizedDocument, build_pairs
from bert_tf.data.manifest import Manifest, write_manifest
from bert_tf.data.masking.tokens import mask_pairs
from bert_tf.data.schema import VOCABULARY_NAME, shard_name
from bert_tf.data.tfrecord.shards import encode_dynamic, encode_static, write_shard
from bert_tf.text.vocabulary import Vocabulary, save_vocabulary


def make_vocabulary(words: int = 400, continuations: int = 100) -> Vocabulary:
    """Special tokens in the middle, so that no test depends on [PAD] being 0."""
    pieces = [f"w{i}" for i in range(words)] + [f"##c{i}" for i in range(continuations)]
    pieces[7:7] = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    return Vocabulary(tuple(pieces))


def random_documents(
    vocabulary: Vocabulary, count: int, seed: int = 0, sentences: int = 12, longest: int = 24
) -> list[TokenizedDocument]:
    """Returns documents of random words."""
    rng = np.random.default_rng(seed)
    pool = np.setdiff1d(np.arange(len(vocabulary)), vocabulary.special_ids).astype(np.int32)
    documents = []
    for _ in range(count):
        lengths = rng.integers(1, longest + 1, rng.integers(1, sentences + 1)).astype(np.int32)
        documents.append(TokenizedDocument(int(rng.integers(2**63)), rng.choice(pool, lengths.sum()), lengths))
    return documents


def numbered_documents(lengths: list[list[int]], first_token: int = 16) -> list[TokenizedDocument]:
    """Returns documents whose tokens count up from `first_token`, so that each token identifies its position."""
    documents, token = [], first_token
    for number, sentences in enumerate(lengths):
        total = sum(sentences)
        ids = np.arange(token, token + total, dtype=np.int32)
        documents.append(TokenizedDocument(number * 1_000_003 + 5, ids, np.array(sentences, np.int32)))
        token += total
    return documents


def rows(pairs: Pairs) -> list[np.ndarray]:
    return [pairs.token_ids[begin:end] for begin, end in pairwise(pairs.row_splits)]


def take(pairs: Pairs, begin: int, end: int) -> Pairs:
    splits = pairs.row_splits[begin : end + 1]
    return Pairs(
        pairs.token_ids[splits[0] : splits[-1]],
        splits - splits[0],
        pairs.segment_lengths[begin:end],
        pairs.next_sentence_labels[begin:end],
        pairs.keys[begin:end],
    )


def write_directory(directory, config: DataConfig, vocabulary: Vocabulary, sizes: dict[str, list[int]]):
    """Writes a data directory with shards of `sizes` examples; returns the manifest and the pairs by split."""
    pairs = build_pairs(random_documents(vocabulary, 60, seed=3), config, vocabulary)
    shards, splits, begin = {}, {}, 0
    for split, counts in sizes.items():
        infos, splits[split] = [], []
        for index, count in enumerate(counts):
            part = take(pairs, begin, begin + count)
            begin += count
            splits[split].append(part)
            if config.masking == "static":
                records = encode_static(part, mask_pairs(part, config, vocabulary), config)
            else:
                records = encode_dynamic(part)
            infos.append(write_shard(directory / shard_name(split, index, len(counts)), records))
        shards[split] = tuple(infos)
    if begin > len(pairs):
        raise ValueError(f"the sample has {len(pairs)} pairs. Received: {sizes}")
    manifest = Manifest(
        config=config,
        vocabulary_sha256=vocabulary.fingerprint,
        vocabulary_size=len(vocabulary),
        shards=shards,
        counts={"examples": begin},
    )
    save_vocabulary(vocabulary, directory / VOCABULARY_NAME)
    write_manifest(manifest, directory)
    return manifest, splits

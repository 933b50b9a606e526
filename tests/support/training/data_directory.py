"""A data directory for tests of whole runs, and its model configuration."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from bert_tf.config import DataConfig
from bert_tf.data.examples.build import TokenizedDocument, build_pairs
from bert_tf.data.manifest import Manifest, write_manifest
from bert_tf.data.schema import VOCABULARY_NAME, shard_name
from bert_tf.data.tfrecord.shards import encode_dynamic, write_shard
from bert_tf.text.vocabulary import Vocabulary, save_vocabulary

MODEL = {"hidden_dim": 32, "num_layers": 2, "num_heads": 2, "intermediate_dim": 64, "max_sequence_length": 32}


def write_small_data(folder: Path, name: str = "data", words: int = 200, word: str = "w", **fields) -> Path:
    """Writes `folder/model.json` and a data directory `folder/<name>` of random words; returns the latter."""
    config = DataConfig(**({"max_seq_length": 32, "max_predictions_per_seq": 5} | fields))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"{word}{number}" for number in range(words))]
    vocabulary, random = Vocabulary(tuple(pieces)), np.random.default_rng(1)
    directory = folder / name
    directory.mkdir()
    shards = {}
    for split, documents in (("train", 60), ("validation", 15)):
        pairs = build_pairs([_document(random, len(pieces)) for _ in range(documents)], config, vocabulary)
        shards[split] = (write_shard(directory / shard_name(split, 0, 1), encode_dynamic(pairs)),)
    save_vocabulary(vocabulary, directory / VOCABULARY_NAME)
    write_manifest(Manifest(config, vocabulary.fingerprint, len(vocabulary), shards, {}), directory)
    (folder / "model.json").write_text(json.dumps(MODEL))
    return directory


def _document(random: np.random.Generator, pieces: int) -> TokenizedDocument:
    lengths = random.integers(3, 12, random.integers(2, 10)).astype(np.int32)
    words = random.integers(5, pieces, lengths.sum()).astype(np.int32)
    return TokenizedDocument(int(random.integers(2**63)), words, lengths)

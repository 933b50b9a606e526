"""Data directories for the tests of the report, with the counts of the pipeline in their manifests."""

from __future__ import annotations

import dataclasses

import numpy as np

from bert_tf.config import DataConfig
from bert_tf.data.manifest import Manifest, Source, read_manifest, write_manifest
from bert_tf.text.vocabulary import Vocabulary
from tests.support.data.samples import make_vocabulary, write_directory

HOSTILE = ("<script>alert(1)</script>", '"><img', "&amp;", "]]>", "'")
VOCABULARY = Vocabulary((*make_vocabulary().tokens, *HOSTILE))
# No held-out documents are requested, so that the few examples of `SIZES` cause no warning.
CONFIG = DataConfig(max_seq_length=32, max_predictions_per_seq=5, seed=7, validation_fraction=0.0)
STATIC = dataclasses.replace(CONFIG, masking="static")
SINGLES = dataclasses.replace(CONFIG, next_sentence=False)
SIZES = {"train": [60, 90], "validation": [10]}
SOURCE = Source("/corpus/<b>*.txt", "text", "en", 1.0, 3, 2_500_000, 1_200, 1_000, 70_000, {"empty": 200})


def manifest_of(directory, **changes) -> Manifest:
    manifest = dataclasses.replace(read_manifest(directory), **changes)
    write_manifest(manifest, directory)
    return manifest


def full_manifest(directory, splits) -> Manifest:
    """Adds the counts of the pipeline to a sample; those of its records are real."""
    pairs = [pairs for parts in splits.values() for pairs in parts]
    lengths = np.concatenate([np.diff(part.row_splits) for part in pairs])
    labels = np.concatenate([part.next_sentence_labels for part in pairs])
    return manifest_of(
        directory,
        counts={"examples": len(lengths), "documents_read": 1_200, "documents": 1_000, "tokens": 70_000,
                "sentences": 9_000, "single_sentence_documents": 7, "unknown_tokens": 70},
        rejected={"empty": 200},
        sources=(SOURCE,),
        histograms={"example_lengths": np.bincount(lengths).tolist(), "document_lengths": [0, 0, 3, 0, 900, 97]},
        label_histogram={"next": int((labels == 0).sum()), "random": int(labels.sum())},
        unk_rate=0.001,
        fill=float(lengths.mean() / 32),
        versions={"numpy": "2.4.6"},
        unicode_version="14.0.0",
    )  # fmt: skip


def write_sample(directory, config: DataConfig = CONFIG):
    """Writes a data directory; returns its manifest and the pairs by split."""
    _, splits = write_directory(directory, config, VOCABULARY, SIZES)
    return full_manifest(directory, splits), splits

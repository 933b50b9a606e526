"""`python -m beam_pipelines.create_pretraining_data`: raw text to pre-training shards and their manifest."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from beam_pipelines import storage
from beam_pipelines.data_directory import (
    DEAD_LETTERS,
    DataDirectory,
    describe_run,
    make_manifest,
)
from beam_pipelines.entry import run_as_program
from beam_pipelines.errors import PipelineError
from beam_pipelines.options import CorpusOptions, PretrainingDataOptions, data_config, parse
from beam_pipelines.progress import ProgressReporter
from beam_pipelines.runners import runner_flags, running_pipeline
from beam_pipelines.sources.corpus import Corpus, ReadCorpus, find_corpus
from beam_pipelines.transforms.build_shards import REPORTS, BuildShard
from beam_pipelines.transforms.rejections import READ, REJECTED, check_rejected, rejected_by_reason
from beam_pipelines.transforms.reports import DOCUMENTS_READ, read_document_count, write_reports
from beam_pipelines.transforms.tokenize import Buckets, TokenizeDocuments
from bert_tf.config import ConfigError, DataConfig
from bert_tf.data.manifest import Manifest, read_manifest, verify_shards, write_manifest
from bert_tf.data.schema import VOCABULARY_NAME
from bert_tf.text.vocabulary import Vocabulary, load_vocabulary, save_vocabulary

# Text in one bucket: 15 M tokens or so, which with their records take about a gigabyte while a shard is made.
_BUCKET_BYTES = 64 << 20


def run(argv: Sequence[str]) -> dict[str, Any]:
    """Makes a data directory, goes on with a half-made one, or returns the summary of a finished one.

    Args:
        argv: our flags and Beam's.

    Returns:
        `output`, `seconds`, `documents_read`, `documents_rejected`, `examples`, `shards`, `tokens`.

    Raises:
        ConfigError: for flags, input or an output directory that break a rule.
        InputError: for an input that cannot be read in full.
        PipelineError: when the pipeline fails, loses records, or rejects too many documents.
    """
    started = time.monotonic()
    args, beam_args = parse(argv, "create_pretraining_data", (CorpusOptions, PretrainingDataOptions))
    if not args.vocabulary:
        raise ConfigError("--vocabulary is required.")
    vocabulary = load_vocabulary(args.vocabulary)
    corpus = find_corpus(args.format, args.input)
    config, buckets = plan(data_config(args), corpus.text_bytes)
    flags = runner_flags(beam_args, corpus.work_bytes)
    directory = DataDirectory(args.output, describe_run(corpus, config, vocabulary, args.max_document_bytes), buckets)
    if directory.claim():
        manifest = storage.read_in(args.output, read_manifest)
        if storage.is_local(args.output):
            verify_shards(args.output, manifest)
        print(f"data: {args.output} is complete already", file=sys.stderr)
    else:
        options = PipelineOptions([*argv, *flags])
        _run_pipeline(options, args, corpus, config, vocabulary, directory)
        manifest = _finish(args, config, vocabulary, directory)
    print(f"data: {args.output} holds {manifest.counts['examples']} examples", file=sys.stderr)
    return {
        "output": args.output,
        "seconds": round(time.monotonic() - started, 3),
        "documents_read": manifest.counts["documents_read"],
        "documents_rejected": sum(manifest.rejected.values()),
        "examples": manifest.counts["examples"],
        "shards": sum(map(len, manifest.shards.values())),
        "tokens": manifest.counts["tokens"],
    }


def plan(config: DataConfig, text_bytes: int) -> tuple[DataConfig, Buckets]:
    """Resolves the number of shards.

    Args:
        config: `num_shards` 0 is derived, so that a bucket holds about 64 MB of text.
        text_bytes: size of the input.

    Returns:
        The config with `num_shards` set, and the buckets; validation shards are as large as training shards, one
        at least where documents are held out.
    """
    train = config.num_shards or max(1, math.ceil(text_bytes / _BUCKET_BYTES))
    share = config.validation_fraction
    validation = max(1, round(train * share / (1 - share))) if share else 0
    return dataclasses.replace(config, num_shards=train), Buckets(config.seed, train, validation, share)


def _run_pipeline(
    options: PipelineOptions,
    args: argparse.Namespace,
    corpus: Corpus,
    config: DataConfig,
    vocabulary: Vocabulary,
    directory: DataDirectory,
) -> None:
    finished = frozenset(report.bucket for report in directory.reports(verify=True))
    if finished:
        print(f"data: {len(finished)} of {len(directory.buckets)} shards stand already", file=sys.stderr)
    storage.delete([directory.file(DEAD_LETTERS), directory.file(REPORTS, DOCUMENTS_READ)])
    todo = len(directory.buckets) - len(finished)
    with (
        ProgressReporter("data", corpus.bytes, len(corpus.files), todo) as progress,
        running_pipeline(options) as pipeline,
    ):
        outputs = (
            pipeline
            | "ReadCorpus" >> ReadCorpus(corpus, args.max_document_bytes, progress.log)
            | "Tokenize"
            >> beam.ParDo(TokenizeDocuments(config, vocabulary, directory.buckets, finished)).with_outputs(
                READ, REJECTED, main="documents"
            )
        )
        _ = (
            outputs.documents
            | "GatherBuckets" >> beam.GroupByKey()
            | "BuildShards"
            >> beam.ParDo(
                BuildShard(config, vocabulary, directory.buckets, args.output, directory.fingerprint, progress.log)
            )
        )
        write_reports(outputs, directory.file(DEAD_LETTERS), directory.file(REPORTS))


def _finish(args: argparse.Namespace, config: DataConfig, vocabulary: Vocabulary, directory: DataDirectory) -> Manifest:
    """Reconciles what was read with what was written, then writes vocabulary and manifest."""
    reports = directory.reports(verify=False)
    read = read_document_count(directory.file(REPORTS))
    rejected = rejected_by_reason(storage.read(directory.file(DEAD_LETTERS)))
    manifest = make_manifest(config, vocabulary, directory.buckets, reports, read, rejected)
    _check_counts(manifest, rejected, args.max_rejected_fraction, directory.file(DEAD_LETTERS))
    storage.write_in(args.output, lambda folder: save_vocabulary(vocabulary, folder / VOCABULARY_NAME))
    storage.write_in(args.output, lambda folder: write_manifest(manifest, folder))
    directory.remove_reports()
    return manifest


def _check_counts(manifest: Manifest, rejected: Counter[str], max_rejected_fraction: float, dead_letters: str) -> None:
    read, kept = manifest.counts["documents_read"], manifest.counts["documents"]
    accounted = kept + sum(manifest.rejected.values())
    if read != accounted:
        raise PipelineError(
            f"records were lost or doubled: {read} documents were read, {accounted} are in shards or rejected."
        )
    check_rejected(read, rejected, max_rejected_fraction, dead_letters)
    if not manifest.examples("train"):
        raise PipelineError(f"the input gave no training example ({read} documents were read).")


def main() -> int:
    """Runs as a program; returns the exit status."""
    return run_as_program(run)


if __name__ == "__main__":
    # Through the package, so that nothing the pipeline ships is pickled as a part of __main__.
    from beam_pipelines import create_pretraining_data

    sys.exit(create_pretraining_data.main())

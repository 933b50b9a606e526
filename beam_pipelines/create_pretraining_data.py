"""`python -m beam_pipelines.create_pretraining_data`: raw text to pre-training shards and their manifest."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from beam_pipelines.errors import PipelineError
from beam_pipelines.estimate.estimate import estimate, workers_of
from beam_pipelines.options import (
    CorpusOptions,
    PretrainingDataOptions,
    corpus_of,
    data_configs,
    parse,
    read_settings,
)
from beam_pipelines.output import storage
from beam_pipelines.output.directory import DEAD_LETTERS, DataDirectory, by_folder, describe_run
from beam_pipelines.output.run_output import only_run
from beam_pipelines.output.summary import RunSummary
from beam_pipelines.program import run_as_program
from beam_pipelines.runners.progress import ProgressReporter
from beam_pipelines.runners.select import gathers_in_memory, is_dry_run, is_template, runner_flags, running_pipeline
from beam_pipelines.sources.corpus import Corpus, ReadCorpus
from beam_pipelines.sources.documents import FAULTS, RawDocument, ReadSettings
from beam_pipelines.transforms.build_shards import REPORTS, BuildShard
from beam_pipelines.transforms.filter_documents import FilterDocuments
from beam_pipelines.transforms.near_duplicates import FindNearDuplicates
from beam_pipelines.transforms.packed_documents import mark_unwanted
from beam_pipelines.transforms.rejections import DEAD_LETTERS as DEAD_LETTER_OUTPUT
from beam_pipelines.transforms.rejections import TALLY, TALLY_NAME, FaultLimit, Tally, write_accounts
from beam_pipelines.transforms.spill import SpillToDisk
from beam_pipelines.transforms.tokenize import Buckets, TokenizeDocuments
from bert_tf.config import ConfigError, DataConfig
from bert_tf.data.examples.sample_examples import read_examples
from bert_tf.data.manifest import Manifest, read_manifest, verify_shards, write_manifest
from bert_tf.data.schema import REPORT_NAME, VOCABULARY_NAME
from bert_tf.data.tfrecord.shards import read_records
from bert_tf.reports.data.facts import describe
from bert_tf.reports.data.page import page
from bert_tf.text.casing import casing_notice, resolve_lowercase
from bert_tf.text.vocabulary import Vocabulary, load_vocabulary, save_vocabulary

# Text in one bucket: 8 M tokens or so, which take a few hundred megabytes while their shard is made; of Wikipedia
# 10,000 documents to draw partners from.
_BUCKET_BYTES = 32 << 20


@dataclass(frozen=True)
class _Run:
    """Inputs, settings and output of one run. `configs` holds the settings of the examples by folder."""

    corpus: Corpus
    settings: ReadSettings
    configs: dict[str, DataConfig]
    vocabulary: Vocabulary
    buckets: Buckets
    directory: DataDirectory
    max_rejected_fraction: float

    @property
    def config(self) -> DataConfig:
        """Returns the config of the first length; all but the length is the same in the others."""
        return next(iter(self.configs.values()))


def run(argv: Sequence[str]) -> dict[str, Any]:
    """Makes a data directory, goes on with a half-made one, or returns the summary of a finished one.

    Args:
        argv: our flags and Beam's.

    Returns:
        `output`, `seconds`, `documents_read`, `documents_rejected`, `examples`, `shards`, `tokens`; instead of
        these, with `--estimate` what `Estimate` holds, and with `--dry_run=true` only `dry_run`.

    Raises:
        ConfigError: for flags, input or an output directory that break a rule.
        InputError: for an input that cannot be read in full.
        PipelineError: when the pipeline fails, loses records, or rejects too many documents.
    """
    started = time.monotonic()
    args, beam_args = parse(argv, "create_pretraining_data", (CorpusOptions, PretrainingDataOptions))
    if not args.vocabulary:
        raise ConfigError("--vocabulary is required.")
    it = _planned(args)
    paths = [args.output, *(file.path for file in it.corpus.files)]
    flags = runner_flags(beam_args, it.corpus.work_bytes, paths)
    options = PipelineOptions([*argv, *flags])
    if args.estimate:
        foreseen = _estimate(it, [*beam_args, *flags])
    elif is_dry_run(options):
        _run_pipeline(options, it, frozenset())
        print("data: the runner would take this pipeline; nothing was read or written", file=sys.stderr)
        foreseen = {"dry_run": True}
    elif is_template(options):
        with only_run(args.output, "writing data to"):
            it.directory.claim()
            _run_pipeline(options, it, _finished_buckets(it))
        print("data: once the template's job has ended, this command without the template finishes it", file=sys.stderr)
        foreseen = {"template": True}
    else:
        with only_run(args.output, "writing data to"):
            manifests = _made(options, it)
        return _summary(args.output, manifests, time.monotonic() - started)
    return {"output": args.output, "seconds": round(time.monotonic() - started, 3), **foreseen}


def _planned(args: argparse.Namespace) -> _Run:
    vocabulary, settings = storage.read_file(args.vocabulary, load_vocabulary), read_settings(args)
    args.cased = _is_cased(vocabulary, args)
    corpus = corpus_of(args)
    planned = [plan(config, corpus.text_bytes) for config in data_configs(args)]
    configs, buckets = [config for config, _ in planned], planned[0][1]
    folders = by_folder(configs)
    directory = DataDirectory(args.output, describe_run(corpus, configs, vocabulary, settings), buckets, tuple(folders))
    return _Run(corpus, settings, folders, vocabulary, buckets, directory, args.max_rejected_fraction)


def _is_cased(vocabulary: Vocabulary, args: argparse.Namespace) -> bool:
    """Returns whether case is kept, as the vocabulary says; prints a line where no flag asks for it."""
    lowercase = resolve_lowercase(vocabulary, args.cased, args.vocabulary)
    if notice := casing_notice(vocabulary, args.cased):
        print(f"data: {notice}", file=sys.stderr)
    return not lowercase


def _estimate(it: _Run, flags: Sequence[str]) -> dict[str, Any]:
    configs = list(it.configs.values())
    foreseen = estimate(it.corpus, it.settings, configs, it.vocabulary, it.buckets, workers_of(flags))
    print(foreseen.table(), file=sys.stderr)
    return foreseen.summary()


def _made(options: PipelineOptions, it: _Run) -> list[Manifest]:
    """Makes what is not there yet."""
    finished = it.directory.claim()
    with it.directory.output.ending():
        if finished:
            manifests = _finished_manifests(it)
            print(f"data: {it.directory.path} is complete already", file=sys.stderr)
        else:
            if not _nothing_missing(it):
                _run_pipeline(options, it, _finished_buckets(it))
            it.directory.output.check()
            manifests = _finish(it)
        _show(it, manifests)
    return manifests


def _summary(output: str, manifests: Sequence[Manifest], seconds: float) -> dict[str, Any]:
    examples = sum(manifest.counts["examples"] for manifest in manifests)
    print(f"data: {output} holds {examples} examples", file=sys.stderr)
    return {
        "output": output,
        "seconds": round(seconds, 3),
        "documents_read": manifests[0].counts["documents_read"],
        "documents_rejected": sum(manifests[0].rejected.values()),
        "examples": examples,
        "shards": sum(len(shards) for manifest in manifests for shards in manifest.shards.values()),
        "tokens": manifests[0].counts["tokens"],
    }


def plan(config: DataConfig, text_bytes: int) -> tuple[DataConfig, Buckets]:
    """Resolves the number of shards.

    Args:
        config: `num_shards` 0 is derived, so that a bucket holds about 32 MB of text.
        text_bytes: size of the input.

    Returns:
        The config with `num_shards` set, and the buckets; validation shards are as large as training shards, one
        at least where documents are held out.
    """
    train = config.num_shards or max(1, math.ceil(text_bytes / _BUCKET_BYTES))
    share = config.validation_fraction
    validation = max(1, round(train * share / (1 - share))) if share else 0
    return dataclasses.replace(config, num_shards=train), Buckets(config.seed, train, validation, share)


def _finished_buckets(it: _Run) -> frozenset[int]:
    """Returns the buckets whose shards stand, and deletes what the run that is to begin writes once more."""
    directory = it.directory
    finished = frozenset(report.bucket for report in directory.reports(verify=True))
    if finished:
        print(f"data: {len(finished)} of {len(it.buckets)} shards stand already", file=sys.stderr)
    storage.delete([directory.file(DEAD_LETTERS), directory.file(REPORTS, TALLY_NAME)])
    return finished


def _run_pipeline(options: PipelineOptions, it: _Run, finished: frozenset[int]) -> None:
    directory = it.directory
    todo = len(it.buckets) - len(finished)
    with (
        ProgressReporter("data", len(it.corpus.files), it.corpus.text_bytes, todo) as progress,
        running_pipeline(options) as pipeline,
    ):
        documents = pipeline | "ReadCorpus" >> ReadCorpus(it.corpus, it.settings, progress.log)
        if it.config.cleaning.filters:
            documents |= "Filter" >> beam.ParDo(FilterDocuments(it.config.cleaning, it.corpus.languages))
        tokenize = TokenizeDocuments(it.config, it.corpus.languages, it.vocabulary, it.buckets, finished)
        outputs = documents | "Tokenize" >> beam.ParDo(tokenize).with_outputs(
            TALLY, DEAD_LETTER_OUTPUT, main="documents"
        )
        chunks = outputs.documents
        if gathers_in_memory(options) and storage.is_local(directory.path):
            chunks |= "PutAside" >> beam.ParDo(SpillToDisk(directory.output.staging))
        if it.config.cleaning.near_duplicates:
            chunks = (chunks, _unwanted(documents, it, finished)) | "WithNearDuplicates" >> beam.Flatten()
        build = BuildShard(
            it.configs, it.corpus.weights, it.vocabulary, it.buckets, directory.output,
            directory.fingerprint, progress.log,
        )  # fmt: skip
        limit = FaultLimit(it.max_rejected_fraction, it.corpus.most_documents)
        accounts = write_accounts(
            outputs, directory.output, directory.file(DEAD_LETTERS), directory.file(REPORTS), limit
        )
        gathered = chunks | "GatherBuckets" >> beam.GroupByKey()
        _ = gathered | "UntilAccounted" >> beam.WaitOn(accounts) | "BuildShards" >> beam.ParDo(build)


def _unwanted(
    documents: beam.PCollection[list[RawDocument]], it: _Run, finished: frozenset[int]
) -> beam.PCollection[tuple[int, bytes]]:
    find = FindNearDuplicates(it.config.cleaning.near_duplicates, it.config.seed, it.buckets)
    return documents | "FindNearDuplicates" >> find | "MarkUnwanted" >> beam.ParDo(_MarkUnwanted(finished))


class _MarkUnwanted(beam.DoFn):
    def __init__(self, finished: frozenset[int]) -> None:
        self._finished = finished

    def process(self, element: tuple[int, bytes]) -> Iterable[tuple[int, bytes]]:
        bucket, packed_ids = element
        if bucket not in self._finished:
            yield bucket, mark_unwanted(packed_ids)


def _nothing_missing(it: _Run) -> bool:
    """Returns True if a pipeline ended well without its driver: all documents that it read are accounted for."""
    directory = it.directory
    tally = Tally.load(directory.file(REPORTS))
    if not tally.read() or (FAULTS & set(tally.left_out()) and storage.read(directory.file(DEAD_LETTERS)) is None):
        return False
    sources = RunSummary(it.corpus, it.vocabulary, it.buckets, tally, directory.reports(verify=True)).sources()
    return all(source.documents_read == source.documents + sum(source.left_out.values()) for source in sources)


def _finished_manifests(it: _Run) -> list[Manifest]:
    manifests = []
    for folder in it.configs:
        path = it.directory.file(folder)
        manifests.append(storage.read_in(path, read_manifest))
        if storage.is_local(path):
            verify_shards(path, manifests[-1])
    return manifests


def _finish(it: _Run) -> list[Manifest]:
    """Reconciles what was read with what was written, then writes vocabulary and manifests."""
    directory = it.directory
    tally = Tally.load(directory.file(REPORTS))
    summary = RunSummary(it.corpus, it.vocabulary, it.buckets, tally, directory.reports(verify=False))
    manifests = [summary.manifest(number, config) for number, config in enumerate(it.configs.values())]
    tally.check_faults(it.max_rejected_fraction, directory.file(DEAD_LETTERS))
    for manifest in manifests:
        _check_counts(manifest)
    for folder, manifest in zip(it.configs, manifests, strict=True):
        path = directory.file(folder)
        storage.write_in(path, lambda local: save_vocabulary(it.vocabulary, local / VOCABULARY_NAME))
        storage.write_in(path, functools.partial(write_manifest, manifest))
    directory.remove_reports()
    if rejections := tally.rejections(directory.file(DEAD_LETTERS)):
        print(f"data: {rejections}", file=sys.stderr)
    return manifests


def _show(it: _Run, manifests: Sequence[Manifest]) -> None:
    """Writes the pages that are not there yet."""
    for folder, manifest in zip(it.configs, manifests, strict=True):
        path = it.directory.file(folder)
        if REPORT_NAME not in storage.names_in(path):
            report = describe(manifest, read_examples(functools.partial(_records, path), manifest, it.vocabulary))
            storage.write(storage.join(path, REPORT_NAME), page(report).encode())
            for warning in report.warnings:
                print(f"data: warning: {warning}", file=sys.stderr)
            print(f"data: a report to look at: {storage.join(path, REPORT_NAME)}", file=sys.stderr)


def _records(directory: str, shard: str) -> Iterator[bytes]:
    with storage.opened(storage.join(directory, shard)) as file:
        yield from read_records(file, shard)


def _check_counts(manifest: Manifest) -> None:
    read, kept = manifest.counts["documents_read"], manifest.counts["documents"]
    accounted = kept + sum(manifest.rejected.values())
    if read != accounted:
        raise PipelineError(
            f"records were lost or doubled: {read} documents were read, {accounted} are in shards or rejected."
        )
    if not manifest.examples("train"):
        raise PipelineError(f"the input gave no training example ({read} documents were read).")


def main() -> int:
    """Runs as a program; returns the exit status."""
    return run_as_program(run)


if __name__ == "__main__":
    # Through the package, so that nothing the pipeline ships is pickled as a part of __main__.
    from beam_pipelines import create_pretraining_data

    sys.exit(create_pretraining_data.main())

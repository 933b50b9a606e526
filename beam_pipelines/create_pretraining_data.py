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

# Bytes of text in one bucket: about 8 M tokens, which take a few hundred megabytes of memory while the shard is
# built. For Wikipedia these are 10,000 documents to draw random next segments from.
_BUCKET_BYTES = 32 << 20


@dataclass(frozen=True)
class _Run:
    """Inputs, settings and output directory of one run; `configs` maps folders to example settings."""

    corpus: Corpus
    settings: ReadSettings
    configs: dict[str, DataConfig]
    vocabulary: Vocabulary
    buckets: Buckets
    directory: DataDirectory
    max_rejected_fraction: float

    @property
    def config(self) -> DataConfig:
        """Returns the config of the first length; the others differ only in length."""
        return next(iter(self.configs.values()))


def run(argv: Sequence[str]) -> dict[str, Any]:
    """Builds a data directory, resumes an unfinished one, or returns the summary of a finished one.

    Args:
        argv: command line: flags of this program and of Beam.

    Returns:
        `output`, `seconds`, `documents_read`, `documents_rejected`, `examples`, `shards`, `tokens`. With
        `--estimate` the fields of `Estimate` replace the counts, with `--dry_run=true` only `dry_run` does.

    Raises:
        ConfigError: if a flag, an input or the output directory is invalid.
        InputError: if an input cannot be read in full.
        PipelineError: if the pipeline fails, loses records, or rejects too many documents.
    """
    started = time.monotonic()
    args, beam_args = parse(argv, "create_pretraining_data", (CorpusOptions, PretrainingDataOptions))
    if not args.vocabulary:
        raise ConfigError("--vocabulary is required.")
    run = _plan_run(args)
    paths = [args.output, *(file.path for file in run.corpus.files)]
    flags = runner_flags(beam_args, run.corpus.work_bytes, paths)
    options = PipelineOptions([*argv, *flags])
    if args.estimate:
        result = _estimate(run, [*beam_args, *flags])
    elif is_dry_run(options):
        _run_pipeline(options, run, frozenset())
        print("data: the runner accepts this pipeline; nothing was read or written", file=sys.stderr)
        result = {"dry_run": True}
    elif is_template(options):
        with only_run(args.output, "writing data to"):
            run.directory.claim()
            _run_pipeline(options, run, _finished_buckets(run))
        print("data: after the template's job, run this command without the template to finish", file=sys.stderr)
        result = {"template": True}
    else:
        with only_run(args.output, "writing data to"):
            manifests = _build_data(options, run)
        return _summary(args.output, manifests, time.monotonic() - started)
    return {"output": args.output, "seconds": round(time.monotonic() - started, 3), **result}


def _plan_run(args: argparse.Namespace) -> _Run:
    vocabulary, settings = storage.read_file(args.vocabulary, load_vocabulary), read_settings(args)
    args.cased = _is_cased(vocabulary, args)
    corpus = corpus_of(args)
    plans = [plan(config, corpus.text_bytes) for config in data_configs(args)]
    configs, buckets = [config for config, _ in plans], plans[0][1]
    folders = by_folder(configs)
    directory = DataDirectory(args.output, describe_run(corpus, configs, vocabulary, settings), buckets, tuple(folders))
    return _Run(corpus, settings, folders, vocabulary, buckets, directory, args.max_rejected_fraction)


def _is_cased(vocabulary: Vocabulary, args: argparse.Namespace) -> bool:
    """Returns True if case is kept, derived from the vocabulary; prints a notice if `--cased` is not set."""
    lowercase = resolve_lowercase(vocabulary, args.cased, args.vocabulary)
    if notice := casing_notice(vocabulary, args.cased):
        print(f"data: {notice}", file=sys.stderr)
    return not lowercase


def _estimate(run: _Run, flags: Sequence[str]) -> dict[str, Any]:
    configs = list(run.configs.values())
    estimated = estimate(run.corpus, run.settings, configs, run.vocabulary, run.buckets, workers_of(flags))
    print(estimated.table(), file=sys.stderr)
    return estimated.summary()


def _build_data(options: PipelineOptions, run: _Run) -> list[Manifest]:
    """Builds the missing shards and returns the manifests."""
    finished = run.directory.claim()
    with run.directory.output.ending():
        if finished:
            manifests = _finished_manifests(run)
            print(f"data: {run.directory.path} is already complete", file=sys.stderr)
        else:
            if not _nothing_missing(run):
                _run_pipeline(options, run, _finished_buckets(run))
            run.directory.output.check()
            manifests = _finish(run)
        _show(run, manifests)
    return manifests


def _summary(output: str, manifests: Sequence[Manifest], seconds: float) -> dict[str, Any]:
    examples = sum(manifest.counts["examples"] for manifest in manifests)
    print(f"data: {output} has {examples} examples", file=sys.stderr)
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
        config: settings of the examples; `num_shards` 0 is replaced so that a bucket has about 32 MB of text.
        text_bytes: size of the input.

    Returns:
        The config with `num_shards` set, and the buckets. Validation shards are as large as training shards; there
        is at least one if documents are held out.
    """
    train = config.num_shards or max(1, math.ceil(text_bytes / _BUCKET_BYTES))
    share = config.validation_fraction
    validation = max(1, round(train * share / (1 - share))) if share else 0
    return dataclasses.replace(config, num_shards=train), Buckets(config.seed, train, validation, share)


def _finished_buckets(run: _Run) -> frozenset[int]:
    """Returns the buckets whose shards are complete, and deletes the accounts, which the next run rewrites."""
    directory = run.directory
    finished = frozenset(report.bucket for report in directory.reports(verify=True))
    if finished:
        print(f"data: {len(finished)} of {len(run.buckets)} shards are already complete", file=sys.stderr)
    storage.delete([directory.file(DEAD_LETTERS), directory.file(REPORTS, TALLY_NAME)])
    return finished


def _run_pipeline(options: PipelineOptions, run: _Run, finished: frozenset[int]) -> None:
    directory = run.directory
    todo = len(run.buckets) - len(finished)
    with (
        ProgressReporter("data", len(run.corpus.files), run.corpus.text_bytes, todo) as progress,
        running_pipeline(options) as pipeline,
    ):
        documents = pipeline | "ReadCorpus" >> ReadCorpus(run.corpus, run.settings, progress.log)
        if run.config.cleaning.filters:
            documents |= "Filter" >> beam.ParDo(FilterDocuments(run.config.cleaning, run.corpus.languages))
        tokenize = TokenizeDocuments(run.config, run.corpus.languages, run.vocabulary, run.buckets, finished)
        outputs = documents | "Tokenize" >> beam.ParDo(tokenize).with_outputs(
            TALLY, DEAD_LETTER_OUTPUT, main="documents"
        )
        chunks = outputs.documents
        if gathers_in_memory(options) and storage.is_local(directory.path):
            chunks |= "PutAside" >> beam.ParDo(SpillToDisk(directory.output.staging))
        if run.config.cleaning.near_duplicates:
            chunks = (chunks, _find_unwanted(documents, run, finished)) | "WithNearDuplicates" >> beam.Flatten()
        build = BuildShard(
            run.configs, run.corpus.weights, run.vocabulary, run.buckets, directory.output,
            directory.fingerprint, progress.log,
        )  # fmt: skip
        limit = FaultLimit(run.max_rejected_fraction, run.corpus.most_documents)
        accounts = write_accounts(
            outputs, directory.output, directory.file(DEAD_LETTERS), directory.file(REPORTS), limit
        )
        gathered = chunks | "GatherBuckets" >> beam.GroupByKey()
        _ = gathered | "UntilAccounted" >> beam.WaitOn(accounts) | "BuildShards" >> beam.ParDo(build)


def _find_unwanted(
    documents: beam.PCollection[list[RawDocument]], run: _Run, finished: frozenset[int]
) -> beam.PCollection[tuple[int, bytes]]:
    find = FindNearDuplicates(run.config.cleaning.near_duplicates, run.config.seed, run.buckets)
    return documents | "FindNearDuplicates" >> find | "MarkUnwanted" >> beam.ParDo(_MarkUnwanted(finished))


class _MarkUnwanted(beam.DoFn):
    def __init__(self, finished: frozenset[int]) -> None:
        self._finished = finished

    def process(self, element: tuple[int, bytes]) -> Iterable[tuple[int, bytes]]:
        bucket, packed_ids = element
        if bucket not in self._finished:
            yield bucket, mark_unwanted(packed_ids)


def _nothing_missing(run: _Run) -> bool:
    """Returns True if a detached pipeline finished: every document read is accounted for."""
    directory = run.directory
    tally = Tally.load(directory.file(REPORTS))
    if not tally.read() or (FAULTS & set(tally.left_out()) and storage.read(directory.file(DEAD_LETTERS)) is None):
        return False
    sources = RunSummary(run.corpus, run.vocabulary, run.buckets, tally, directory.reports(verify=True)).sources()
    return all(source.documents_read == source.documents + sum(source.left_out.values()) for source in sources)


def _finished_manifests(run: _Run) -> list[Manifest]:
    manifests = []
    for folder in run.configs:
        path = run.directory.file(folder)
        manifests.append(storage.read_in(path, read_manifest))
        if storage.is_local(path):
            verify_shards(path, manifests[-1])
    return manifests


def _finish(run: _Run) -> list[Manifest]:
    """Reconciles documents read with documents written, then writes vocabulary and manifests."""
    directory = run.directory
    tally = Tally.load(directory.file(REPORTS))
    summary = RunSummary(run.corpus, run.vocabulary, run.buckets, tally, directory.reports(verify=False))
    manifests = [summary.manifest(number, config) for number, config in enumerate(run.configs.values())]
    tally.check_faults(run.max_rejected_fraction, directory.file(DEAD_LETTERS))
    for manifest in manifests:
        _check_counts(manifest)
    for folder, manifest in zip(run.configs, manifests, strict=True):
        path = directory.file(folder)
        storage.write_in(path, lambda local: save_vocabulary(run.vocabulary, local / VOCABULARY_NAME))
        storage.write_in(path, functools.partial(write_manifest, manifest))
    # The manifest sums the reports.
    storage.delete([directory.file(REPORTS)])
    if rejections := tally.rejections(directory.file(DEAD_LETTERS)):
        print(f"data: {rejections}", file=sys.stderr)
    return manifests


def _show(run: _Run, manifests: Sequence[Manifest]) -> None:
    """Writes the missing report pages."""
    for folder, manifest in zip(run.configs, manifests, strict=True):
        path = run.directory.file(folder)
        if REPORT_NAME not in storage.names_in(path):
            report = describe(manifest, read_examples(functools.partial(_records, path), manifest, run.vocabulary))
            storage.write(storage.join(path, REPORT_NAME), page(report).encode())
            for warning in report.warnings:
                print(f"data: warning: {warning}", file=sys.stderr)
            print(f"data: report: {storage.join(path, REPORT_NAME)}", file=sys.stderr)


def _records(directory: str, shard: str) -> Iterator[bytes]:
    with storage.opened(storage.join(directory, shard)) as file:
        yield from read_records(file, shard)


def _check_counts(manifest: Manifest) -> None:
    read, kept = manifest.counts["documents_read"], manifest.counts["documents"]
    accounted = kept + sum(manifest.rejected.values())
    if read != accounted:
        raise PipelineError(
            f"records were lost or duplicated: {read} documents were read, {accounted} are in shards or rejected."
        )
    if not manifest.examples("train"):
        raise PipelineError(
            f"the input has no training example ({read} documents were read). Check --input and the cleaning flags."
        )


def main() -> int:
    """Runs the program and returns its exit status."""
    return run_as_program(run)


if __name__ == "__main__":
    # Imported through the package, so that Beam does not pickle its functions as part of __main__.
    from beam_pipelines import create_pretraining_data

    sys.exit(create_pretraining_data.main())

"""`python -m beam_pipelines.create_pretraining_data`: raw text to pre-training shards and their manifest."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from beam_pipelines.errors import PipelineError
from beam_pipelines.estimate.estimate import estimate, workers_of
from beam_pipelines.options import PROGRAMS, corpus_of, data_configs, parse, read_settings
from beam_pipelines.output import storage
from beam_pipelines.output.directory import DEAD_LETTERS, DataDirectory
from beam_pipelines.output.run_output import only_run
from beam_pipelines.output.summary import RunSummary
from beam_pipelines.program import run_as_program
from beam_pipelines.run_plan import LEAST_HELD_OUT, RunPlan, plan_run
from beam_pipelines.runners.progress import ProgressReporter
from beam_pipelines.runners.select import gathers_in_memory, is_dry_run, is_template, runner_flags, running_pipeline
from beam_pipelines.sources.corpus import ReadCorpus
from beam_pipelines.sources.documents import FAULTS, RawDocument
from beam_pipelines.transforms.build_shards import REPORTS, BuildShard
from beam_pipelines.transforms.filter_documents import filter_documents
from beam_pipelines.transforms.near_duplicates import near_duplicate_ids
from beam_pipelines.transforms.packed_documents import SpillToDisk, mark_unwanted
from beam_pipelines.transforms.rejections import DEAD_LETTERS as DEAD_LETTER_OUTPUT
from beam_pipelines.transforms.rejections import TALLY, TALLY_NAME, FaultLimit, Tally, write_accounts
from beam_pipelines.transforms.tokenize import TokenizeDocuments
from bert_tf.config import ConfigError
from bert_tf.data.examples.sample_examples import read_examples
from bert_tf.data.manifest import Manifest, read_manifest, verify_shards, write_manifest
from bert_tf.data.schema import REPORT_NAME, VOCABULARY_NAME
from bert_tf.data.tfrecord.shards import read_records
from bert_tf.reports.data.facts import describe
from bert_tf.reports.data.page import page
from bert_tf.text.casing import casing_notice, resolve_lowercase
from bert_tf.text.vocabulary import load_vocabulary, save_vocabulary


@dataclass(frozen=True)
class _Run:
    """A run: its plan, its output directory, the limit of rejected documents, and a line to print at its start."""

    plan: RunPlan
    directory: DataDirectory
    max_rejected_fraction: float
    notice: str = ""


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

    Example:
        >>> from beam_pipelines import create_pretraining_data
        >>> flags = ["--input=corpus.txt", "--format=text", "--vocabulary=vocab.txt", "--max_seq_length=32"]
        >>> summary = create_pretraining_data.run([*flags, "--output=new_data"])
        >>> summary["documents_read"], summary["examples"] > 0
        (60, True)
    """
    started = time.monotonic()
    args, beam_args = parse(argv, *PROGRAMS["create_pretraining_data"])
    storage.use_options(beam_args)
    if not args.vocabulary:
        raise ConfigError(
            "--vocabulary is required. Learn a vocabulary with `bert-tf vocab --input CORPUS --vocabulary_size 30522 "
            "--output vocab.txt`, or use the vocab.txt of a model."
        )
    run = _plan_run(args)
    paths = [args.output, *(file.path for file in run.plan.corpus.files)]
    flags = runner_flags(beam_args, run.plan.corpus.work_bytes, paths)
    options = PipelineOptions([*beam_args, *flags], **vars(args))
    if args.estimate:
        estimated = estimate(run.plan, workers_of(options))
        print(estimated.table(), file=sys.stderr)
        result = dataclasses.asdict(estimated)
    elif is_dry_run(options):
        _run_pipeline(options, run, frozenset())
        print("data: the runner accepts this pipeline; nothing was read or written", file=sys.stderr)
        result = {"dry_run": True}
    elif is_template(options):
        with only_run(args.output, "writing data to"):
            run.directory.claim()
            _run_pipeline(options, run, _finished_buckets(run), finish=True)
        print(f"data: the template's job writes {args.output} and its manifest", file=sys.stderr)
        result = {"template": True}
    else:
        with only_run(args.output, "writing data to"):
            manifests = _build_data(options, run)
        result = _counts(manifests)
        print(f"data: {args.output} has {result['examples']} examples", file=sys.stderr)
    return {"output": args.output, "seconds": round(time.monotonic() - started, 3), **result}


def _plan_run(args: argparse.Namespace) -> _Run:
    vocabulary, settings = storage.read_file(args.vocabulary, load_vocabulary), read_settings(args)
    lowercase = resolve_lowercase(vocabulary, args.cased, args.vocabulary)
    if notice := casing_notice(vocabulary, args.cased):
        print(f"data: {notice}", file=sys.stderr)
    args.cased = not lowercase
    plan = plan_run(corpus_of(args), settings, data_configs(args), vocabulary)
    share, notice = plan.buckets.validation_fraction, ""
    if args.validation_fraction < 0 and share > LEAST_HELD_OUT:
        notice = f"the corpus is small: {share:.0%} of it is held out (--validation_fraction)"
    return _Run(plan, DataDirectory(args.output, plan), args.max_rejected_fraction, notice)


def _build_data(options: PipelineOptions, run: _Run) -> list[Manifest]:
    """Builds the missing shards and returns the manifests."""
    finished = run.directory.claim()
    with run.directory.output.ending():
        if finished:
            print(f"data: {run.directory.path} is already complete", file=sys.stderr)
        elif not _nothing_missing(run):
            if run.notice:
                print(f"data: {run.notice}", file=sys.stderr)
            _run_pipeline(options, run, _finished_buckets(run))
        return _complete(run)


def _complete(run: _Run) -> list[Manifest]:
    """Writes vocabulary, manifests and report pages of finished shards, if missing. Returns the manifests."""
    if run.directory.is_finished():
        manifests = _finished_manifests(run)
    else:
        run.directory.output.check()
        manifests = _finish(run)
    _show(run, manifests)
    return manifests


def _complete_in_job(_: int, run: _Run) -> None:
    """Completes the data directory in a template's job, which has no driver. The runner may repeat it."""
    with run.directory.output.ending():
        _complete(run)


def _counts(manifests: Sequence[Manifest]) -> dict[str, int]:
    return {
        "documents_read": manifests[0].counts["documents_read"],
        "documents_rejected": sum(manifests[0].rejected.values()),
        "examples": sum(manifest.counts["examples"] for manifest in manifests),
        "shards": sum(len(shards) for manifest in manifests for shards in manifest.shards.values()),
        "tokens": manifests[0].counts["tokens"],
    }


def _finished_buckets(run: _Run) -> frozenset[int]:
    """Returns the buckets whose shards are complete, and deletes the accounts, which the next run rewrites."""
    directory = run.directory
    finished = frozenset(report.bucket for report in directory.reports(verify=True))
    if finished:
        print(f"data: {len(finished)} of {len(run.plan.buckets)} shards are already complete", file=sys.stderr)
    storage.delete([directory.file(DEAD_LETTERS), directory.file(REPORTS, TALLY_NAME)])
    return finished


def _run_pipeline(options: PipelineOptions, run: _Run, finished: frozenset[int], finish: bool = False) -> None:
    """Runs the pipeline without the `finished` buckets; with `finish`, its last step completes the directory."""
    plan, directory = run.plan, run.directory
    todo = len(plan.buckets) - len(finished)
    with (
        ProgressReporter("data", len(plan.corpus.files), plan.corpus.text_bytes, todo) as progress,
        running_pipeline(options) as pipeline,
    ):
        documents = pipeline | "ReadCorpus" >> ReadCorpus(plan.corpus, plan.settings, progress.log)
        if plan.config.cleaning.filters:
            documents |= "Filter" >> beam.Map(filter_documents, plan.config.cleaning, plan.corpus.languages)
        tokenize = TokenizeDocuments(plan.config, plan.corpus.languages, plan.vocabulary, plan.buckets, finished)
        outputs = documents | "Tokenize" >> beam.ParDo(tokenize).with_outputs(
            TALLY, DEAD_LETTER_OUTPUT, main="documents"
        )
        chunks = outputs.documents
        if gathers_in_memory(options) and storage.is_local(directory.path):
            chunks |= "SpillToDisk" >> beam.ParDo(SpillToDisk(directory.output.staging))
        if plan.config.cleaning.near_duplicates:
            chunks = (chunks, _find_unwanted(documents, run, finished)) | "WithNearDuplicates" >> beam.Flatten()
        build = BuildShard(
            plan.configs, plan.corpus.weights, plan.vocabulary, plan.buckets, directory.output,
            directory.fingerprint, progress.log,
        )  # fmt: skip
        limit = FaultLimit(run.max_rejected_fraction, plan.corpus.most_documents)
        accounts = write_accounts(
            outputs, directory.output, directory.file(DEAD_LETTERS), directory.file(REPORTS), limit
        )
        gathered = chunks | "GatherBuckets" >> beam.GroupByKey()
        shards = gathered | "UntilAccounted" >> beam.WaitOn(accounts) | "BuildShards" >> beam.ParDo(build)
        if finish:
            _ = shards | "CountShards" >> beam.combiners.Count.Globally() | "Finish" >> beam.Map(_complete_in_job, run)


def _find_unwanted(
    documents: beam.PCollection[list[RawDocument]], run: _Run, finished: frozenset[int]
) -> beam.PCollection[tuple[int, bytes]]:
    find = near_duplicate_ids(run.plan.config.cleaning.near_duplicates, run.plan.config.seed, run.plan.buckets)
    return documents | "FindNearDuplicates" >> find | "MarkUnwanted" >> beam.FlatMap(_mark_unwanted, finished)


def _mark_unwanted(element: tuple[int, bytes], finished: frozenset[int]) -> Iterator[tuple[int, bytes]]:
    bucket, packed_ids = element
    if bucket not in finished:
        yield bucket, mark_unwanted(packed_ids)


def _nothing_missing(run: _Run) -> bool:
    """Returns True if a detached pipeline finished: every document read is accounted for."""
    directory = run.directory
    tally = Tally.load(directory.file(REPORTS))
    if not tally.read() or (FAULTS & set(tally.left_out()) and storage.read(directory.file(DEAD_LETTERS)) is None):
        return False
    sources = RunSummary(run.plan, tally, directory.reports(verify=True)).sources()
    return all(source.documents_read == source.documents + sum(source.left_out.values()) for source in sources)


def _finished_manifests(run: _Run) -> list[Manifest]:
    manifests = []
    for folder in run.plan.configs:
        path = run.directory.file(folder)
        manifests.append(storage.read_in(path, read_manifest))
        if storage.is_local(path):
            verify_shards(path, manifests[-1])
    return manifests


def _finish(run: _Run) -> list[Manifest]:
    """Reconciles documents read with documents written, then writes vocabulary and manifests."""
    directory = run.directory
    tally = Tally.load(directory.file(REPORTS))
    summary = RunSummary(run.plan, tally, directory.reports(verify=False))
    manifests = [summary.manifest(number, config) for number, config in enumerate(run.plan.configs.values())]
    tally.check_faults(run.max_rejected_fraction, directory.file(DEAD_LETTERS))
    for manifest in manifests:
        _check_counts(manifest)
    for folder, manifest in zip(run.plan.configs, manifests, strict=True):
        path = directory.file(folder)
        storage.write_in(path, lambda local: save_vocabulary(run.plan.vocabulary, local / VOCABULARY_NAME))
        storage.write_in(path, functools.partial(write_manifest, manifest))
    # The manifest sums the reports.
    storage.delete([directory.file(REPORTS)])
    if rejections := tally.rejections(directory.file(DEAD_LETTERS)):
        print(f"data: {rejections}", file=sys.stderr)
    return manifests


def _show(run: _Run, manifests: Sequence[Manifest]) -> None:
    """Writes the missing report pages."""
    for folder, manifest in zip(run.plan.configs, manifests, strict=True):
        path = run.directory.file(folder)
        if REPORT_NAME not in storage.names_in(path):
            report = describe(manifest, read_examples(functools.partial(_records, path), manifest, run.plan.vocabulary))
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

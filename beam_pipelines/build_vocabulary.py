"""`python -m beam_pipelines.build_vocabulary`: raw text to a WordPiece vocabulary."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from beam_pipelines.errors import PipelineError
from beam_pipelines.options import AUTO_SIZE, PROGRAMS, cleaning_config, corpus_of, parse, read_settings
from beam_pipelines.output import storage
from beam_pipelines.output.run_output import RunOutput, only_run
from beam_pipelines.program import run_as_program
from beam_pipelines.runners.progress import ProgressReporter
from beam_pipelines.runners.select import is_dry_run, is_template, runner_flags, running_pipeline
from beam_pipelines.sources.corpus import Corpus, ReadCorpus
from beam_pipelines.transforms.count_words import CountWords, merge_counts, partition_count, whole_weights
from beam_pipelines.transforms.filter_documents import filter_documents
from beam_pipelines.transforms.rejections import DEAD_LETTERS, TALLY, FaultLimit, Tally, write_accounts
from beam_pipelines.vocabulary.train_wordpiece import (
    USUAL_SIZES,
    Alphabet,
    VocabularyReport,
    advised_size,
    choose_alphabet,
    describe,
    learn,
)
from beam_pipelines.vocabulary.word_counts import WordCounts
from bert_tf.config import ConfigError
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary, save_vocabulary


def run(argv: Sequence[str]) -> dict[str, Any]:
    """Counts words with Beam, trains the vocabulary in this process, and writes it.

    Repeated documents are counted each time.

    Args:
        argv: command line: flags of this program and of Beam.

    Returns:
        `output`, `seconds`, `vocabulary_size`, `documents_read`, `documents_rejected`, `words` (total occurrences),
        `distinct_words`, `alphabet` (number of characters), `character_coverage` (share of character occurrences in
        the alphabet), and the fields of `VocabularyReport`, computed over words that occur `--min_count` times.

    Raises:
        ConfigError: if a flag or an input is invalid.
        InputError: if an input cannot be read in full.
        PipelineError: if the pipeline fails, rejects too many documents, or finds no word.

    Example:
        >>> from beam_pipelines import build_vocabulary
        >>> flags = ["--input=corpus.txt", "--format=text", "--vocabulary_size=80", "--output=pieces.txt"]
        >>> summary = build_vocabulary.run(flags)
        >>> summary["documents_read"], summary["vocabulary_size"]
        (60, 80)
    """
    started = time.monotonic()
    args, beam_args = parse(argv, *PROGRAMS["build_vocabulary"])
    storage.use_options(beam_args)
    _check_args(args)
    corpus = corpus_of(args)
    paths = [args.output, *(file.path for file in corpus.files)]
    options = PipelineOptions([*beam_args, *runner_flags(beam_args, corpus.work_bytes, paths)], **vars(args))
    letters, staging = f"{args.output}.dead_letters.jsonl", f"{args.output}.counts"
    if is_dry_run(options):
        _run_pipeline(options, args, corpus, RunOutput(staging), letters)
        print("vocabulary: the runner accepts this pipeline; nothing was read or written", file=sys.stderr)
        return {"output": args.output, "seconds": round(time.monotonic() - started, 3), "dry_run": True}
    with only_run(staging, "counting words in"):
        output = RunOutput(staging)
        _clear(output, letters)
        if is_template(options):
            _run_pipeline(options, args, corpus, output, letters, finish=True)
            print(f"vocabulary: the template's job writes {args.output}", file=sys.stderr)
            summary: dict[str, Any] = {"template": True}
        else:
            try:
                with output.ending():
                    _run_pipeline(options, args, corpus, output, letters)
                    summary = _complete(args, corpus, output, letters)
            finally:
                storage.delete([staging])
    return {"output": args.output, "seconds": round(time.monotonic() - started, 3), **summary}


def _clear(output: RunOutput, letters: str) -> None:
    """Takes over the directory of the counts and deletes the files of an earlier run."""
    staging = output.directory
    output.begin()
    storage.delete([storage.join(staging, name) for name in storage.names_in(staging) if not output.owns(name)])
    storage.delete([letters])


def _complete_in_job(_: int, args: argparse.Namespace, corpus: Corpus, output: RunOutput, letters: str) -> None:
    """Writes the vocabulary in a template's job, which has no driver. The runner may repeat it."""
    if storage.names_in(output.directory):
        _complete(args, corpus, output, letters)
        storage.delete([output.directory])


def _complete(args: argparse.Namespace, corpus: Corpus, output: RunOutput, letters: str) -> dict[str, Any]:
    """Learns and writes the vocabulary; returns its fields of the summary."""
    staging = output.directory
    output.check()
    tally = Tally.load(staging)
    tally.check_faults(args.max_rejected_fraction, letters)
    word_counts = WordCounts(staging)
    unit = whole_weights(corpus.weights)[1]
    vocabulary, alphabet = _learn(word_counts, args, unit, tally)

    @functools.cache
    def first(size: int) -> VocabularyReport:
        return describe(Vocabulary(vocabulary.tokens[:size]), word_counts.tables(), not args.cased, unit)

    size = advised_size(vocabulary, first)
    if args.vocabulary_size == AUTO_SIZE:
        vocabulary = Vocabulary(vocabulary.tokens[:size])
        rare = f"{first(size).rare_share:.0%} of them occur fewer than 100 times"
        print(f"vocabulary: auto chose {size} pieces; {rare} (--vocabulary_size)", file=sys.stderr)
    report = first(len(vocabulary))
    folder, name = storage.split(args.output)
    storage.write_in(folder, lambda directory: save_vocabulary(vocabulary, directory / name))
    if rejections := tally.rejections(letters):
        print(f"vocabulary: {rejections}", file=sys.stderr)
    _show(args.output, vocabulary, report)
    if size < len(vocabulary):
        print(
            f"vocabulary: {report.rare_share:.0%} of the pieces occur fewer than 100 times, too rarely to be trained "
            f"well; `--vocabulary_size {size}` or more text suits better",
            file=sys.stderr,
        )
    return {
        "vocabulary_size": len(vocabulary),
        "documents_read": tally.read(),
        "documents_rejected": sum(tally.left_out().values()),
        "words": word_counts.occurrences,
        "distinct_words": word_counts.distinct,
        "alphabet": alphabet.characters,
        "character_coverage": round(alphabet.coverage, 6),
        **dataclasses.asdict(report),
    }


def _check_args(args: argparse.Namespace) -> None:
    if not args.vocabulary_size:
        raise ConfigError("--vocabulary_size is required: `auto`, or a number such as 30522, BERT's own size.")
    if args.vocabulary_size <= len(SPECIAL_TOKENS) and args.vocabulary_size != AUTO_SIZE:
        raise ConfigError(
            f"--vocabulary_size must be more than {len(SPECIAL_TOKENS)}. Received: {args.vocabulary_size}"
        )
    for name, minimum in (("min_count", 1), ("limit_alphabet", 0), ("max_words", 1)):
        if getattr(args, name) < minimum:
            raise ConfigError(f"--{name} must be at least {minimum}. Received: {getattr(args, name)}")
    if not 0.0 < args.character_coverage <= 1.0:
        raise ConfigError(f"--character_coverage must be in (0, 1]. Received: {args.character_coverage}")
    if storage.is_local(args.output) and Path(args.output).is_dir():
        raise ConfigError(f"--output {args.output}: is a directory, not a file. Choose a file name.")
    bucket, _, name = args.output.partition("://")[2].partition("/")
    if not storage.is_local(args.output) and (not bucket or not name or name.endswith("/")):
        raise ConfigError(
            f"--output must be the URL of a file, such as s3://bucket/vocab.txt. Received: {args.output}. Add a name."
        )


def _run_pipeline(
    options: PipelineOptions,
    args: argparse.Namespace,
    corpus: Corpus,
    output: RunOutput,
    letters: str,
    finish: bool = False,
) -> None:
    """Runs the pipeline; with `finish`, its last step writes the vocabulary."""
    cleaning = cleaning_config(args)
    weights, unit = whole_weights(corpus.weights)
    with (
        ProgressReporter("vocabulary", len(corpus.files), corpus.text_bytes) as progress,
        running_pipeline(options) as pipeline,
    ):
        documents = pipeline | "ReadCorpus" >> ReadCorpus(corpus, read_settings(args), progress.log)
        if cleaning.filters:
            documents |= "Filter" >> beam.Map(filter_documents, cleaning, corpus.languages)
        count = CountWords(not args.cased, partition_count(corpus.text_bytes), weights)
        outputs = documents | "CountWords" >> beam.ParDo(count).with_outputs(TALLY, DEAD_LETTERS, main="tables")
        limit = FaultLimit(args.max_rejected_fraction, corpus.most_documents)
        accounts = write_accounts(outputs, output, letters, output.directory, limit)
        counts = (
            outputs.tables
            | "GatherTables" >> beam.GroupByKey()
            | "UntilAccounted" >> beam.WaitOn(accounts)
            | "MergeCounts" >> beam.Map(merge_counts, output, args.min_count * unit)
        )
        if finish:
            count = counts | "CountPartitions" >> beam.combiners.Count.Globally()
            _ = count | "Finish" >> beam.Map(_complete_in_job, args, corpus, output, letters)


def _learn(word_counts: WordCounts, args: argparse.Namespace, unit: int, tally: Tally) -> tuple[Vocabulary, Alphabet]:
    counts = word_counts.most_frequent(args.max_words)
    if not counts:
        raise PipelineError(
            f"the input has no word that occurs --min_count {args.min_count} times "
            f"({tally.read()} documents were read). Lower --min_count or add input."
        )
    alphabet = choose_alphabet(word_counts.characters, args.character_coverage, args.limit_alphabet)
    used = sum(counts.values()) / word_counts.weight
    print(
        f"vocabulary: {word_counts.occurrences} words, {word_counts.distinct} distinct; learning from the "
        f"{len(counts)} most frequent ({used:.2%} of all); "
        f"{alphabet.characters} characters cover {alphabet.coverage:.4%}",
        file=sys.stderr,
    )
    size = args.vocabulary_size
    if size == AUTO_SIZE:
        size = max(USUAL_SIZES[0], 2 * len(alphabet.pieces))
    return learn(counts, size, alphabet.pieces, unit), alphabet


def _show(output: str, vocabulary: Vocabulary, report: VocabularyReport) -> None:
    print(
        f"vocabulary: {output} has {len(vocabulary)} pieces ({report.continuation_share:.1%} continue words, "
        f"{report.unused_pieces} unused, longest: {', '.join(report.longest_pieces)}); "
        f"{report.fertility:.3f} pieces per word, {report.unk_rate:.4%} of words are [UNK]",
        file=sys.stderr,
    )


def main() -> int:
    """Runs the program and returns its exit status."""
    return run_as_program(run)


if __name__ == "__main__":
    # Imported through the package, so that Beam does not pickle its functions as part of __main__.
    from beam_pipelines import build_vocabulary

    sys.exit(build_vocabulary.main())

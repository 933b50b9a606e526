"""`python -m beam_pipelines.build_vocabulary`: raw text to a WordPiece vocabulary."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from beam_pipelines import storage
from beam_pipelines.entry import run_as_program
from beam_pipelines.errors import PipelineError
from beam_pipelines.learning import learn, measure
from beam_pipelines.options import CorpusOptions, VocabularyOptions, parse
from beam_pipelines.progress import ProgressReporter
from beam_pipelines.runners import runner_flags, running_pipeline
from beam_pipelines.sources.corpus import Corpus, ReadCorpus, find_corpus
from beam_pipelines.transforms.count_words import CountWords, MergeCounts, unpack_counts
from beam_pipelines.transforms.rejections import READ, REJECTED, check_rejected, rejected_by_reason
from beam_pipelines.transforms.reports import read_document_count, write_reports
from bert_tf.config import ConfigError
from bert_tf.text.vocabulary import SPECIAL_TOKENS, save_vocabulary

_DEAD_LETTERS = "dead_letters.jsonl"


def run(argv: Sequence[str]) -> dict[str, Any]:
    """Counts words with Beam, learns the vocabulary here, and writes it.

    Args:
        argv: our flags and Beam's.

    Returns:
        `output`, `seconds`, `vocabulary_size`, `documents_read`, `documents_rejected`, `words`, `fertility` (pieces a
        word) and `unk_rate` (share of words that hold [UNK]), the last two over the words counted.

    Raises:
        ConfigError: for flags or input that break a rule.
        InputError: for an input that cannot be read in full.
        PipelineError: when the pipeline fails or rejects too many documents.
    """
    started = time.monotonic()
    args, beam_args = parse(argv, "build_vocabulary", (CorpusOptions, VocabularyOptions))
    _check_args(args)
    corpus = find_corpus(args.format, args.input)
    options = PipelineOptions([*argv, *runner_flags(beam_args, corpus.work_bytes)])
    letters = f"{args.output}.{_DEAD_LETTERS}"
    staging = f"{args.output}.counts"
    storage.delete([staging, letters])
    try:
        _run_pipeline(options, args, corpus, staging, letters)
        read = read_document_count(staging)
        rejected = rejected_by_reason(storage.read(letters))
        check_rejected(read, rejected, args.max_rejected_fraction, letters)
        counts, words = _read_counts(staging)
    finally:
        storage.delete([staging])
    if not counts:
        raise PipelineError(f"the input gave no word ({read} documents were read).")
    print(f"vocabulary: learning from {len(counts)} distinct words, {words} in all", file=sys.stderr)
    vocabulary = learn(counts, args.vocabulary_size, args.limit_alphabet or _alphabet_size(args.vocabulary_size))
    folder, name = storage.split(args.output)
    storage.write_in(folder, lambda directory: save_vocabulary(vocabulary, directory / name))
    fertility, unk_rate = measure(counts, vocabulary, not args.cased)
    print(f"vocabulary: {args.output} holds {len(vocabulary)} pieces", file=sys.stderr)
    return {
        "output": args.output,
        "seconds": round(time.monotonic() - started, 3),
        "vocabulary_size": len(vocabulary),
        "documents_read": read,
        "documents_rejected": sum(rejected.values()),
        "words": words,
        "fertility": round(fertility, 4),
        "unk_rate": round(unk_rate, 6),
    }


def _check_args(args: argparse.Namespace) -> None:
    if args.vocabulary_size <= len(SPECIAL_TOKENS):
        raise ConfigError(
            f"--vocabulary_size must be more than {len(SPECIAL_TOKENS)}. Received: {args.vocabulary_size}"
        )
    for name, least in (("min_count", 1), ("limit_alphabet", 0)):
        if getattr(args, name) < least:
            raise ConfigError(f"--{name} must be at least {least}. Received: {getattr(args, name)}")
    if storage.is_local(args.output) and Path(args.output).is_dir():
        raise ConfigError(f"--output {args.output}: is a directory, not a file.")


def _alphabet_size(vocabulary_size: int) -> int:
    return min(1000, max(100, vocabulary_size // 10))


def _run_pipeline(
    options: PipelineOptions, args: argparse.Namespace, corpus: Corpus, staging: str, letters: str
) -> None:
    with (
        ProgressReporter("vocabulary", corpus.bytes, len(corpus.files)) as progress,
        running_pipeline(options) as pipeline,
    ):
        outputs = (
            pipeline
            | "ReadCorpus" >> ReadCorpus(corpus, args.max_document_bytes, progress.log)
            | "CountWords" >> beam.ParDo(CountWords(not args.cased)).with_outputs(READ, REJECTED, main="tables")
        )
        _ = (
            outputs.tables
            | "GatherTables" >> beam.GroupByKey()
            | "MergeCounts" >> beam.ParDo(MergeCounts(staging, args.min_count))
        )
        write_reports(outputs, letters, staging)


def _read_counts(staging: str) -> tuple[Counter[str], int]:
    counts: Counter[str] = Counter()
    words = 0
    for name in sorted(storage.names_in(staging)):
        if name.endswith(".counts"):
            table, occurrences = unpack_counts(storage.read(storage.join(staging, name)) or b"")
            counts.update({word.decode("utf-8"): count for word, count in table.items()})
            words += occurrences
    return counts, words


def main() -> int:
    """Runs as a program; returns the exit status."""
    return run_as_program(run)


if __name__ == "__main__":
    # Through the package, so that nothing the pipeline ships is pickled as a part of __main__.
    from beam_pipelines import build_vocabulary

    sys.exit(build_vocabulary.main())

"""`python -m benchmarks.data`: speed and memory of the data pipelines; tables on stdout, JSON in --output.

The peer needs an environment of its own:

    python3.11 -m venv PEER
    PEER/bin/pip install --no-deps tf-models-official==2.20.0
    PEER/bin/pip install tensorflow==2.20.0 tf-keras==2.20.1 sentencepiece==0.2.3 six==1.17.0
    python -m benchmarks.data --peer_python PEER/bin/python

Without `--peer_python` only bert_tf is measured. `--parts` selects from

    examples     pre-training examples per second and per CPU second, compared with the peer
    memory       peak memory of all processes for the whole corpus, compared with its bound
    tokenizing   words per second compared with FastBertTokenizer alone, on one core
    vocabulary   seconds to learn 30,522 pieces
    stages       CPU time of each stage of a run
    formats      MB per second of every format, and of a peer for wikitext, on one core
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks import examples, measure, processes, texts
from benchmarks.peers.session import limit_threads

_VOCABULARY = Path(__file__).parents[2] / "shared/data/vocab/bert-base-uncased-vocab.txt"
_RAW = Path(__file__).parents[2] / "shared/data/raw"
_WIKIPEDIA = "wikipedia"
VOCABULARY_SIZE = 30_522
# Bound of the memory of all processes: a fixed part, and a part for each token of the documents waiting for a bucket.
FIXED_BYTES, BYTES_PER_TOKEN = 2_000_000_000, 3


def examples_part(args: argparse.Namespace, work: Path) -> None:
    """Measures examples per second."""
    sample = texts.Sample(texts.files_of(args.corpus), work)
    runners = examples.our_contestants(sample, args.vocabulary, args.megabytes, args.repetitions)
    if args.peer_python:
        peer = (args.peer_python.absolute(), args.peer_megabytes, args.peer_repetitions)
        runners.append(examples.peer_contestant(sample, args.vocabulary, *peer))
    examples.show(examples.measure_examples(runners, work, args.lengths), args.output)


def memory_part(args: argparse.Namespace, work: Path) -> None:
    """Measures the peak memory of a run over the whole corpus."""
    files = texts.files_of(args.corpus)
    rows = []
    measure.heading("Peak memory of all processes (proportional set sizes), whole corpus, one process per core")
    for length in args.lengths:
        command = examples.bert_tf_command(files, work / f"whole-{length}", length, args.vocabulary, "en")
        cost = processes.run(command, work, memory=True)
        tokens = json.loads(cost.stdout.splitlines()[-1])["tokens"]
        bound = FIXED_BYTES + BYTES_PER_TOKEN * tokens
        rows.append({"max_seq_length": length, "tokens": tokens, "peak_bytes": cost.peak_bytes, "bound_bytes": bound,
                     "seconds": cost.seconds, "cpu_seconds": cost.cpu_seconds})  # fmt: skip
        print(
            f"  length {length}: {cost.peak_bytes / 1e9:.2f} GB of at most {bound / 1e9:.2f} GB "
            f"({FIXED_BYTES / 1e9:g} GB + {BYTES_PER_TOKEN} bytes x {tokens / 1e6:.1f} M tokens), {cost.seconds:.1f} s",
            flush=True,
        )
    measure.save("Peak memory", {"bytes_on_disk": _size(files), "results": rows}, args.output)


def tokenizing_part(args: argparse.Namespace, work: Path) -> None:
    """Measures the tokenizer on encyclopedic text, which is mostly ASCII."""
    from benchmarks import tokenizer
    from bert_tf.text.vocabulary import load_vocabulary

    limit_threads(1)
    files = [file for file in texts.files_of(args.corpus) if _WIKIPEDIA in str(file)] or texts.files_of(args.corpus)
    paths = texts.Sample(files, work).write(args.tokenizing_megabytes)
    paragraphs = [paragraph for path in paths for document in texts.documents_of(path) for paragraph in document]
    results = tokenizer.compare(paragraphs, load_vocabulary(args.vocabulary))
    measure.report("Tokenizing a corpus", "words/s", results, tokenizer.RAW, args.output)


def vocabulary_part(args: argparse.Namespace, work: Path) -> None:
    """Measures the time and memory to learn a vocabulary."""
    paths = texts.Sample(texts.files_of(args.corpus), work).write(args.vocabulary_megabytes)
    command = [
        *(sys.executable, "-m", "beam_pipelines.build_vocabulary", f"--input={','.join(map(str, paths))}"),
        *(f"--vocabulary_size={VOCABULARY_SIZE}", f"--output={work / 'learned.txt'}"),
    ]
    costs = [processes.run(command, work, memory=True) for _ in range(args.vocabulary_repetitions)]
    seconds = statistics.median(cost.seconds for cost in costs)
    peak = max(cost.peak_bytes for cost in costs)
    summary = json.loads(costs[0].stdout.splitlines()[-1])
    measure.heading(f"Vocabulary of {VOCABULARY_SIZE} pieces (median of {len(costs)})")
    print(
        f"  {_size(paths) / 1e6:.0f} MB, {summary['words']} words, {summary['distinct_words']} distinct: "
        f"{seconds:.1f} s, {costs[0].cpu_seconds:.1f} CPU s, {peak / 1e9:.2f} GB; "
        f"{summary['fertility']} pieces per word, {summary['unk_rate']:.4%} [UNK]"
    )
    fields = {"seconds": seconds, "peak_bytes": peak, "all_seconds": [cost.seconds for cost in costs]}
    measure.save("Vocabulary", {**fields, "bytes": _size(paths), "summary": summary}, args.output)


def stages_part(args: argparse.Namespace, work: Path) -> None:
    """Profiles a run in this process on one core."""
    from benchmarks import stages

    limit_threads(1)
    paths = texts.Sample(texts.files_of(args.corpus), work).write(args.stages_megabytes)
    rows = []
    for length in args.lengths:
        program = examples.bert_tf_command(paths, work / f"stages-{length}", length, args.vocabulary, "en")
        seconds = stages.pretraining_stages(program[3:])
        total = sum(seconds.values())
        measure.heading(f"Stages of {args.stages_megabytes:g} MB at length {length}: {total:.1f} CPU seconds")
        for stage, stage_seconds in seconds.items():
            print(f"  {stage:<48}{stage_seconds:>8.2f} s{stage_seconds / total:>8.1%}")
        rows.append({"max_seq_length": length, "cpu_seconds": seconds})
    measure.save("Stages", {"megabytes": args.stages_megabytes, "results": rows}, args.output)


def formats_part(args: argparse.Namespace, work: Path) -> None:
    """Measures the readers of all formats."""
    from benchmarks import formats

    sample = texts.Sample(texts.files_of(args.corpus), work)
    formats.measure_formats(args.raw, sample, args.tokenizing_megabytes, work, args.output)


PARTS = {
    "examples": examples_part,
    "memory": memory_part,
    "tokenizing": tokenizing_part,
    "vocabulary": vocabulary_part,
    "stages": stages_part,
    "formats": formats_part,
}


def _size(files: list[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def _parser() -> argparse.ArgumentParser:
    parser = measure.parser(__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated parts; default: all")
    parser.add_argument("--corpus", default=texts.DEFAULT_CORPUS, help="comma-separated globs of .txt or .bz2 files")
    parser.add_argument("--vocabulary", type=Path, default=_VOCABULARY, help="vocab.txt of an uncased model")
    parser.add_argument(
        "--lengths",
        default="128,512",
        help=f"comma-separated example lengths, from {', '.join(map(str, examples.PREDICTIONS))}; default: %(default)s",
    )
    parser.add_argument("--raw", type=Path, default=_RAW, help="formats: folder with dumps and wikiextractor output")
    parser.add_argument("--megabytes", type=float, default=100, help="examples: larger input of bert_tf")
    parser.add_argument(
        "--repetitions", type=int, default=measure.REPETITIONS, help="examples: runs of bert_tf per size"
    )
    parser.add_argument("--peer_python", type=Path, help="Python interpreter of the peer's environment")
    parser.add_argument("--peer_megabytes", type=float, default=4, help="examples: larger input of the peer")
    parser.add_argument("--peer_repetitions", type=int, default=3, help="examples: runs of the peer per size")
    parser.add_argument("--tokenizing_megabytes", type=float, default=20)
    parser.add_argument("--vocabulary_megabytes", type=float, default=200)
    parser.add_argument("--vocabulary_repetitions", type=int, default=3)
    parser.add_argument("--stages_megabytes", type=float, default=25)
    parser.add_argument(
        "--work", type=Path, help="folder for texts and records, several gigabytes; default: a temporary directory"
    )
    return parser


def main() -> None:
    """Runs the selected parts."""
    parser = _parser()
    args = parser.parse_args()
    parts = args.parts.split(",")
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        parser.error(f"--parts must be from {', '.join(PARTS)}. Received: {', '.join(unknown)}")
    args.lengths = [int(length) for length in args.lengths.split(",")]
    if not set(args.lengths) <= set(examples.PREDICTIONS):
        parser.error(f"--lengths must be from {set(examples.PREDICTIONS)}. Received: {args.lengths}")
    args.vocabulary = args.vocabulary.resolve()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    for part in parts:
        with tempfile.TemporaryDirectory(prefix="bert_tf_bench_", dir=args.work) as work:
            PARTS[part](args, Path(work))


if __name__ == "__main__":
    main()

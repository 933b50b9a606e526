"""`python -m benchmarks.data`: how fast and how large the data pipelines are; tables on stdout, JSON in --output.

The peer lives in an environment of its own, made once:

    python3.11 -m venv PEER
    PEER/bin/pip install --no-deps tf-models-official==2.20.0
    PEER/bin/pip install tensorflow==2.20.0 tf-keras==2.20.1 sentencepiece==0.2.3 six==1.17.0
    python -m benchmarks.data --peer_python PEER/bin/python

Without `--peer_python` only our side is measured. `--parts` chooses among

    examples     pre-training examples a second and a CPU second, beside the peer
    memory       peak memory of all processes over the whole corpus, beside its bound
    tokenizing   words a second beside raw FastBertTokenizer, on one core
    vocabulary   seconds to learn 30,522 pieces
    stages       where the CPU time of a run goes
    formats      MB a second of every format, and of a peer for wikitext, on one core
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

_VOCABULARY = Path(__file__).parents[2] / "shared/data/vocab/bert-base-uncased-vocab.txt"
_RAW = Path(__file__).parents[2] / "shared/data/raw"
_WIKIPEDIA = "wikipedia"
VOCABULARY_SIZE = 30_522
# What all processes may take together: a fixed part, and for each token of the documents that wait for their bucket.
FIXED_BYTES, BYTES_PER_TOKEN = 2_000_000_000, 3


def examples_part(args: argparse.Namespace, work: Path) -> None:
    """Measures examples a second."""
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
    measure.heading("Peak memory of all processes (proportional set sizes), whole corpus, one process a core")
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
    """Measures the tokenizer on encyclopedic text, most of which is ASCII and some of which is not."""
    from benchmarks import tokenizer
    from bert_tf.text.vocabulary import load_vocabulary

    tokenizer.use_one_core()
    files = [file for file in texts.files_of(args.corpus) if _WIKIPEDIA in str(file)] or texts.files_of(args.corpus)
    paths = texts.Sample(files, work).write(args.tokenizing_megabytes)
    paragraphs = [paragraph for path in paths for document in texts.documents_of(path) for paragraph in document]
    results = tokenizer.compare(paragraphs, load_vocabulary(args.vocabulary))
    measure.report("Tokenizing a corpus", "words/s", results, tokenizer.RAW, args.output)


def vocabulary_part(args: argparse.Namespace, work: Path) -> None:
    """Measures the learning of a vocabulary."""
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
        f"{summary['fertility']} pieces a word, {summary['unk_rate']:.4%} [UNK]"
    )
    fields = {"seconds": seconds, "peak_bytes": peak, "all_seconds": [cost.seconds for cost in costs]}
    measure.save("Vocabulary", {**fields, "bytes": _size(paths), "summary": summary}, args.output)


def stages_part(args: argparse.Namespace, work: Path) -> None:
    """Profiles a run, in this process and on one core."""
    from benchmarks import stages, tokenizer

    tokenizer.use_one_core()
    paths = texts.Sample(texts.files_of(args.corpus), work).write(args.stages_megabytes)
    rows = []
    for length in args.lengths:
        program = examples.bert_tf_command(paths, work / f"stages-{length}", length, args.vocabulary, "en")
        seconds = stages.pretraining_stages(program[3:])
        total = sum(seconds.values())
        measure.heading(f"Stages of {args.stages_megabytes:g} MB at length {length}: {total:.1f} CPU seconds")
        for stage, own in seconds.items():
            print(f"  {stage:<48}{own:>8.2f} s{own / total:>8.1%}")
        rows.append({"max_seq_length": length, "cpu_seconds": seconds})
    measure.save("Stages", {"megabytes": args.stages_megabytes, "results": rows}, args.output)


def formats_part(args: argparse.Namespace, work: Path) -> None:
    """Measures the reading of every format."""
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
    parser = argparse.ArgumentParser(
        description=__doc__, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated; all where left out")
    parser.add_argument("--corpus", default=texts.DEFAULT_CORPUS, help="comma-separated globs, .txt or .bz2")
    parser.add_argument("--vocabulary", type=Path, default=_VOCABULARY, help="vocab.txt of an uncased model")
    parser.add_argument(
        "--lengths", default="128,512", help=f"of examples, among {', '.join(map(str, examples.PREDICTIONS))}"
    )
    parser.add_argument("--raw", type=Path, default=_RAW, help="formats: with dumps and wikiextractor output")
    parser.add_argument("--megabytes", type=float, default=100, help="examples: our larger input")
    parser.add_argument("--repetitions", type=int, default=measure.REPETITIONS, help="examples: our runs of each size")
    parser.add_argument("--peer_python", type=Path, help="interpreter of the peer's environment")
    parser.add_argument("--peer_megabytes", type=float, default=4, help="examples: the peer's larger input")
    parser.add_argument("--peer_repetitions", type=int, default=3, help="examples: the peer's runs of each size")
    parser.add_argument("--tokenizing_megabytes", type=float, default=20)
    parser.add_argument("--vocabulary_megabytes", type=float, default=200)
    parser.add_argument("--vocabulary_repetitions", type=int, default=3)
    parser.add_argument("--stages_megabytes", type=float, default=25)
    parser.add_argument("--output", type=Path, default=Path("runs/benchmarks"), help="where the JSON goes")
    parser.add_argument("--work", type=Path, help="for texts and records, some gigabytes; a temporary directory")
    return parser


def main() -> None:
    """Runs the parts that are asked for."""
    parser = _parser()
    args = parser.parse_args()
    chosen = args.parts.split(",")
    unknown = sorted(set(chosen) - set(PARTS))
    if unknown:
        parser.error(f"--parts must be of {', '.join(PARTS)}. Received: {', '.join(unknown)}")
    args.lengths = [int(length) for length in args.lengths.split(",")]
    if not set(args.lengths) <= set(examples.PREDICTIONS):
        parser.error(f"--lengths must be of {set(examples.PREDICTIONS)}. Received: {args.lengths}")
    args.vocabulary = args.vocabulary.resolve()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    for part in chosen:
        with tempfile.TemporaryDirectory(prefix="bert_tf_bench_", dir=args.work) as work:
            PARTS[part](args, Path(work))


if __name__ == "__main__":
    main()

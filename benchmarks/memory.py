"""`python -m benchmarks.memory`: memory of workers and Java while data is created on Flink; table and JSON.

On a runner that spills shuffled data to disk, memory depends on the size of a shard, not of the corpus. The first rows
increase the corpus at one shard size, the last rows increase the shard at one corpus size. Java has a fixed heap
(`--java_megabytes`) that is smaller than any corpus; if it suffices, Flink spills. `--runner local` measures Beam's
local runner, whose driver holds the shuffled data.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks import measure, processes, texts

# The largest worker process, all worker processes, the job server with Flink, the program itself, and all together.
PEAKS = ("worker", "workers", "java", "driver", "total")


def _sample(peaks: Counter[str]) -> None:
    """Updates the peaks of all descendants of this process, by the names of `PEAKS`."""
    now: Counter[str] = Counter()
    for process in processes.descendants(os.getpid()):
        size, kind = processes.proportional_bytes(process), _kind(process)
        now["total"] += size
        now["workers" if kind == "worker" else kind] += size
        if kind == "worker":
            now["worker"] = max(now["worker"], size)
    peaks |= now


def _kind(process: int) -> str:
    try:
        command = Path(f"/proc/{process}/cmdline").read_text(errors="replace").split("\0")
    except OSError:  # the process has ended
        return "driver"
    if Path(command[0]).name == "java":
        return "java"
    return "worker" if "apache_beam.runners.worker" in " ".join(command[1:3]) else "driver"


def command_of(args: argparse.Namespace, inputs: Sequence[Path], output: Path, shards: int) -> list[str]:
    """Returns the command line of one run."""
    flags = {
        "input": ",".join(map(str, inputs)),
        "output": output,
        "vocabulary": args.vocabulary,
        "max_seq_length": args.max_seq_length,
        "masking": "static",
        "dupe_factor": 5,
        "num_shards": shards,
        "validation_fraction": 0,
    }
    runner = ["--direct_running_mode=multi_processing"]
    if args.runner == "flink":
        java = ["--add-opens=java.base/java.util=ALL-UNNAMED", f"-Xmx{args.java_megabytes}m"]
        runner = ["--runner=FlinkRunner", "--flink_master=[local]", *(f"--job_server_jvm_properties={p}" for p in java)]
    program = [sys.executable, "-m", "beam_pipelines.create_pretraining_data"]
    return [*program, *(f"--{name}={value}" for name, value in flags.items()), *runner]


def measured(args: argparse.Namespace, sample: texts.Sample, work: Path, megabytes: float, shards: int) -> dict:
    """Runs the pipeline once and returns its row."""
    command = command_of(args, sample.write(megabytes), work / f"data-{megabytes:g}-{shards}", shards)
    started = time.perf_counter()
    counts: Counter[str] = Counter()
    with processes.Sampler(lambda: _sample(counts)):
        cost = processes.run(command, work)
    peaks = {name: counts[name] for name in PEAKS}
    summary = json.loads(cost.stdout.splitlines()[-1])
    row = {
        "corpus_megabytes": megabytes,
        "shards": shards,
        "shard_tokens": summary["tokens"] // shards,
        "tokens": summary["tokens"],
        "seconds": round(time.perf_counter() - started, 1),
        **peaks,
    }
    cells = [f"{megabytes:g}", shards, f"{row['shard_tokens'] / 1e6:.2f}"]
    cells += [f"{row[name] / 1e6:,.0f}" for name in peaks]
    _print_row([*cells, row["seconds"]])
    return row


def _print_row(cells: Sequence[object]) -> None:
    print("".join(f"{cell:>10}" for cell in cells), flush=True)


def main() -> None:
    """Runs the benchmark and reports the results."""
    parser = measure.parser(__doc__)
    parser.add_argument("--corpus", default=texts.DEFAULT_CORPUS, help="comma-separated globs of .txt or .bz2 files")
    parser.add_argument("--vocabulary", type=Path, required=True, help="path of a vocab.txt")
    parser.add_argument(
        "--megabytes", default="50,100,200", help="ascending corpus sizes, MB of text; default: %(default)s"
    )
    parser.add_argument(
        "--shard_megabytes", default="12.5,25,50", help="ascending shard sizes, MB of text; default: %(default)s"
    )
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--runner", choices=("flink", "local"), default="flink")
    parser.add_argument(
        "--java_megabytes", type=int, default=1024, help="heap of the job server, MB; default: %(default)s"
    )
    args = parser.parse_args()
    args.vocabulary = args.vocabulary.absolute()
    sizes = [float(size) for size in args.megabytes.split(",")]
    shards = [float(size) for size in args.shard_megabytes.split(",")]
    title = f"Memory by size of corpus and shard on {args.runner}"
    measure.heading(f"{title} (peaks of proportional set sizes, MB)")
    _print_row(["corpus", "shards", "M tokens", *PEAKS, "seconds"])
    runs = [(size, shards[0]) for size in sizes] + [(sizes[-1], shard) for shard in shards[1:]]
    with tempfile.TemporaryDirectory() as scratch:
        sample = texts.Sample(texts.files_of(args.corpus), Path(scratch))
        rows = [measured(args, sample, Path(scratch), size, max(1, round(size / shard))) for size, shard in runs]
    measure.save(title, {"java_heap_megabytes": args.java_megabytes, "rows": rows}, args.output)


if __name__ == "__main__":
    main()

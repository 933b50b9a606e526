"""`python -m benchmarks.lengths`: time and memory of training and inference by the length of a row.

Measures a pre-training step of `modern_tiny` and the inference of `modern_base`, one row in a batch, float32, each in a
process of its own: medians of 5, and the peak memory of the process above that before its first step. `whole` are the
same layers made to compute all pairs of tokens at once. Table on stdout, JSON in --output.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from benchmarks import measure

_WORK = {"train": "modern_tiny", "infer": "modern_base"}


def contestant(work: str, length: int) -> tuple[Any, Callable[[], Any]]:
    """Returns a model for rows of a length, and a function that trains or computes one row."""
    import tensorflow as tf

    from benchmarks import step_row
    from bert_tf.layers.inference import arrange_for_inference
    from bert_tf.models import BertBackbone
    from bert_tf.training.backends import current_backend
    from bert_tf.training.malloc import tune_allocator

    tune_allocator()
    row = step_row.Row(_WORK[work], length, 1, precision="float32")
    if work == "train":
        backend = current_backend()
        training = step_row.build(row, backend)
        step, wait = step_row._tensorflow_step(training, step_row.batch_of(row, backend))
        return training, lambda: (step(), wait())
    backbone = BertBackbone(replace(row.model, pooler=False))
    arrange_for_inference(backbone)
    inputs = {name: tf.constant(values) for name, values in step_row.examples(row)[0].items() if name in backbone.input}
    signature = [{name: tf.TensorSpec((None, None), tf.int32, name) for name in inputs}]
    graph = tf.function(lambda rows: backbone(rows)["sequence_output"], input_signature=signature)
    return backbone, lambda: graph(inputs).numpy()


def measured(work: str, length: int, whole: bool, repetitions: int) -> dict[str, float]:
    """Returns the median seconds and the peak of the memory, in bytes, that a row adds to this process."""
    model, run = contestant(work, length)
    if whole:
        for layer in model._flatten_layers():
            if hasattr(layer, "pattern"):
                layer.pattern = replace(layer.pattern, max_length=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run()
    seconds = []
    for _ in range(repetitions):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": statistics.median(seconds), "bytes": (peak - before) * 1024}


def in_child(*arguments: Any) -> dict[str, float]:
    """Returns the results of `measured` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.lengths", "--child", json.dumps(arguments)]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(finished.stdout.splitlines()[-1])


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Returns the Markdown table."""
    lines = ["| work | tokens | seconds | MiB | whole, seconds | MiB |", "|---|---|---|---|---|---|"]
    for row in rows:
        cells = [f"{row[kind]['seconds']:.3f} | {row[kind]['bytes'] / 2**20:,.0f}" if kind in row else " | "
                 for kind in ("parts", "whole")]  # fmt: skip
        lines.append(f"| {row['work']} {_WORK[row['work']]} | {row['length']:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures the lengths, and prints the table."""
    parser = measure.parser(__doc__)
    parser.add_argument("--lengths", nargs="+", type=int, default=[256, 512, 1024, 2048, 4096, 8192])
    parser.add_argument("--work", nargs="+", choices=_WORK, default=list(_WORK), help="default: both")
    parser.add_argument("--longest_whole", type=int, default=4096, help="of `whole`; default: %(default)s")
    parser.add_argument("--repetitions", type=int, default=measure.REPETITIONS, help="default: %(default)s")
    parser.add_argument("--child", help="JSON of one measurement, for the processes of this program")
    args = parser.parse_args(arguments)
    if args.child:
        print(json.dumps(measured(*json.loads(args.child))))
        return
    rows: list[dict[str, Any]] = []
    for work in args.work:
        for length in args.lengths:
            row: dict[str, Any] = {"work": work, "length": length}
            row["parts"] = in_child(work, length, False, args.repetitions)
            if length <= args.longest_whole:
                row["whole"] = in_child(work, length, True, args.repetitions)
            rows.append(row)
            print(table(rows).splitlines()[-1], file=sys.stderr, flush=True)
    measure.heading(f"Time and memory by length (medians of {args.repetitions})")
    print(table(rows))
    measure.save("lengths", {"repetitions": args.repetitions, "rows": rows}, args.output)


if __name__ == "__main__":
    main()

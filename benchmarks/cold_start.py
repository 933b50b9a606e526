"""`python -m benchmarks.cold_start --model saved_models/NAME`: start-up time and first request of a server.

Starts `bert-tf serve` alternately with and without warm-up, and sends it requests of one text of 128 tokens over gRPC,
one at a time. Prints medians: seconds from process start until the server is ready, milliseconds of the first request,
and milliseconds of the median later request.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import measure
from benchmarks.peers.requests import texts
from benchmarks.server_process import serving
from bert_tf.client import connect

VARIANTS: dict[str, tuple[str, ...]] = {"with warm-up": (), "without": ("--no_warmup",)}
TITLE = "Cold start"


def started(model: Path, flags: Sequence[str], requests: Sequence[str]) -> tuple[float, list[float]]:
    """Returns the seconds until a server was ready, and the seconds of each request."""
    with serving(model, *flags) as server:
        client = connect(f"grpc://127.0.0.1:{server.grpc}/{model.resolve().name}")
        # The client requests the metadata only once.
        client.metadata()
        seconds = []
        for text in requests:
            began = time.perf_counter()
            client.predict([text])
            seconds.append(time.perf_counter() - began)
        return server.seconds, seconds


def table(rows: dict[str, dict[str, float]]) -> str:
    """Returns the metrics as a Markdown table."""
    lines = ["| | ready, s | first request, ms | later ones, ms | first / later |", "|---|---|---|---|---|"]
    for name, row in rows.items():
        ready, first, later = (row[key] for key in ("ready_s", "first_ms", "later_ms"))
        lines.append(f"| {name} | {ready:.1f} | {first:.0f} | {later:.0f} | {first / later:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Runs the benchmark and reports the results."""
    parser = measure.parser(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="saved_models/NAME of a model that takes one text")
    parser.add_argument(
        "--rounds", type=int, default=measure.REPETITIONS, help="starts of each kind; default: %(default)s"
    )
    parser.add_argument("--requests", type=int, default=30, help="requests to each server; default: %(default)s")
    args = parser.parse_args()
    if args.rounds < 1 or args.requests < 2:
        parser.error(f"--rounds must be 1 and --requests 2 at least. Received: {args.rounds} and {args.requests}")
    runs_of: dict[str, list[tuple[float, float, float]]] = {name: [] for name in VARIANTS}
    for number in range(args.rounds):
        for name, flags in VARIANTS.items():
            ready, (first, *later) = started(args.model, flags, texts(count=args.requests))
            runs_of[name].append((ready, 1000 * first, 1000 * statistics.median(later)))
            print(
                f"round {number + 1} of {args.rounds}, {name}: ready after {ready:.1f} s", file=sys.stderr, flush=True
            )
    keys = ("ready_s", "first_ms", "later_ms")
    rows = {
        name: dict(zip(keys, map(statistics.median, zip(*runs, strict=True)), strict=True))
        for name, runs in runs_of.items()
    }
    measure.heading(f"{TITLE} of {args.model} (medians of {args.rounds})")
    print(table(rows))
    measure.save(TITLE, {"model": str(args.model), "rounds": args.rounds, "rows": rows}, args.output)


if __name__ == "__main__":
    main()

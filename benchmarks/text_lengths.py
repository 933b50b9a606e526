"""`python -m benchmarks.text_lengths --model saved_models/NAME`: memory of a server after texts of all lengths.

Starts `bert-tf serve` and sends it texts of random lengths from two clients, one text at a time. Prints the anonymous
memory of the server, and the texts answered per second, after each tenth of the texts. A flat column shows that memory
does not depend on the number of different lengths.
"""

from __future__ import annotations

import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks import measure
from benchmarks.server_process import serving
from bert_tf.client import connect

TITLE = "Memory by lengths of texts"
PARTS = 10


def texts(count: int, seed: int, longest: int) -> list[str]:
    """Returns texts of 1 to `longest` words, at random."""
    random_source = random.Random(seed)
    return [" ".join(["cat"] * random_source.randint(1, longest)) for _ in range(count)]


def table(rows: list[dict[str, float]]) -> str:
    """Returns the metrics as a Markdown table."""
    lines = ["| texts | memory, MiB | texts/s |", "|---|---|---|"]
    return "\n".join(lines + [f"| {row['texts']:,} | {row['mib']:.0f} | {row['rate']:.0f} |" for row in rows])


def main() -> None:
    """Runs the benchmark and reports the results."""
    parser = measure.parser(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="saved_models/NAME of a model that takes one text")
    parser.add_argument("--texts", type=int, default=3000, help="number of texts; default: %(default)s")
    parser.add_argument("--longest", type=int, default=128, help="words of the longest text; default: %(default)s")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.texts < PARTS or args.longest < 1:
        parser.error(f"--texts must be {PARTS} and --longest 1 at least. Received: {args.texts} and {args.longest}")
    everything = texts(args.texts, args.seed, args.longest)
    rows: list[dict[str, float]] = []
    with serving(args.model) as server, ThreadPoolExecutor(2) as clients:
        client = connect(f"grpc://127.0.0.1:{server.grpc}/{args.model.resolve().name}")
        rows.append({"texts": 0, "mib": server.memory() / 2**20, "rate": 0.0})
        for part in range(PARTS):
            chosen = everything[part::PARTS]
            began = time.perf_counter()
            list(clients.map(lambda text: client.predict([text]), chosen))
            rate = len(chosen) / (time.perf_counter() - began)
            rows.append({"texts": rows[-1]["texts"] + len(chosen), "mib": server.memory() / 2**20, "rate": rate})
            print(f"{rows[-1]['texts']:,} of {args.texts:,} texts", file=sys.stderr, flush=True)
    measure.heading(f"{TITLE} of {args.model}")
    print(table(rows))
    measure.save(TITLE, {"model": str(args.model), "seed": args.seed, "rows": rows}, args.output)


if __name__ == "__main__":
    main()

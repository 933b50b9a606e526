"""`python -m benchmarks.load`: a server under load; Markdown on stdout, JSON in --output.

Requests arrive at random at a given rate (a Poisson process), like those of many independent clients. Each request is
sent when it arrives, whether or not earlier ones were answered (an open loop). Latency is measured from the arrival
rather than the sending, so a server cannot hide waiting time by receiving fewer requests. Failed requests count as
infinitely late.

    python -m benchmarks.load --address 127.0.0.1:8501 --model encoder --rates 5 10 20
    python -m benchmarks.load --address 127.0.0.1:8500 --protocol grpc --model encoder --slo 200

The second command finds the highest rate with a 95th percentile below 200 ms. The server is another process, TF Serving
or `bert-tf serve`. Texts are those of `benchmarks.serving` (from its synthetic `vocab.txt`), texts of many lengths with
the same words (`--mixed`), or the lines of a file (`--texts`).
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.clients import CLIENTS, Client, RequestError, Target
from benchmarks.peers import requests

# Ratio of the failing to the passing rate at which the search ends.
_NEAR = 1.1
_HIGHEST_RATE = 1e5


@dataclass(frozen=True)
class Load:
    """The results of one rate.

    Args:
        rate: arrivals per second.
        requests: number of arrivals.
        achieved: responses per second, from the first arrival to the last response.
        p50: median of the milliseconds from arrival to response; infinite if too many requests failed.
        p95: 95th percentile of the same.
        p99: 99th percentile of the same.
        late_p99: 99th percentile of the milliseconds from arrival to sending, the delay of the generator itself.
        errors: number of failures by kind.
    """

    rate: float
    requests: int
    achieved: float
    p50: float
    p95: float
    p99: float
    late_p99: float
    errors: dict[str, int]


def arrivals(rate: float, seconds: float, seed: int) -> np.ndarray:
    """Returns the arrival times of a Poisson process in seconds, ascending.

    Given their number, the arrivals are distributed uniformly. The number is rate x seconds, at least one, so that
    even a short duration has the exact rate.

    Args:
        rate: arrivals per second.
        seconds: duration.
        seed: seed of the times.
    """
    count = max(1, round(rate * seconds))
    return np.sort(np.random.default_rng(seed).uniform(0.0, seconds, count))


async def offer(send: Callable[[int], Awaitable[None]], times: np.ndarray, timeout: float) -> tuple[list[Any], float]:
    """Sends a request at each time, regardless of the earlier ones.

    Args:
        send: sends the request of a number and returns after the response; raises RequestError.
        times: seconds from now, ascending.
        timeout: seconds after its arrival at which a request fails.

    Returns:
        For each request the seconds from arrival to sending, the seconds from arrival to response (infinite if it
        failed) and the kind of failure or None; and the seconds until the last request ended.
    """
    clock = time.perf_counter
    began = clock()

    async def one(number: int, arrival: float) -> tuple[float, float, str | None]:
        late = clock() - began - arrival
        try:
            async with asyncio.timeout(max(0.0, timeout - late)):
                await send(number)
        except RequestError as error:
            return late, math.inf, str(error)
        except TimeoutError:
            return late, math.inf, "timeout"
        return late, clock() - began - arrival, None

    tasks = []
    for number, arrival in enumerate(times.tolist()):
        await asyncio.sleep(arrival - (clock() - began))
        tasks.append(asyncio.create_task(one(number, arrival)))
    return list(await asyncio.gather(*tasks)), clock() - began


def summary(rate: float, outcomes: Sequence[tuple[float, float, str | None]], seconds: float) -> Load:
    """Returns the percentiles of the outcomes of `offer`."""
    late, latencies, kinds = zip(*outcomes, strict=True)
    # Failed requests are infinite, so interpolation between values is impossible.
    percentiles = 1e3 * np.quantile(latencies, [0.5, 0.95, 0.99], method="inverted_cdf")
    errors = collections.Counter(kind for kind in kinds if kind)
    answered = len(outcomes) - errors.total()
    late_p99 = 1e3 * float(np.quantile(late, 0.99, method="inverted_cdf"))
    return Load(rate, len(outcomes), answered / seconds, *map(float, percentiles), late_p99, dict(errors))


def highest_rate(trial: Callable[[float], Load], slo: float, start: float) -> Load | None:
    """Returns the load of the highest rate whose 95th percentile is at most `slo`; None if absent.

    The rate is doubled or halved until one rate passes and one fails, then bisected.

    Args:
        trial: measures a rate.
        slo: latency limit in milliseconds.
        start: first rate, requests per second.
    """
    best: Load | None = None
    low, high, rate = 0.0, math.inf, start
    while high > _NEAR * low and rate <= _HIGHEST_RATE:
        load = trial(rate)
        if load.p95 <= slo:
            low, best = rate, load
        else:
            high = rate
        if low == 0.0:
            rate = high / 2
            # A slower server is not worth measuring.
            if rate < start / 1024:
                return None
        else:
            rate = 2 * low if math.isinf(high) else math.sqrt(low * high)
    return best


class Generator:
    """Measures rates on one server, one after the other.

    Args:
        make: creates a client.
        texts: texts of the requests, used in turn.
        batch_size: texts per request.
        seconds: duration of the arrivals at each rate.
        warmup: sequential requests before each rate.
        timeout: time-out of a request in seconds.
        seed: seed of the arrivals.
    """

    def __init__(
        self,
        make: Callable[[], Client],
        texts: Sequence[str],
        *,
        batch_size: int = 1,
        seconds: float = 30.0,
        warmup: int = 20,
        timeout: float = 10.0,
        seed: int = 0,
    ) -> None:
        self._make, self._texts, self._batch_size = make, texts, batch_size
        self._seconds, self._warmup, self._timeout, self._seed = seconds, warmup, timeout, seed

    def __call__(self, rate: float) -> Load:
        """Measures one rate. Raises RequestError if the warm-up fails."""
        return asyncio.run(self._measured(rate))

    async def _measured(self, rate: float) -> Load:
        client = self._make()
        batches = requests.endless(self._texts, self._batch_size)
        times = arrivals(rate, self._seconds, self._seed)
        prepared = [next(batches) for _ in times]
        try:
            for number in range(self._warmup):
                await client.predict(prepared[number % len(prepared)])
            outcomes, seconds = await offer(lambda number: client.predict(prepared[number]), times, self._timeout)
        finally:
            await client.close()
        return summary(rate, outcomes, seconds)


def table(loads: Sequence[Load]) -> list[str]:
    """Returns the lines of a Markdown table."""
    lines = [
        "| requests/s | answered/s | p50 ms | p95 ms | p99 ms | failed | sent late, p99 ms |",
        "|---:|---:|---:|---:|---:|---|---:|",
    ]
    for load in loads:
        failed = ", ".join(f"{count} {kind}" for kind, count in sorted(load.errors.items())) or "none"
        lines.append(
            f"| {load.rate:.1f} | {load.achieved:.1f} | {load.p50:.0f} | {load.p95:.0f} | {load.p99:.0f} | {failed} | "
            f"{load.late_p99:.1f} |"
        )
    return lines


def fields(load: Load) -> dict[str, Any]:
    """Returns a load as JSON values; infinity becomes None."""
    return {
        name: None if isinstance(value, float) and math.isinf(value) else value for name, value in asdict(load).items()
    }


def run(args: argparse.Namespace) -> list[Load]:
    """Runs the selected measurements and returns all loads in the order of their rates."""
    host, _, port = args.address.rpartition(":")
    target = Target(host, int(port), args.model, args.signature, args.input_name)
    if args.texts:
        texts = args.texts.read_text(encoding="utf-8").splitlines()
    else:
        texts = requests.mixed_texts() if args.mixed else requests.texts(args.length)
    generator = Generator(
        lambda: CLIENTS[args.protocol](target), texts, batch_size=args.batch_size, seconds=args.seconds,
        warmup=args.warmup, timeout=args.timeout, seed=args.seed,
    )  # fmt: skip
    loads: list[Load] = []

    def trial(rate: float) -> Load:
        loads.append(generator(rate))
        return loads[-1]

    best = None
    if args.rates:
        for rate in args.rates:
            trial(rate)
    else:
        best = highest_rate(trial, args.slo, args.start)
    loads.sort(key=lambda load: load.rate)
    measure.heading(f"{args.name}: {args.protocol} at {args.address}, {args.batch_size} text(s) per request")
    print("\n".join(["", *table(loads)]), flush=True)
    if not args.rates:
        rate_text = f"{best.rate:.1f} requests/s" if best else "no rate"
        print(f"\nhighest rate with p95 at most {args.slo:.0f} ms: {rate_text}", flush=True)
    names = ("protocol", "model", "signature", "batch_size", "seconds", "warmup", "timeout", "seed", "slo")
    about = {"loads": [fields(load) for load in loads], "best": fields(best) if best else None}
    measure.save(f"Load {args.name}", {name: getattr(args, name) for name in names} | about, args.output)
    return loads


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the arguments. Raises SystemExit if they are out of range."""
    parser = measure.parser(__doc__)
    parser.add_argument("--address", required=True, metavar="HOST:PORT", help="address of REST or gRPC")
    parser.add_argument("--protocol", choices=CLIENTS, default="rest")
    parser.add_argument("--model", required=True, help="name of the model on the server")
    parser.add_argument("--name", default="server", help="name of the server in title and file; default: %(default)s")
    parser.add_argument("--signature", default="serving_default")
    parser.add_argument("--input_name", default="text", help="name of the input for texts; default: %(default)s")
    texts = parser.add_mutually_exclusive_group()
    texts.add_argument("--texts", type=Path, help="file with a text per line; default: texts of benchmarks.serving")
    texts.add_argument("--mixed", action="store_true", help="texts of 6 to 128 tokens, 30 on average")
    texts.add_argument("--length", type=int, default=requests.LENGTH, help="tokens per text; default: %(default)s")
    parser.add_argument("--batch_size", type=int, default=1, help="texts per request; default: %(default)s")
    parser.add_argument("--rates", type=float, nargs="+", help="requests per second; default: search")
    parser.add_argument("--slo", type=float, default=200.0, help="limit of p95 in milliseconds; default: %(default)s")
    parser.add_argument("--start", type=float, default=8.0, help="first rate of the search; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=30.0, help="duration of each rate; default: %(default)s")
    parser.add_argument("--warmup", type=int, default=20, help="requests before each rate; default: %(default)s")
    parser.add_argument("--timeout", type=float, default=10.0, help="time-out in seconds; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="seed of the arrivals; default: %(default)s")
    args = parser.parse_args(argv)
    host, _, port = args.address.rpartition(":")
    if not host or not port.isdigit():
        parser.error(f"--address must be HOST:PORT. Received: {args.address}")
    for name in ("start", "seconds", "timeout", "slo", "batch_size"):
        if getattr(args, name) <= 0:
            parser.error(f"--{name} must be positive. Received: {getattr(args, name)}")
    if any(rate <= 0 for rate in args.rates or ()):
        parser.error(f"--rates must be positive. Received: {args.rates}")
    return args


def main() -> None:
    """Runs the benchmark."""
    run(arguments())


if __name__ == "__main__":
    main()

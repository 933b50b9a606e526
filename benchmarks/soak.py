"""`python -m benchmarks.soak --model saved_models/NAME`: a server under valid and hostile requests at once.

Starts `bert-tf serve`, sends valid requests from several threads for --minutes, and sends --hostile hostile requests:
random and deep JSON, tensors of wrong shape or type, ids out of range, bytes that are not text, bodies that are too
large, hold millions of values or stop half-way, fuzzed protobufs and calls without a message. The server must not
crash, every valid response must equal the first one, every refusal must have TF Serving's format, and memory must not
grow. The exit status is 1 if any of these fails.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fuzz import HostileClient
from benchmarks.server_process import Server, serving
from bert_tf.client import ModelClient, PredictError, connect
from bert_tf.entry.progress import Progress
from bert_tf.export.versions import latest_version

# Memory is compared after this share of the time, because arenas and thread stacks grow at first.
_SETTLED = 0.3
_COPY = "model"
# Valid texts have up to this number of words; the model truncates longer ones than it takes.
_MAX_TOKENS = 128


@dataclass
class Tally:
    """The outcome of a run.

    Args:
        answered: number of correct responses to valid requests.
        wrong: failures of valid requests.
        outcomes: hostile requests by kind and response.
        bad_form: hostile requests whose refusal does not have TF Serving's format.
        memory: seconds since the start, and bytes of the server while it holds one version.
        peak: most bytes of the server, during loads of further versions too.
    """

    answered: int = 0
    wrong: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    bad_form: list[str] = field(default_factory=list)
    memory: list[tuple[float, int]] = field(default_factory=list)
    peak: int = 0

    def growth(self) -> float:
        """Returns the growth of memory after the settling time as a share of its mean, by linear regression."""
        settled = self.memory[int(_SETTLED * len(self.memory)) :]
        if len(settled) < 3:
            return 0.0
        seconds, size = np.array(settled).T
        slope = np.polyfit(seconds, size, 1)[0]
        return float(slope * (seconds[-1] - seconds[0]) / size.mean())


def run(model: Path, hostile: int, seconds: float, seed: int, workers: int = 1, clients: int = 2) -> Tally:
    """Runs valid and hostile requests, and returns the outcome.

    Args:
        model: `saved_models/NAME` of a model that takes one text.
        hostile: number of hostile requests, spread over the duration.
        seconds: minimum duration; remaining hostile requests are sent after it.
        seed: seed of the hostile requests.
        workers: number of worker processes of the server.
        clients: number of threads that send valid requests.
    """
    tally, stop = Tally(), threading.Event()
    with tempfile.TemporaryDirectory() as scratch, serving(_copied(model, scratch), f"--workers={workers}") as server:
        url = f"http://127.0.0.1:{server.rest}/v1/models/{_COPY}"
        threads = [threading.Thread(target=_good, args=(url, tally, stop)) for _ in range(clients)]
        threads.append(threading.Thread(target=_watch, args=(server, url, tally, stop)))
        for thread in threads:
            thread.start()
        began = time.monotonic()
        client = HostileClient("127.0.0.1", server.rest, server.grpc, _COPY, seed, Path(scratch, _COPY))
        progress = Progress("hostile requests", hostile)
        for number in range(hostile):
            kind, outcome, right = client.send()
            tally.outcomes[f"{kind}: {outcome}"] += 1
            if not right:
                tally.bad_form.append(f"{kind}: {outcome}")
            due = seconds * (number + 1) / hostile
            progress.add(1)
            stop.wait(max(0.0, due - (time.monotonic() - began)))
        stop.set()
        for thread in threads:
            thread.join()
        if server.process.poll() is not None:
            tally.wrong.append(f"the server ended with status {server.process.returncode}")
    return tally


def _copied(model: Path, scratch: str) -> Path:
    """Returns a model directory whose version 1 is the latest version of `model`."""
    shutil.copytree(latest_version(model), Path(scratch, _COPY, "1"))
    return Path(scratch, _COPY)


def _good(url: str, tally: Tally, stop: threading.Event) -> None:
    client = connect(url, retries=0)
    # TensorFlow keeps prepared products for each shape, up to 1,024 per thread. With texts of all lengths these caches
    # are full after the settling time; with a few lengths they would grow for hours.
    texts = ["the cat " * (length // 2) + "sat" * (length % 2) for length in range(_MAX_TOKENS)]
    expected = [client.predict([text]) for text in texts]
    number = 0
    while not stop.is_set():
        number += 1
        try:
            response = client.predict([texts[number % len(texts)]])
        except Exception as error:
            tally.wrong.append(f"{type(error).__name__}: {error}")
            continue
        tally.answered += 1
        if not _same(response, expected[number % len(texts)]):
            tally.wrong.append(f"{response}, not {expected[number % len(texts)]}")


def _same(received: Any, expected: Any) -> bool:
    """Compares responses with a tolerance, since a batch may sum the values of a row in another order."""
    if isinstance(expected, dict):
        return received.keys() == expected.keys() and all(_same(received[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(received) == len(expected) and all(map(_same, received, expected))
    return bool(np.isclose(received, expected, atol=1e-5)) if isinstance(expected, float) else received == expected


def _watch(server: Server, url: str, tally: Tally, stop: threading.Event) -> None:
    """Records the memory each second. A load needs memory for a second version, so that time is not compared."""
    client = connect(url, retries=0)
    began = time.monotonic()
    while not stop.wait(1.0):
        before = _holds_one_version(client)
        size = server.memory()
        tally.peak = max(tally.peak, size)
        if before and _holds_one_version(client):
            tally.memory.append((time.monotonic() - began, size))


def _holds_one_version(client: ModelClient) -> bool:
    try:
        states = [version["state"] for version in client.status()]
    except (PredictError, ConnectionError):
        # The server may close any connection while hostile ones fill it.
        return False
    return states.count("AVAILABLE") == 1 and not {"LOADING", "UNLOADING"} & set(states)


def main() -> int:
    """Runs the test, reports the outcome, and returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="saved_models/NAME of a model that takes one text")
    parser.add_argument("--hostile", type=int, default=10000, help="number of hostile requests; default: %(default)s")
    parser.add_argument("--minutes", type=float, default=10, help="minimum duration in minutes; default: %(default)s")
    parser.add_argument("--workers", type=int, default=1, help="worker processes of the server; default: %(default)s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="JSON file of all metrics")
    args = parser.parse_args()
    if args.output is not None and args.output.is_dir():
        parser.error(f"--output must be a file, not a folder. Received: {args.output}")
    tally = run(args.model, args.hostile, 60 * args.minutes, args.seed, args.workers)
    growth = tally.growth()
    metrics = {
        "good_answers": tally.answered,
        "wrong": len(tally.wrong),
        "hostile": sum(tally.outcomes.values()),
        "bad_form": len(tally.bad_form),
        "memory_mib": [round(size / 2**20) for _, size in tally.memory[:: max(1, len(tally.memory) // 10)]],
        "memory_samples": len(tally.memory),
        "memory_peak_mib": round(tally.peak / 2**20),
        "memory_growth_percent": round(100 * growth, 2),
        "outcomes": dict(sorted(tally.outcomes.items())),
    }
    for line in (tally.wrong + tally.bad_form)[:20]:
        print(line, file=sys.stderr)
    text = json.dumps(metrics, indent=1)
    print(text)
    if args.output:
        args.output.write_text(text, encoding="utf-8")
    return 1 if not tally.answered or not tally.memory or tally.wrong or tally.bad_form or growth > 0.05 else 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m benchmarks.input_pipeline`: examples that one host's input pipeline gives, beside those that devices need.

    python -m benchmarks.input_pipeline --data DATA_128 DATA_512 DATA_128_STATIC DATA_512_STATIC

Each row reads the training split of a data directory with one pipeline: TensorFlow's (tf.data), or numpy's, which JAX
uses without TensorFlow. The processes may use `--cores` cores. The unit is examples per second of processor time, over
all threads, because it does not depend on other work on the machine. The JSON holds the seconds too.

The last columns are computed: the cores that feed a device that trains `--size` in bfloat16 at `--mfu` of its peak
(`benchmarks.devices`). They count the operations of the rows that the pipeline gave: packed rows hold more examples.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.devices import DEVICES
from benchmarks.input_reader import Reading
from bert_tf.config.training import PADDINGS
from bert_tf.data.manifest import read_manifest

# Name of the machine: name of the device, and number of devices.
MACHINES = {"H200": ("H200", 1), "H100": ("H100", 1), "v5e-8": ("TPU v5e", 8), "8 A100": ("A100 80 GB", 8)}
PIPELINES = ("tensorflow", "numpy")


def machine_flops(name: str) -> float:
    """Returns the peak operations per second of a machine in bfloat16."""
    device_name, count = MACHINES[name]
    return count * next(device.flops["bfloat16"] for device in DEVICES if device.name == device_name)


def needs(result: Mapping[str, Any], mfu: float) -> dict[str, dict[str, float]]:
    """Returns the examples per second that each machine trains, and the cores that give them."""
    flops = result["flops"] / result["read"]
    rate = result["read"] / result["processor_seconds"]
    examples = {name: machine_flops(name) * mfu / flops for name in MACHINES}
    return {name: {"examples_per_second": count, "cores": count / rate} for name, count in examples.items()}


def measured(reading: Reading) -> dict[str, Any]:
    """Returns the results of a row from a new process; raises RuntimeError if it fails."""
    command = [sys.executable, "-m", "benchmarks.input_reader", json.dumps(asdict(reading))]
    environment = os.environ | {"KERAS_BACKEND": "tensorflow" if reading.pipeline == "tensorflow" else "jax"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"the row {reading} failed: {done.stderr[-1000:]}")
    config = read_manifest(Path(reading.data)).config
    facts = {"length": config.max_seq_length, "masking": config.masking, "mask_unit": config.mask_unit}
    return json.loads(done.stdout.splitlines()[-1]) | facts


def table(results: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the lines of the table: rates per processor second, and the cores that feed each machine."""
    machines = " | ".join(f"cores for {name}" for name in MACHINES)
    yield f"| length | masking | padding | pipeline | cores | examples/CPU s | tokens/CPU s | {machines} |"
    yield "|---" * (7 + len(MACHINES)) + "|"
    for row in results:
        seconds = row["processor_seconds"]
        cores = " | ".join(f"{row['needs'][name]['cores']:.2f}" for name in MACHINES)
        yield (
            f"| {row['length']} | {row['masking']} | {row['padding']} | {row['pipeline']} | {row['cores']} "
            f"| {row['read'] / seconds:,.0f} | {row['tokens'] / seconds:,.0f} | {cores} |"
        )


def _parser() -> argparse.ArgumentParser:
    parser = measure.parser(__doc__)
    parser.add_argument("--data", nargs="+", type=Path, required=True, help="data directories")
    parser.add_argument("--pipelines", nargs="+", choices=PIPELINES, default=PIPELINES, help="default: both")
    parser.add_argument("--padding", nargs="+", choices=PADDINGS, default=PADDINGS, help="default: all")
    parser.add_argument("--cores", nargs="+", type=int, default=[1, 2], help="cores of a process; default: 1 2")
    parser.add_argument("--batch", type=int, default=256, help="examples of a batch; default: %(default)s")
    parser.add_argument("--examples", type=int, default=65_536, help="examples of a row; default: %(default)s")
    parser.add_argument("--size", default="base", help="model that the devices train; default: %(default)s")
    parser.add_argument("--mfu", type=float, default=0.4, help="share of the peak; default: %(default)s")
    return parser


def main() -> None:
    """Measures all rows, and prints the table."""
    parser = _parser()
    args = parser.parse_args()
    if min(args.batch, args.examples, *args.cores) < 1 or not 0 < args.mfu <= 1:
        parser.error("--batch, --examples and --cores must be 1 at least, and --mfu in (0, 1]")
    results = []
    for data, padding, pipeline, cores in itertools.product(args.data, args.padding, args.pipelines, args.cores):
        reading = Reading(str(data.absolute()), pipeline, padding, cores, args.batch, args.examples, args.size)
        result = measured(reading)
        results.append(result | {"needs": needs(result, args.mfu)})
    measure.heading(f"Input pipeline, cores for {args.size} in bfloat16 at {args.mfu:.0%} of the peak")
    print("\n".join(table(results)), flush=True)
    measure.save("Input pipeline", {"mfu": args.mfu, "results": results}, args.output)


if __name__ == "__main__":
    main()

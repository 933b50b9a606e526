"""`python -m benchmarks.accelerator`: pre-training steps on the device that JAX or TensorFlow finds; table and JSON.

    KERAS_BACKEND=jax python -m benchmarks.accelerator
    KERAS_BACKEND=jax python -m benchmarks.accelerator --sizes base --lengths 128 --precisions bfloat16 --batch 256
    KERAS_BACKEND=jax python -m benchmarks.accelerator --compile_only

A row is a step of the training backend with AdamW and clipped gradients, on random tokens. Its time is the median of
`--repetitions` after a warm-up. Each row runs in a process of its own: a row that does not fit into memory is reported,
and the next one runs. On JAX only jax, keras, numpy and this repository are needed, and no network.

    tokens/s    useful tokens: positions without padding; examples have 20 % to 100 % of the length, 60 % on average
    MFU         operations of the matrix products (padding included, rematerialization not), as a share of the peak
    GB          peak memory of the device, or of the process if the device does not report it
    FLOP/byte   operations by bytes that the step moves at least (`devices.step_bytes`)
    bound       the rate that bounds the step, and the milliseconds that it takes at that rate

`--compile_only` compiles the steps without data and weights, at the batch sizes 32 to 512, and reports XLA's estimates
for the platform of this machine. On a CPU they differ from an accelerator's: XLA drops the barriers of
rematerialization there, and has no fused attention. `kept` does not depend on XLA: the values that the forward pass
keeps for the backward pass.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.step_row import Row

_COMPILED_BATCHES = (32, 64, 128, 256, 512)
# Messages of JAX, TensorFlow and CUDA, in lower case.
_OUT_OF_MEMORY = ("resource_exhausted", "resource exhausted", "out of memory", "oom when allocating")
_ON_OFF = {"off": False, "on": True}


def rows_of(args: argparse.Namespace) -> list[Row]:
    """Returns the selected rows."""
    batches = args.batch or (_COMPILED_BATCHES if args.compile_only else (64,))
    choices = itertools.product(
        args.sizes, args.lengths, batches, args.precisions, args.attention, args.rematerialize, args.padding,
        args.normalization, args.pad_vocabulary,
    )  # fmt: skip
    return [
        Row(
            size, length, batch, precision, attention, _ON_OFF[again], padding, normalization, pads,
            args.repetitions, args.steps,
        )
        for size, length, batch, precision, attention, again, padding, normalization, pads in choices
    ]  # fmt: skip


def measured(row: Row, timeout: float) -> dict[str, Any]:
    """Returns the results of a row from a new process, or its settings and the reason of its failure as `error`."""
    command = [sys.executable, "-m", "benchmarks.step_row", json.dumps(asdict(row))]
    failed = asdict(row) | {"name": row.name}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        return failed | {"error": f"took more than {timeout:.0f} s"}
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    return failed | {"error": failure(done.returncode, done.stderr)}


def failure(status: int, stderr: str) -> str:
    """Returns the reason of a failed process: `out of memory`, or the last line of its messages."""
    # A process that the system kills for its memory ends with SIGKILL.
    if status == -9 or any(message in stderr.lower() for message in _OUT_OF_MEMORY):
        return "out of memory"
    lines = stderr.strip().splitlines()
    return lines[-1] if lines else f"exit status {status}"


def step_table(results: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the lines of the table of measured rows."""
    yield "| step | ms | sequences/s | tokens/s | MFU | GB | FLOP/byte | bound |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in results:
        if "error" in row:
            yield f"| {row['name']} | {row['error']} | | | | | | |"
            continue
        yield (
            f"| {row['name']} | {row['seconds'] * 1e3:,.1f} | {row['sequences_per_second']:,.1f} "
            f"| {row['tokens_per_second']:,.0f} | {row['mfu']:.1%} | {row['peak_bytes'] / 1e9:.2f} "
            f"| {row['intensity']:,.0f} | {row['bound']}, {row['roofline_seconds'] * 1e3:,.1f} ms |"
        )


def device_lines(results: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns a line for each precision with the peak, the bandwidth and the ridge point of the device."""
    lines = {
        f"{row['device']}, {row['precision']}: {row['peak_flops'] / 1e12:,.2f} TFLOP/s, "
        f"{row['bandwidth'] / 1e9:,.0f} GB/s, ridge point {row['ridge']:,.0f} FLOP/byte ({row['peak_source']}); "
        f"memory of the {row['peak_of']}"
        for row in results
        if "error" not in row
    }
    return sorted(lines)


def compiled_table(results: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the lines of the table of compiled rows."""
    yield "| step | state GB | temporary GB | sum GB | kept GB | TFLOP | GB moved |"
    yield "|---|---|---|---|---|---|---|"
    for row in results:
        if "error" in row:
            yield f"| {row['name']} | {row['error']} | | | | | |"
            continue
        state, temporary = row["state_bytes"] / 1e9, row["temporary_bytes"] / 1e9
        yield (
            f"| {row['name']} | {state:.2f} | {temporary:.2f} | {state + temporary:.2f} "
            f"| {row['kept_bytes'] / 1e9:.2f} | {row['xla_flops'] / 1e12:.2f} | {row['xla_bytes'] / 1e9:.1f} |"
        )


def _compiled(row: Row) -> dict[str, Any]:
    from benchmarks.step_row import compile_row

    try:
        return compile_row(row)
    except (RuntimeError, MemoryError) as error:
        return asdict(row) | {"name": row.name, "error": failure(1, str(error))}


def _all(rows: Sequence[Row], result_of: Callable[[Row], dict[str, Any]], path: Path) -> list[dict[str, Any]]:
    """Returns the results of all rows; each is appended to `path` at once, so that a stopped benchmark keeps them."""
    results = []
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as lines:
        for number, row in enumerate(rows, start=1):
            print(f"{number}/{len(rows)} {row.name}", file=sys.stderr, flush=True)
            results.append(result_of(row))
            lines.write(json.dumps(results[-1]) + "\n")
            lines.flush()
    return results


def _parser() -> argparse.ArgumentParser:
    parser = measure.parser(__doc__)
    parser.add_argument("--sizes", nargs="+", default=["base", "large"], help="model sizes; default: base large")
    parser.add_argument("--lengths", nargs="+", type=int, default=[128, 512], help="positions; default: 128 512")
    parser.add_argument("--batch", nargs="+", type=int, help="examples of a step; default: 64; compiled: 32 to 512")
    for name, choices in (
        ("precisions", ["float32", "bfloat16"]),
        ("attention", ["plain", "fused"]),
        ("rematerialize", list(_ON_OFF)),
        ("padding", ["full", "pack"]),
    ):
        parser.add_argument(f"--{name}", nargs="+", choices=choices, default=choices, help="default: all")
    for name, choices in (("normalization", ["float32", "compute"]), ("pad_vocabulary", ["auto", "true", "false"])):
        chosen = choices[:1]
        parser.add_argument(f"--{name}", nargs="+", choices=choices, default=chosen, help=f"default: {chosen[0]}")
    parser.add_argument("--repetitions", type=int, default=5, help="timed repetitions; default: %(default)s")
    parser.add_argument("--steps", type=int, default=3, help="steps of a repetition; default: %(default)s")
    parser.add_argument("--timeout", type=float, default=900, help="seconds of a row; default: %(default)s")
    parser.add_argument("--compile_only", action="store_true", help="compile steps instead of running them; JAX only")
    return parser


def main() -> int:
    """Measures or compiles the selected rows; returns 1 if a row failed for another reason than memory."""
    parser = _parser()
    args = parser.parse_args()
    if min(args.repetitions, args.steps, *args.lengths, *(args.batch or [1])) < 1:
        parser.error("--repetitions, --steps, --lengths and --batch must be 1 at least")
    if args.compile_only and os.environ.get("KERAS_BACKEND") != "jax":
        parser.error("--compile_only needs JAX. Set KERAS_BACKEND=jax")
    title = "Compiled step" if args.compile_only else "Accelerator step"
    lines_path = args.output / f"{title.lower().replace(' ', '_')}.jsonl"
    if args.compile_only:
        results = _all(rows_of(args), _compiled, lines_path)
        platforms = {row["platform"] for row in results if "platform" in row}
        measure.heading(f"{title}, XLA on {', '.join(sorted(platforms))}")
        table = compiled_table(results)
    else:
        results = _all(rows_of(args), lambda row: measured(row, args.timeout), lines_path)
        measure.heading(f"{title} (medians of {args.repetitions}), {os.environ.get('KERAS_BACKEND', 'tensorflow')}")
        print("\n".join(device_lines(results)))
        table = step_table(results)
    print("\n".join(table), flush=True)
    measure.save(title, {"results": results}, args.output)
    return int(any(row.get("error", "out of memory") != "out of memory" for row in results))


if __name__ == "__main__":
    sys.exit(main())

"""`python -m benchmarks.time_to_quality --data DATA`: seconds of pre-training until a held-out perplexity, with peers.

bert_tf's recipe, Hugging Face's `BertForPreTraining` and keras-hub's backbone with its head train models of one size on
one data directory, with as many steps of as many examples. The peers take AdamW, linear warm-up and decay, and clipped
gradients; each is run with the default learning rate of its library and dropout of 0.1, and with four others without
dropout. They train on the same batches, which are written before; bert_tf reads and masks its data itself.

All contenders run in turn, a few steps at a time, each in a process of its own. Evaluations, start and the first step
are not timed. The target is the perplexity at which the best of the peers' runs ends. `benchmarks.train_step` has the
environment of --torch_python.

    python -m benchmarks.time_to_quality --data data64 --torch_python PEER/bin/python --steps 3000
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import interleave, measure
from benchmarks.curves import chart
from benchmarks.peers import quality
from bert_tf.config import save_json, to_dict
from bert_tf.config.files import write_file
from bert_tf.data.input import pretraining_data
from bert_tf.data.manifest import read_manifest
from bert_tf.data.schema import MLM_LOGITS, NSP_LOGITS
from bert_tf.pretraining.recipes import recipe

# Default rates: of transformers' `TrainingArguments`, and of Keras's `AdamW`.
DEFAULT_RATES = {"huggingface": 5e-5, "keras_hub": 1e-3}
RATES = (2.5e-4, 5e-4, 1e-3, 2e-3)
OURS = "bert_tf"
Points = list[tuple[float, float]]


def write_batches(data: Path, folder: Path, size: int, steps: int, held_out: int, seed: int) -> None:
    """Writes training and held-out batches of a data directory as arrays (N, B, …)."""
    for name, split, count in ((quality.TRAIN_NAME, "train", steps), (quality.HELD_OUT_NAME, "validation", held_out)):
        training = split == "train"
        batches = pretraining_data(data, split, batch_size=size, seed=seed if training else 0, training=training,
                                   epochs=None if training else 1)  # fmt: skip
        arrays: dict[str, list[np.ndarray]] = {}
        for inputs, targets, weights in itertools.islice(batches, count):
            named = dict(inputs) | {
                "mask_ids": targets[MLM_LOGITS],
                "next_sentence_labels": targets[NSP_LOGITS],
                "mask_weights": weights[MLM_LOGITS],
            }
            for key, value in named.items():
                arrays.setdefault(key, []).append(np.asarray(value))
        # The last held-out batch may be smaller.
        whole = [number for number, value in enumerate(arrays["mask_ids"]) if len(value) == size]
        np.savez(folder / name, **{key: np.stack([values[n] for n in whole]) for key, values in arrays.items()})


def contenders(args, work: Path) -> list[interleave.Contender]:
    """Returns bert_tf and all runs of the peers."""
    run = recipe(args.recipe)
    flags = ["--data", str(args.data.absolute()), "--recipe", args.recipe, "--output", str((work / "ours").absolute()),
             "--steps", str(args.steps), "--set", f"training.evaluate_steps={args.held_out}",
             "training.evaluate_every=0", "training.log_every=1000000", "training.checkpoint_every=1000000",
             "training.show_examples=0", *args.overrides]  # fmt: skip
    program = [sys.executable, "-m", "benchmarks.peers.quality_ours", f"--threads={args.threads}"]
    found = [interleave.Contender(OURS, [*program, *flags], OURS)]
    pythons = {"huggingface": args.torch_python, "keras_hub": Path(sys.executable)}
    for peer in args.peers:
        runs = [(DEFAULT_RATES[peer], 0.1), *((rate, run.model.dropout) for rate in args.rates)]
        for rate, dropout in runs:
            line = interleave.command(
                pythons[peer].absolute(), f"quality_{peer}", args, batches=work.absolute(), rate=rate, dropout=dropout
            )
            name = f"{peer} {rate:g}{', dropout 0.1' if dropout else ''}"
            found.append(interleave.Contender(name, line, OURS))
    return found


def curves(runs: Sequence[interleave.Contender], steps: int, every: int, work: Path) -> dict[str, Points]:
    """Runs all contenders in turn; returns seconds and perplexities after every few steps, by name."""
    points: dict[str, Points] = {run.name: [] for run in runs}
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(interleave.Process(run, work / f"contender-{number}.log"))
            for number, run in enumerate(runs)
        ]
        for done in range(every, steps + 1, every):
            for run, process in zip(runs, processes, strict=True):
                before = points[run.name][-1][0] if points[run.name] else 0.0
                # The first step was taken at the start.
                part = process.go(0, every - (done == every))
                points[run.name].append((before + part.seconds, part.loss or math.nan))
            best = min(points, key=lambda name: points[name][-1][1])
            print(f"step {done} of {steps}: {best} {points[best][-1][1]:.1f}", file=sys.stderr, flush=True)
            save_json(points, work / "points.json")
    return points


def seconds_to(points: Points, target: float) -> float:
    """Returns the seconds at which a curve reaches a perplexity, linear between two points; infinity if it does not."""
    before = (0.0, math.inf)
    for seconds, value in points:
        if value <= target:
            if not math.isfinite(before[1]) or value == before[1]:
                return seconds
            return before[0] + (seconds - before[0]) * (before[1] - target) / (before[1] - value)
        before = seconds, value
    return math.inf


def table(points: dict[str, Points]) -> list[str]:
    """Returns the lines of the table: seconds to the target, which is the best end of a peer, and all ends."""
    ends = {name: values[-1][1] for name, values in points.items()}
    best = min((name for name in points if name != OURS), key=ends.__getitem__)
    ours = seconds_to(points[OURS], ends[best])
    lines = [
        f"Target: perplexity {ends[best]:.1f}, the end of {best}.\n",
        "| run | perplexity at the end | seconds in all | seconds to the target | times bert_tf |",
        "|---|---|---|---|---|",
    ]
    for name, values in points.items():
        seconds = seconds_to(values, ends[best])
        reached = [f"{seconds:,.0f}", f"{seconds / ours:.1f}"] if math.isfinite(seconds) else ["not reached", ""]
        lines.append(f"| {name} | {ends[name]:.1f} | {values[-1][0]:,.0f} | {' | '.join(reached)} |")
    return lines


def main() -> None:
    """Writes the batches, runs the contenders and prints the table."""
    parser = measure.parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="data directory of pairs with one length")
    parser.add_argument("--recipe", default="laptop", help="recipe of bert_tf; default: laptop")
    parser.add_argument("--set", dest="overrides", nargs="*", default=[], metavar="SECTION.FIELD=VALUE")
    parser.add_argument("--steps", type=int, default=3000, help="steps of each run; default: 3000")
    parser.add_argument("--every", type=int, default=100, help="steps between two evaluations; default: 100")
    parser.add_argument("--held_out", type=int, default=20, help="held-out batches; default: 20")
    parser.add_argument("--rates", type=float, nargs="*", default=RATES, help="rates of the peers besides the default")
    parser.add_argument("--peers", nargs="*", choices=DEFAULT_RATES, default=tuple(DEFAULT_RATES))
    parser.add_argument("--torch_python", type=Path, help="Python with torch and transformers")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.steps % args.every:
        parser.error(f"--steps must be a multiple of --every. Received: {args.steps} and {args.every}")
    if "huggingface" in args.peers and args.torch_python is None:
        parser.error("--torch_python is required, or --peers keras_hub")
    work = args.output / "time_to_quality"
    work.mkdir(parents=True)
    run = recipe(args.recipe)
    model = to_dict(run.model) | {"vocabulary_size": read_manifest(args.data).vocabulary_size}
    (work / quality.MODEL_NAME).write_text(json.dumps(model), encoding="utf-8")
    write_batches(args.data, work, run.training.largest_batch, args.steps, args.held_out, run.training.seed)
    points = curves(contenders(args, work), args.steps, args.every, work)
    measure.heading(f"Time to quality, {args.steps:,} steps, {args.threads} threads, recipe {args.recipe}")
    print("\n".join(table(points)))
    ends = {name: values[-1][1] for name, values in points.items()}
    best = [min((name for name in points if name.startswith(peer)), key=ends.__getitem__) for peer in args.peers]
    drawn = chart({name: points[name] for name in (OURS, *best)}, "second")
    write_file(work / "time_to_quality.svg", drawn._repr_svg_().encode())
    print(f"\nChart: {work / 'time_to_quality.svg'}")


if __name__ == "__main__":
    main()

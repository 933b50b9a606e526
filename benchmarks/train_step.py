"""`python -m benchmarks.train_step`: pre-training steps compared with peers; tables on stdout, JSON in --output.

    step      milliseconds per step: 32 sequences of 128 tokens, 20 predictions, AdamW, clipped gradients, on the CPU
    padding   non-padding tokens per second in each mode of `training.padding`
    input     examples per second of the input pipeline, compared with training

`--part step` measures bert_tf and the available peers: keras-hub (in bert_tf's environment), the original, and Hugging
Face's PyTorch model. The original is a checkout of its public repository, google-research/bert. PyTorch needs an
environment of its own; a CPU build suffices:

    python3.11 -m venv PEER
    PEER/bin/pip install torch==2.15.0 transformers==5.23.0
    python -m benchmarks.train_step --torch_python PEER/bin/python --original CHECKOUT

All contenders of one size and precision are in memory together, some gigabytes each; `--peers` selects them. Without
its instructions (`avx512_bf16`, `amx_bf16`), bfloat16 is slower than float32, in PyTorch by orders of magnitude.

`--part padding` and `--part input` read data directories (`--data`); `input` needs dynamic records:

    python -m benchmarks.train_step --part padding --data DATA_512 --settle 24
    python -m benchmarks.train_step --part input --data DATA_128 DATA_512
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import interleave, measure
from benchmarks.peers.batches import LENGTH, PREDICTIONS, SEQUENCES, VOCABULARY_SIZE
from bert_tf.config.training import PADDINGS
from bert_tf.data.manifest import read_manifest

OURS = "bert_tf"
PEERS = ("keras_hub", "keras_hub_xla", "original", "huggingface", "huggingface_stock")
MASK_UNITS = ("piece", "whole_word", "span")
# Loss of a model with uniform predictions of the word piece and the label.
FIRST_LOSS, _TOLERANCE = math.log(VOCABULARY_SIZE) + math.log(2), 0.5


def step_contenders(size: str, precision: str, args: argparse.Namespace, work: Path) -> list[interleave.Contender]:
    """Returns bert_tf and the selected peers that support this precision."""
    flags = {"size": size, "precision": precision}
    commands = {OURS: interleave.command(sys.executable, "ours", args, output=work / "ours", **flags)}
    for peer in args.peers:
        if peer.startswith("huggingface"):
            stock = {"stock": True} if peer.endswith("stock") else {}
            commands[peer] = interleave.command(args.torch_python.absolute(), "huggingface", args, **flags, **stock)
        elif peer.startswith("keras_hub"):
            xla = {"xla": True} if peer.endswith("xla") else {}
            commands[peer] = interleave.command(sys.executable, "keras_hub", args, **flags, **xla)
        elif precision == "float32":
            checkout = args.original.absolute()
            commands[peer] = interleave.command(sys.executable, "original", args, checkout=checkout, **flags)
    return [interleave.Contender(f"{name} {precision}", line, f"{OURS} {precision}") for name, line in commands.items()]


def check_same(rows: Sequence[dict[str, Any]]) -> None:
    """Raises ValueError if contenders have different numbers of parameters or an implausible first loss."""
    counts = {row["name"]: row["parameters"] for row in rows}
    if len(set(counts.values())) > 1:
        raise ValueError(f"all contenders must have the same number of parameters. Received: {counts}")
    losses = {row["name"]: row["loss"] for row in rows}
    if not all(abs(loss - FIRST_LOSS) < _TOLERANCE for loss in losses.values()):
        raise ValueError(f"the first loss must be near {FIRST_LOSS:.2f}. Received: {losses}")


def step_part(args: argparse.Namespace, work: Path) -> None:
    """Measures milliseconds per step, with all contenders of one size and precision together."""
    results = []
    for size, precision in itertools.product(args.sizes, args.precisions):
        folder = work / f"{size}-{precision}"
        folder.mkdir()
        rows = interleave.measure_all(step_contenders(size, precision, args, folder), args, folder)
        interleave.heading(f"Training step, {size}, {SEQUENCES} x {LENGTH} tokens, {PREDICTIONS} predictions", args)
        for line in step_table(rows):
            print(line, flush=True)
        check_same(rows)
        results.append({"size": size, "precision": precision, "results": rows})
    measure.save("Training step", interleave.settings(args) | {"results": results}, args.output)


def step_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Returns the lines of the table of milliseconds."""
    columns = ("times ours", 12), ("first loss", 12), ("GB", 6), ("parameters", 13)
    titles = "".join(f"{title:>{width}}" for title, width in columns)
    lines = [f"  {'':<26}{'ms/step':>10}{'min - max':>18}{titles}"]
    for row in rows:
        low, high = row["milliseconds_range"]
        memory = f"{row['peak_bytes'] / 1e9:.1f}"
        lines.append(
            f"  {row['name']:<26}{row['milliseconds']:>10.1f}{f'{low:.1f} - {high:.1f}':>18}"
            f"{row['times_milliseconds']:>12.2f}{row['loss']:>12.3f}{memory:>6}{row['parameters']:>13,}"
        )
    return lines


def padding_part(args: argparse.Namespace, work: Path) -> None:
    """Measures the non-padding tokens per second in each mode, on the first data directory."""
    data, results = args.data[0].absolute(), []
    for size in args.sizes:
        folder = work / size
        folder.mkdir()
        contenders = []
        for precision in args.precisions:
            for mode in args.paddings:
                line = interleave.command(
                    sys.executable, "ours", args, size=size, precision=precision, data=data,
                    output=folder / f"{mode}-{precision}",
                )  # fmt: skip
                # `full` is the default.
                overrides = [] if mode == "full" else ["--set", f"training.padding={mode}"]
                contenders.append(
                    interleave.Contender(f"{mode} {precision}", [*line, *overrides], f"{args.paddings[0]} {precision}")
                )
        rows = interleave.measure_all(contenders, args, folder)
        length = read_manifest(data).config.max_seq_length
        interleave.heading(f"Padding, {size}, at most {length} tokens", args)
        for line in interleave.rate_table(rows, "tokens/s"):
            print(line, flush=True)
        results.append({"size": size, "max_seq_length": length, "results": rows})
    measure.save("Padding", interleave.settings(args) | {"results": results}, args.output)


def input_part(args: argparse.Namespace, work: Path) -> None:
    """Measures the examples per second of the input pipeline, and of training with the first of `--sizes`."""
    results = []
    for number, data in enumerate(path.absolute() for path in args.data):
        folder = work / str(number)
        folder.mkdir()
        training = f"training {args.sizes[0]}"
        line = interleave.command(
            sys.executable, "ours", args, size=args.sizes[0], data=data, count="examples", output=folder / "training"
        )
        contenders = [interleave.Contender(training, line, training)]
        for unit in MASK_UNITS:
            line = interleave.command(sys.executable, "dataset", args, data=data, mask_unit=unit, output=folder / unit)
            contenders.append(interleave.Contender(f"input, by {unit}", line, training))
        rows = interleave.measure_all(contenders, args, folder)
        length = read_manifest(data).config.max_seq_length
        interleave.heading(f"Input pipeline, {length} tokens", args)
        for line in interleave.rate_table(rows, "examples/s"):
            print(line, flush=True)
        results.append({"max_seq_length": length, "results": rows})
    measure.save("Input pipeline", interleave.settings(args) | {"results": results}, args.output)


PARTS = {"step": step_part, "padding": padding_part, "input": input_part}
_SIZES = {"step": ["L4_H256", "L2_H768"], "padding": ["L4_H256"], "input": ["tiny"]}


def _parser() -> argparse.ArgumentParser:
    parser = measure.parser(__doc__)
    parser.add_argument("--part", choices=PARTS, default="step")
    parser.add_argument("--sizes", nargs="+", help="model sizes; default: " + str(_SIZES))
    parser.add_argument("--precisions", nargs="+", choices=("float32", "bfloat16"), default=["float32"])
    parser.add_argument("--peers", nargs="*", choices=PEERS, help="step: peers; default: all available without XLA")
    parser.add_argument("--torch_python", type=Path, help="step: Python interpreter of PyTorch's environment")
    parser.add_argument("--original", type=Path, help="step: checkout of google-research/bert")
    parser.add_argument("--data", type=Path, nargs="+", help="padding, input: data directories")
    parser.add_argument(
        "--paddings", nargs="+", default=list(PADDINGS), help="padding: modes, compared with the first; default: all"
    )
    interleave.add_arguments(parser, seconds=7, settle=3)
    return parser


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the arguments with defaults filled in. Raises SystemExit if they are inconsistent."""
    parser = _parser()
    args = parser.parse_args(argv)
    args.sizes = args.sizes or _SIZES[args.part]
    needed = {"original": args.original, "huggingface": args.torch_python, "huggingface_stock": args.torch_python}
    if args.peers is None:
        args.peers = [peer for peer in PEERS if needed.get(peer, True) and not peer.endswith("xla")]
    for peer in args.peers:
        if not needed.get(peer, True):
            parser.error(f"--peers {peer}: needs {'--original' if peer == 'original' else '--torch_python'}.")
    if args.part != "step" and not args.data:
        parser.error(f"--part {args.part}: needs --data.")
    interleave.check_arguments(parser, args)
    return args


def main() -> None:
    """Runs the selected part."""
    args = arguments()
    with tempfile.TemporaryDirectory(prefix="bert_tf_bench_") as work:
        PARTS[args.part](args, Path(work))


if __name__ == "__main__":
    main()

"""`python -m benchmarks.serving`: latency of an exported encoder and its peers; Markdown on stdout, JSON in --output.

A request is one or eight raw texts of 128 tokens; the response is their vectors as arrays. Everything is measured in
the process that holds the model, on the CPU. bert_tf's side is `serving_default` of a SavedModel in each precision of
`bert-tf export --precision`; in bfloat16 also with `bert-tf serve --packed_weights`. The peers are Hugging Face's
encoder in PyTorch, in float32 and bfloat16, and the same encoder in onnxruntime, exported through PyTorch; both use
Hugging Face's fast tokenizer. Weights are random, with the shapes of `--size` (default: base). The vocabulary is
synthetic and has the published size. Peers need an environment of their own; those that are missing are skipped with a
message:

    python3.11 -m venv PEER
    PEER/bin/pip install torch==2.15.0 transformers==5.23.0 onnxruntime==1.32.0 onnx==1.23.2 onnxscript==0.7.2
    python -m benchmarks.serving --torch_python PEER/bin/python

`benchmarks.load` measures a server under load.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import interleave, measure
from benchmarks.peers import batches, requests
from bert_tf.config.model import SIZES

PRECISIONS = ("float32", "bfloat16", "int8")
# Name -> module of the contender, the modules that it requires, its flags.
PEERS: dict[str, tuple[str, str, dict[str, str]]] = {
    "onnxruntime float32": ("onnx_encoder", "onnxruntime, onnx, onnxscript, torch, transformers", {}),
    "huggingface float32": ("huggingface_encoder", "torch, transformers", {"precision": "float32"}),
    "huggingface bfloat16": ("huggingface_encoder", "torch, transformers", {"precision": "bfloat16"}),
}


class LeftOutError(Exception):
    """A contender that cannot be measured on this machine; the message is the reason."""


def export(preset: Path, precision: str, work: Path) -> Path:
    """Exports a preset in a precision and returns the version's folder. Raises LeftOutError if the export fails."""
    output = work / precision
    command = [sys.executable, "-m", "bert_tf", "export", f"--preset={preset}", f"--output={output}"]
    # The default precision is float32.
    command += [] if precision == "float32" else [f"--precision={precision}"]
    _run(command)
    return output / "1"


def export_onnx(python: Path, size: str, work: Path) -> Path:
    """Exports the peer's encoder and returns the file. Raises LeftOutError if the export fails."""
    output = work / "encoder.onnx"
    _run([str(python), "-m", "benchmarks.peers.onnx_export", f"--size={size}", f"--output={output}"])
    return output


def _run(command: Sequence[str]) -> None:
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    process = subprocess.run(command, cwd=interleave.ROOT, env=environment, capture_output=True, text=True, check=False)
    if process.returncode:
        last = (process.stderr.strip().splitlines() or ["no message"])[-1]
        raise LeftOutError(f"`{' '.join(command[1:4])}` ended with {process.returncode}: {last}")


def make_preset(size: str, work: Path) -> Path:
    """Writes an encoder of a size with random weights, and returns its folder."""
    from bert_tf.models import BertBackbone, save_preset
    from bert_tf.text.vocabulary import Vocabulary

    words = Vocabulary(tuple(requests.vocabulary()))
    encoder = BertBackbone(batches.config_of(size))
    rng = np.random.default_rng(0)
    for weight in encoder.weights:
        # Scales of 1 and offsets of 0 would let the graph be simplified, unlike that of a trained model.
        if weight.path.endswith(("gamma", "beta")):
            weight.assign(weight + rng.normal(0, 0.02, weight.shape))
    save_preset(encoder, work / "preset", words, True)
    return work / "preset"


def sides(args: argparse.Namespace, work: Path) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Returns the command lines of all sides by name, without batch size, and the reasons for the sides left out."""
    commands: dict[str, list[str]] = {}
    left_out: dict[str, str] = {}
    preset = make_preset(args.size, work)
    for precision in args.precisions:
        name = f"bert_tf {precision}"
        try:
            model = export(preset, precision, work)
            commands[name] = interleave.command(sys.executable, "ours_serving", args, requests=work, model=model)
            if precision == "bfloat16":
                commands[f"{name}, packed weights"] = [*commands[name], "--packed_weights"]
        except LeftOutError as reason:
            left_out[name] = str(reason)
    for name in args.peers:
        try:
            commands[name] = _peer(name, args, work)
        except LeftOutError as reason:
            left_out[name] = str(reason)
    return commands, left_out


def _peer(name: str, args: argparse.Namespace, work: Path) -> list[str]:
    if args.torch_python is None:
        raise LeftOutError("no --torch_python")
    module, needed, flags = PEERS[name]
    # The path without links resolved: the target of the link is an interpreter outside the environment.
    python = args.torch_python.absolute()
    _run([str(python), "-c", f"import {needed}"])
    if module == "onnx_encoder":
        flags = {"model": str(export_onnx(python, args.size, work))}
    else:
        flags = flags | {"size": args.size}
    return interleave.command(python, module, args, requests=work, **flags)


def check_alike(rows: Sequence[dict[str, Any]], length: int) -> None:
    """Raises ValueError if outputs differ between the sides, or texts have another number of tokens."""
    outputs = {row["name"]: row["outputs"] for row in rows}
    if len({repr(sorted(shapes.items())) for shapes in outputs.values()}) > 1:
        raise ValueError(f"all sides must return the same outputs. Received: {outputs}")
    tokens = {row["name"]: row["tokens"] for row in rows if "tokens" in row}
    if any(count != length for count in tokens.values()):
        raise ValueError(f"all texts must have {length} tokens. Received: {tokens}")


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Returns the lines of a Markdown table."""
    lines = ["| side | rows | ms/request | min - max | relative to first | GB |", "|---|---:|---:|---:|---:|---:|"]
    for row in rows:
        low, high = row["milliseconds_range"]
        times = "" if row["times_milliseconds"] is None else f"{row['times_milliseconds']:.2f}"
        lines.append(
            f"| {row['name']} | {row['batch_size']} | {row['milliseconds']:.1f} | {low:.1f} - {high:.1f} | {times} | "
            f"{row['peak_bytes'] / 1e9:.1f} |"
        )
    return lines


def run(args: argparse.Namespace, work: Path) -> None:
    """Measures all sides at every batch size."""
    requests.write(work, args.length)
    commands, left_out = sides(args, work)
    for name, reason in left_out.items():
        print(f"skipped: {name}: {reason}", flush=True)
    if not commands:
        raise SystemExit("no side can be measured.")
    results: list[dict[str, Any]] = []
    for batch_size in args.batch_sizes:
        contenders = [
            interleave.Contender(name, [*command, f"--batch_size={batch_size}"], next(iter(commands)))
            for name, command in commands.items()
        ]
        folder = work / f"batch-{batch_size}"
        folder.mkdir()
        rows = [row | {"batch_size": batch_size} for row in interleave.measure_all(contenders, args, folder)]
        check_alike(rows, args.length)
        results += rows
    interleave.heading(f"Raw texts of {args.length} tokens, {args.size}", args)
    print("\n".join(["", *table(results)]), flush=True)
    about = {"size": args.size, "length": args.length, "left_out": left_out, "results": results}
    measure.save("Serving latency", interleave.settings(args) | about, args.output)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the arguments. Raises SystemExit if they are out of range."""
    parser = measure.parser(__doc__)
    parser.add_argument("--size", choices=SIZES, default="base", help="size of the encoder; default: %(default)s")
    parser.add_argument("--length", type=int, default=batches.LENGTH, help="tokens per text; default: %(default)s")
    parser.add_argument("--batch_sizes", type=int, nargs="+", default=[1, 8], help="texts per request; default: 1 8")
    parser.add_argument(
        "--precisions",
        nargs="+",
        choices=PRECISIONS,
        default=list(PRECISIONS),
        help="precisions of bert_tf; default: all",
    )
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--torch_python", type=Path, help="Python interpreter of the peers' environment")
    interleave.add_arguments(parser, seconds=7, settle=20)
    args = parser.parse_args(argv)
    if not 8 <= args.length <= batches.POSITIONS:
        parser.error(f"--length must be in 8..{batches.POSITIONS}. Received: {args.length}")
    interleave.check_arguments(parser, args)
    return args


def main() -> None:
    """Runs the benchmark."""
    args = arguments()
    with tempfile.TemporaryDirectory(prefix="bert_tf_bench_") as work:
        run(args, Path(work))


if __name__ == "__main__":
    main()

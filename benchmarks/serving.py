"""`python -m benchmarks.serving`: latency of an exported encoder beside peers; Markdown on stdout, JSON in --output.

A request is raw texts of 128 tokens each, one or eight of them; its answer are their vectors, as arrays. All is
measured in the process that holds the model, on the CPU. Ours is `serving_default` of a SavedModel, in each precision
that `bert-tf export --precision` writes; in bfloat16 also as `bert-tf serve --packed_weights` has it. Peers are Hugging
Face's encoder in PyTorch, in float32 and bfloat16, and the same encoder in onnxruntime, exported through PyTorch; both
with Hugging Face's fast tokenizer. Weights are random, shapes those of `--size`, base by default; the vocabulary is
made up, of the published size. Peers live in an environment of their own, made once; what is not there is left out, and
said so:

    python3.11 -m venv PEER
    PEER/bin/pip install torch==2.15.0 transformers==5.23.0 onnxruntime==1.32.0 onnx==1.23.2 onnxscript==0.7.2
    python -m benchmarks.serving --torch_python PEER/bin/python

What a server makes of it under load is `benchmarks.load`'s.
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

from benchmarks import interleave as rounds
from benchmarks import measure, train_step
from benchmarks.peers import batches, requests
from bert_tf.config.model import SIZES

PRECISIONS = ("float32", "bfloat16", "int8")
# Name -> the module of a contender, the modules that it cannot do without, its flags.
PEERS: dict[str, tuple[str, str, dict[str, str]]] = {
    "onnxruntime float32": ("onnx_encoder", "onnxruntime, onnx, onnxscript, torch, transformers", {}),
    "huggingface float32": ("huggingface_encoder", "torch, transformers", {"precision": "float32"}),
    "huggingface bfloat16": ("huggingface_encoder", "torch, transformers", {"precision": "bfloat16"}),
}


class LeftOutError(Exception):
    """A side that cannot be measured here; the message says why."""


def export(preset: Path, precision: str, work: Path) -> Path:
    """Exports a preset in a precision. Returns the folder of the version. Raises LeftOutError where it is refused."""
    output = work / precision
    command = [sys.executable, "-m", "bert_tf", "export", f"--preset={preset}", f"--output={output}"]
    # float32 is what exports are without being asked.
    command += [] if precision == "float32" else [f"--precision={precision}"]
    _run(command)
    return output / "1"


def export_onnx(python: Path, size: str, work: Path) -> Path:
    """Exports the peer's encoder. Returns the file. Raises LeftOutError where that fails."""
    output = work / "encoder.onnx"
    _run([str(python), "-m", "benchmarks.peers.onnx_export", f"--size={size}", f"--output={output}"])
    return output


def _run(command: Sequence[str]) -> None:
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, cwd=rounds.ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise LeftOutError(f"`{' '.join(command[1:4])}` ended with {done.returncode}: {last}")


def make_preset(size: str, work: Path) -> Path:
    """Writes an encoder of a size, its weights random. Returns its folder."""
    from bert_tf.models import BertBackbone, save_preset
    from bert_tf.text.vocabulary import Vocabulary

    words = Vocabulary(tuple(requests.vocabulary()))
    encoder = BertBackbone(batches.config_of(size))
    rng = np.random.default_rng(0)
    for weight in encoder.weights:
        # A graph whose normalizations have scales of 1 and offsets of 0 is simplified, as no trained model's is.
        if weight.path.endswith(("gamma", "beta")):
            weight.assign(weight + rng.normal(0, 0.02, weight.shape))
    save_preset(encoder, work / "preset", words, True)
    return work / "preset"


def sides(args: argparse.Namespace, work: Path) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Returns the command lines of all sides by name, without batch size, and why each other one is left out."""
    found: dict[str, list[str]] = {}
    left_out: dict[str, str] = {}
    preset = make_preset(args.size, work)
    for precision in args.precisions:
        name = f"bert_tf {precision}"
        try:
            model = export(preset, precision, work)
            found[name] = train_step.command(sys.executable, "ours_serving", args, requests=work, model=model)
            if precision == "bfloat16":
                found[f"{name}, packed weights"] = [*found[name], "--packed_weights"]
        except LeftOutError as reason:
            left_out[name] = str(reason)
    for name in args.peers:
        try:
            found[name] = _peer(name, args, work)
        except LeftOutError as reason:
            left_out[name] = str(reason)
    return found, left_out


def _peer(name: str, args: argparse.Namespace, work: Path) -> list[str]:
    if args.torch_python is None:
        raise LeftOutError("no --torch_python")
    module, needed, flags = PEERS[name]
    # The path as it stands: what a virtual environment's interpreter links to knows nothing of the environment.
    python = args.torch_python.absolute()
    _run([str(python), "-c", f"import {needed}"])
    if module == "onnx_encoder":
        flags = {"model": str(export_onnx(python, args.size, work))}
    else:
        flags = flags | {"size": args.size}
    return train_step.command(python, module, args, requests=work, **flags)


def check_alike(rows: Sequence[dict[str, Any]], length: int) -> None:
    """Raises ValueError where sides answered something else, or read texts as another number of tokens."""
    outputs = {row["name"]: row["outputs"] for row in rows}
    if len({repr(sorted(shapes.items())) for shapes in outputs.values()}) > 1:
        raise ValueError(f"all sides must give the same outputs. Received: {outputs}")
    tokens = {row["name"]: row["tokens"] for row in rows if "tokens" in row}
    if any(count != length for count in tokens.values()):
        raise ValueError(f"all texts must be of {length} tokens. Received: {tokens}")


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Returns the lines of a table in Markdown."""
    lines = ["| side | rows | ms a request | least to most | times ours | GB |", "|---|---:|---:|---:|---:|---:|"]
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
    found, left_out = sides(args, work)
    for name, reason in left_out.items():
        print(f"left out: {name}: {reason}", flush=True)
    if not found:
        raise SystemExit("nothing is left to measure.")
    results: list[dict[str, Any]] = []
    for batch_size in args.batch_sizes:
        contenders = [
            rounds.Contender(name, [*command, f"--batch_size={batch_size}"], next(iter(found)))
            for name, command in found.items()
        ]
        folder = work / f"batch-{batch_size}"
        folder.mkdir()
        measured = rounds.interleaved(contenders, args.rounds, args.seconds, args.settle, args.warmup, folder)
        rows = [row | {"batch_size": batch_size} for row in rounds.summary(measured)]
        check_alike(rows, args.length)
        results += rows
    measure.heading(
        f"Raw texts of {args.length} tokens, {args.size} (medians of {args.rounds} rounds, {args.threads} threads, "
        f"{' '.join(train_step.instructions())})"
    )
    print("\n".join(["", *table(results)]), flush=True)
    names = ("size", "length", "rounds", "seconds", "settle", "warmup", "threads")
    settings = {name: getattr(args, name) for name in names} | {"instructions": train_step.instructions()}
    about = {"allocator": rounds.ALLOCATOR, "left_out": left_out, "results": results}
    measure.save("Serving latency", settings | about, args.output)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the arguments. Raises SystemExit where they are out of range."""
    parser = argparse.ArgumentParser(
        description=__doc__, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="base", help="of the encoder")
    parser.add_argument("--length", type=int, default=batches.LENGTH, help="tokens of every text")
    parser.add_argument("--batch_sizes", type=int, nargs="+", default=[1, 8], help="texts of a request")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS), help="of ours")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--torch_python", type=Path, help="interpreter of the peers' environment")
    parser.add_argument("--rounds", type=int, default=measure.REPETITIONS, help="of every side")
    parser.add_argument("--seconds", type=float, default=7, help="that the timed requests of a round take")
    parser.add_argument("--settle", type=int, default=20, help="untimed requests before the first round")
    parser.add_argument("--warmup", type=int, default=1, help="untimed requests at the beginning of a round")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: one a core")
    parser.add_argument("--output", type=Path, default=Path("runs/benchmarks"), help="where the JSON goes")
    args = parser.parse_args(argv)
    if not 8 <= args.length <= batches.POSITIONS:
        parser.error(f"--length must lie in 8..{batches.POSITIONS}. Received: {args.length}")
    for name in ("rounds", "threads"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} must be at least 1. Received: {getattr(args, name)}")
    return args


def main() -> None:
    """Measures."""
    args = arguments()
    with tempfile.TemporaryDirectory(prefix="bert_tf_bench_") as work:
        run(args, Path(work))


if __name__ == "__main__":
    main()

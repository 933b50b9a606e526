"""`bert-tf predict`: answers for every line of a file."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import add_preset, existing

_SECONDS_BETWEEN_LINES = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_preset(parser)
    parser.add_argument("--input", type=Path, required=True, help="a text a line; for pairs, two and a tab between")
    parser.add_argument("--output", type=Path, required=True, help="JSON lines, one for every line of the input")
    parser.add_argument("--batch_size", type=int, default=64, help="lines a batch")
    parser.add_argument("--top_k", type=int, default=5, help="fill-mask: candidates for each [MASK]")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Answers every line; returns the summary."""
    existing(args.preset, "--preset")
    existing(args.input, "--input")
    if args.batch_size < 1:
        raise ValueError(f"`--batch_size` must be at least 1. Received: {args.batch_size}")
    from bert_tf.export.inference import Predictor

    predictor = Predictor(args.preset, top_k=args.top_k)
    staging = args.output.with_name(f".{args.output.name}.tmp")
    started = shown = time.monotonic()
    lines = 0
    try:
        with args.input.open(encoding="utf-8", newline="\n") as source, staging.open("w", encoding="utf-8") as target:
            while batch := list(itertools.islice(source, args.batch_size)):
                rows = _columns(batch, predictor.num_texts, args.input, lines)
                for row, answer in zip(zip(*rows, strict=True), predictor(*rows), strict=True):
                    named = dict(zip(("text", "text_pair"), row, strict=False))
                    target.write(json.dumps(named | answer, ensure_ascii=False) + "\n")
                lines += len(batch)
                if time.monotonic() - shown > _SECONDS_BETWEEN_LINES:
                    shown = time.monotonic()
                    print(f"{lines} lines, {lines / (shown - started):.0f} a second", file=sys.stderr)
        staging.replace(args.output)
    except UnicodeDecodeError as error:
        raise ValueError(f"{args.input}: not UTF-8: {error}") from error
    finally:
        staging.unlink(missing_ok=True)
    return {"output": str(args.output), "lines": lines}


def _columns(batch: list[str], count: int, path: Path, before: int) -> list[list[str]]:
    rows = [line.rstrip("\r\n").split("\t", count - 1) for line in batch]
    for number, row in enumerate(rows, start=before + 1):
        if len(row) != count:
            raise ValueError(f"{path}: line {number}: expected {count} texts with a tab between. Received: {len(row)}")
    return [list(column) for column in zip(*rows, strict=True)]

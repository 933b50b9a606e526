"""`bert-tf evaluate`: evaluates a pre-trained preset on held-out data."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import add_preset, add_verify
from bert_tf.config import existing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_preset(parser)
    parser.add_argument(
        "--data", type=Path, required=True, help="output directory of `bert-tf data`, with one length or several"
    )
    parser.add_argument("--batch_size", type=int, default=32, help="sequences per batch; default: 32")
    add_verify(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Evaluates the preset; returns the summary."""
    existing(args.preset, "--preset")
    existing(args.data, "--data")
    from bert_tf.data.verification import verified_data
    from bert_tf.pretraining.run import run_evaluation

    with verified_data(args.data, args.verify):
        return {"output": str(args.preset), **run_evaluation(args.preset, args.data, args.batch_size)}

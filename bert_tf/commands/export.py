"""`bert-tf export`: a preset becomes the next version of a SavedModel."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import add_preset


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_preset(parser)
    parser.add_argument("--output", type=Path, required=True, help="saved_models/NAME; the version goes below it")
    parser.add_argument("--version", type=int, help="default: the next free one")
    parser.add_argument("--max_seq_length", type=int, help="default: the preset's")
    parser.add_argument("--top_k", type=int, default=5, help="fill-mask: candidates for each [MASK]")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Exports, verifies in a fresh process, and returns the summary."""
    from bert_tf.export.saved_model import export_preset

    version = export_preset(
        args.preset,
        args.output,
        version=args.version,
        max_sequence_length=args.max_seq_length,
        top_k=args.top_k,
    )
    return {"output": str(version), "version": int(version.name)}

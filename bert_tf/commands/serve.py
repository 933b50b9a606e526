"""`bert-tf serve`: TF Serving's REST predict on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import existing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--model", type=Path, required=True, help="saved_models/NAME")
    parser.add_argument("--host", default="127.0.0.1", help="default: this machine only")
    parser.add_argument("--port", type=int, default=8501, help="TF Serving's REST port by default")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Serves until stopped; returns the summary."""
    from bert_tf.export.server import serve

    serve(existing(args.model, "--model"), host=args.host, port=args.port)
    return {"output": str(args.model)}

"""`bert-tf submission`: packs predictions for GLUE's test sets into the zip file of its leaderboard."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bert_tf.config import existing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "--predictions",
        type=Path,
        required=True,
        help="directory with CoLA.tsv SST-2.tsv MRPC.tsv STS-B.tsv QQP.tsv MNLI-m.tsv MNLI-mm.tsv QNLI.tsv RTE.tsv "
        "WNLI.tsv AX.tsv, written by `predict`",
    )
    parser.add_argument("--output", type=Path, required=True, help="output zip file")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Checks and packs the predictions; returns the summary."""
    existing(args.predictions, "--predictions")
    from bert_tf.tasks.glue.submission import bundle

    return {"output": str(args.output), "rows": bundle(args.predictions, args.output)}

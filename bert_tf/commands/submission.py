"""`bert-tf submission`: packs predictions for GLUE's test sets into the zip file of its leaderboard."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bert_tf.commands.inputs import check_path


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


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    check_path(args.predictions, "--predictions")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Checks and packs the predictions; returns the summary."""
    from bert_tf.tasks.glue.submission import bundle

    return {"output": str(args.output), "rows": bundle(args.predictions, args.output)}

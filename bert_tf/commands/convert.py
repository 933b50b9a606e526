"""`bert-tf convert`: a checkpoint from one form to another, compared before it is called done."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import existing

# Those of `conversion.forms.FORMS`, which takes seconds to import.
FORMS = ("preset", "keras_hub", "huggingface", "model_garden", "google_tf1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    forms = ", ".join(FORMS)
    parser.add_argument("--source", nargs=2, required=True, metavar=("FORM", "PATH"), help=f"FORM is one of {forms}")
    parser.add_argument("--target", nargs=2, required=True, metavar=("FORM", "PATH"), help="a new directory")
    parser.add_argument("--vocabulary", type=Path, help="vocab.txt, where the source has none")
    parser.add_argument("--lowercase", choices=("true", "false"), help="casing of text, where the source does not tell")
    parser.add_argument(
        "--padded_vocabulary",
        action="store_true",
        help="rows of the token embedding beyond the vocabulary are padding",
    )
    parser.add_argument(
        "--dtype", choices=("float32", "bfloat16", "float16"), help="of the target; the source's if not"
    )
    parser.add_argument("--text_columns", type=int, choices=(1, 2), default=1, help="texts that a classifier takes")
    parser.add_argument(
        "--shard_bytes", type=int, default=5_000_000_000, help="largest file of weights of the target, bytes"
    )
    parser.add_argument(
        "--peer",
        nargs=2,
        action="append",
        default=[],
        metavar=("FORM", "PYTHON"),
        help="the interpreter in whose environment the program of FORM is installed",
    )
    parser.add_argument("--original", type=Path, help="a checkout of google-research/bert, to open google_tf1 with")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Converts; returns the summary."""
    existing(Path(args.source[1]).parent, "the folder of --source")
    from bert_tf.conversion import Options, convert
    from bert_tf.conversion.answers import Peers

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    conversion = convert(
        Path(args.source[1]),
        Path(args.target[1]),
        args.target[0],
        source_form=args.source[0],
        options=Options(
            lowercase=None if args.lowercase is None else args.lowercase == "true",
            vocabulary=args.vocabulary,
            padded_vocabulary=args.padded_vocabulary,
            dtype=args.dtype,
            text_columns=args.text_columns,
            shard_bytes=args.shard_bytes,
        ),
        peers=Peers({form: Path(python) for form, python in args.peer}, args.original),
    )
    parity = conversion.parity
    for name, difference in parity.differences.items():
        print(f"{name:<16} differs by at most {difference:.3g} (largest value {parity.largest[name]:.3g})")
    for head in parity.lost:
        print(f"{head}: has no place in {args.target[0]} and was left out")
    return {
        "output": args.target[1],
        "max_abs_difference": parity.max_abs_difference,
        "computed_by": list(parity.computed_by),
        "tensors": parity.tensors,
        "parameters": conversion.target.parameters(),
        "heads": conversion.target.heads.names(),
        "heads_lost": list(parity.lost),
    }

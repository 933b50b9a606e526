"""`bert-tf export`: exports a preset as a new version of a SavedModel."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import add_max_sequence_length, add_preset
from bert_tf.commands.inputs import check_length, check_path, check_preset, has_task
from bert_tf.config import ConfigError
from bert_tf.entry.progress import progress_shown
from bert_tf.export.versions import check_model_dir, version_folders

# The same as in `export.precision`, which takes seconds to import.
PRECISIONS = ("float32", "bfloat16", "int8")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_preset(parser)
    parser.add_argument(
        "--output", type=Path, required=True, help="output directory, saved_models/NAME; versions are subdirectories"
    )
    parser.add_argument("--version", type=int, help="version number; default: the next free one")
    add_max_sequence_length(parser, "the preset's")
    parser.add_argument("--top_k", type=int, default=5, help="fill-mask: candidates per [MASK]; default: 5")
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="float32, bfloat16 (half the size) or int8 (weights only, a quarter of the size); default: float32",
    )
    parser.add_argument(
        "--for_serving",
        metavar="RELEASE",
        help="release of TF Serving that must load the version, such as 2.18; default: any (the model card names all)",
    )
    parser.add_argument(
        "--evaluate",
        type=Path,
        metavar="FILE",
        help="development file of the preset's task, to compare metrics and latency of preset and export",
    )


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    check_preset(args.preset)
    check_length(args.max_sequence_length, args.preset)
    check_model_dir(args.output)
    if args.output.is_dir() and args.version in version_folders(args.output):
        raise ConfigError(f"--version {args.version} of {args.output} exists. Omit --version for the next free one.")
    if args.evaluate is not None:
        check_path(args.evaluate, "--evaluate")
        if not has_task(args.preset):
            raise ConfigError(
                f"--evaluate needs a preset of a task. Received: {args.preset}, which has no task.json. Run "
                f"`bert-tf finetune TASK --preset {args.preset}` first, then export its output."
            )


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Exports the preset and verifies the export in a new process; returns the summary."""
    evaluate = None
    if args.evaluate is not None:
        from bert_tf.commands.export_evaluation import ExportEvaluation

        evaluate = ExportEvaluation(args.preset, args.evaluate, args.max_sequence_length)
    from bert_tf.export.metadata import MODEL_CARD
    from bert_tf.export.saved_model import export_preset

    with progress_shown("bert_tf.export"):
        version = export_preset(
            args.preset,
            args.output,
            version=args.version,
            max_sequence_length=args.max_sequence_length,
            top_k=args.top_k,
            precision=args.precision,
            evaluate=evaluate,
            for_serving=args.for_serving,
        )
    card = json.loads((version / MODEL_CARD).read_text(encoding="utf-8"))
    summary = {"output": str(version), "version": int(version.name), "precision": args.precision}
    summary["tf_serving"] = card["tf_serving"]
    if evaluate is not None:
        summary["evaluation"] = card["evaluation"]
    return summary

"""`bert-tf evaluate`: evaluates a pre-trained preset on held-out data."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import add_preset, add_verify
from bert_tf.commands.inputs import check_batch_size, check_data, check_preset, check_same_vocabulary
from bert_tf.data.manifest import data_directories, read_manifest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_preset(parser)
    parser.add_argument(
        "--data", type=Path, required=True, help="output directory of `bert-tf data`, with one length or several"
    )
    parser.add_argument("--batch_size", type=int, default=32, help="sequences per batch; default: 32")
    add_verify(parser)


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    check_preset(args.preset)
    check_data(args.data)
    check_same_vocabulary(args.preset, args.data)
    check_batch_size(args.batch_size)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Evaluates the preset and prints a table of metrics and baselines to stdout; returns the summary."""
    from bert_tf.data.verification import verified_data
    from bert_tf.pretraining.run import run_evaluation

    with verified_data(args.data, args.verify):
        metrics = run_evaluation(args.preset, args.data, args.batch_size)
        folders = data_directories(args.data)
        for folder in folders:
            print(_table(args, folder, metrics if len(folders) == 1 else metrics[folder.name]), end="\n\n")
    return {"output": str(args.preset), **metrics}


def _table(args: argparse.Namespace, folder: Path, metrics: Mapping[str, Any]) -> str:
    """Returns the metrics of a data directory next to those of a constant guess, and published ones."""
    from bert_tf.models.preset_sources import open_preset
    from bert_tf.pretraining.course import held_out
    from bert_tf.training.evaluation.baselines import chance_figures, published_figures
    from bert_tf.training.losses import pretraining_objective

    manifest, split = read_manifest(folder), metrics["split"]
    model = open_preset(args.preset).header.config
    objective = pretraining_objective(model.objective, nsp_weight=float("nsp_loss" in metrics))
    chance = chance_figures(held_out(folder, split, args.batch_size, model.objective), objective)
    published, source = published_figures(model, manifest.config.mask_unit)
    width = max(16, *(len(name) + 2 for name in metrics))
    of_training = " (no examples are held out)" if split == "train" else ""
    lines = [
        f"{folder}: {manifest.examples(split):,} examples of the {split} split{of_training}, "
        f"up to {manifest.config.max_seq_length} tokens",
        f"{'metric':<{width}}{'preset':>12}{'constant guess':>16}{'published':>12}",
    ]
    for name, value in metrics.items():
        if name != "split":
            columns = (_number(name, row.get(name)) for row in (chance, published))
            lines.append(f"{name:<{width}}{_number(name, value):>12}{next(columns):>16}{next(columns):>12}")
    return "\n".join(lines + ([f"published, after full training: {source}"] if source else []))


def _number(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2%}" if name.endswith("accuracy") else f"{value:,.4g}"

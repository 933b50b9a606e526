"""`bert-tf average`: averages the weights of several presets."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import preset_name
from bert_tf.commands.inputs import check_preset
from bert_tf.config import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "--preset",
        type=preset_name,
        nargs="+",
        required=True,
        help="at least two presets of one architecture, for example checkpoints of a run: runs/mine@3000 "
        "runs/mine@4000",
    )
    parser.add_argument("--output", type=Path, required=True, help="output directory, a preset")


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    if len(args.preset) < 2:
        raise ConfigError(f"--preset needs at least two presets. Received: {args.preset[0]}")
    for preset in args.preset:
        check_preset(preset)
    output = args.output
    if output.is_file() or (output.is_dir() and any(output.iterdir()) and not (output / "config.json").is_file()):
        raise ConfigError(f"--output must be new, empty or a preset. Received: {output}. Choose another directory.")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Writes the preset with the averaged weights; returns the summary."""
    from bert_tf.models import average_presets, save_preset

    preset = average_presets(args.preset)
    save_preset(preset.model, args.output, preset.vocabulary, preset.lowercase, preset.task, preset.info)
    return {"output": str(args.output), "kind": preset.kind, "average_of": preset.info["average_of"]}

"""`bert-tf attention`: an HTML page with the attention weights of every head for a text."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import add_max_sequence_length, add_preset
from bert_tf.commands.inputs import check_length, check_preset


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_preset(parser)
    parser.add_argument("--text", required=True, help="input text")
    parser.add_argument("--text_pair", help="second text of a pair")
    parser.add_argument("--output", type=Path, required=True, help="output file, a self-contained HTML page")
    add_max_sequence_length(parser, "128, or the model's maximum if smaller")


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    check_preset(args.preset)
    check_length(args.max_sequence_length, args.preset)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Writes the page; returns the summary."""
    from bert_tf.reports.tasks.attention import attention_view, write_attention_page

    texts = [args.text] if args.text_pair is None else [args.text, args.text_pair]
    view = attention_view(args.preset, texts, args.max_sequence_length)
    write_attention_page(args.output, view, args.preset.resolve().name)
    if view.left_out:
        print(
            f"{view.left_out} tokens were truncated. Increase --max_sequence_length to include them.", file=sys.stderr
        )
    layers, heads, tokens, _ = view.weights.shape
    return {
        "output": str(args.output),
        "layers": layers,
        "heads": heads,
        "tokens": tokens,
        "bytes": args.output.stat().st_size,
    }

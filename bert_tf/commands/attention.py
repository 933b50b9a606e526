"""`bert-tf attention`: a page to look at the attention weights of every head for a text."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import add_preset, existing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_preset(parser)
    parser.add_argument("--text", required=True, help="what the model reads")
    parser.add_argument("--text_pair", help="a second text, which makes a pair")
    parser.add_argument("--output", type=Path, required=True, help="the HTML page; it needs no other file")
    parser.add_argument(
        "--max_seq_length", type=int, help="tokens at most; default: 128, or the model's most where that is less"
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Writes the page; returns the summary."""
    existing(args.preset, "--preset")
    from bert_tf.reports.tasks.attention import attention_view
    from bert_tf.reports.tasks.attention_page import write_attention_page

    texts = [args.text] if args.text_pair is None else [args.text, args.text_pair]
    view = attention_view(args.preset, texts, args.max_seq_length)
    write_attention_page(args.output, view, args.preset.resolve().name)
    if view.left_out:
        print(f"{view.left_out} tokens were cut: raise --max_seq_length to see them", file=sys.stderr)
    layers, heads, tokens, _ = view.weights.shape
    return {
        "output": str(args.output),
        "layers": layers,
        "heads": heads,
        "tokens": tokens,
        "bytes": args.output.stat().st_size,
    }

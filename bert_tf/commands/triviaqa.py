"""`bert-tf triviaqa`: converts the questions of TriviaQA to SQuAD's format."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bert_tf.commands.inputs import check_path
from bert_tf.tasks.triviaqa.convert import MAX_TOKENS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "--input", type=Path, required=True, help="file of questions, for example triviaqa-rc/qa/wikipedia-train.json"
    )
    parser.add_argument(
        "--evidence",
        type=Path,
        required=True,
        help="directory of the documents, with wikipedia and web, for example triviaqa-rc/evidence",
    )
    parser.add_argument("--output", type=Path, required=True, help="output file, JSON in SQuAD's format")
    parser.add_argument(
        "--max_tokens",
        type=int,
        default=MAX_TOKENS,
        help="number of words and punctuation characters from the beginning of a document; default: %(default)s",
    )


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    check_path(args.input, "--input")
    check_path(args.evidence, "--evidence")
    if args.max_tokens < 1:
        raise ValueError(f"`--max_tokens` must be at least 1. Received: {args.max_tokens}")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Converts the questions; skipped documents are listed next to the output. Returns the summary."""
    from bert_tf.tasks.input_errors import InputErrors
    from bert_tf.tasks.triviaqa.convert import convert_trivia

    input_errors = InputErrors(skip=True)
    counts = convert_trivia(args.input, args.evidence, args.output, args.max_tokens, input_errors)
    if len(input_errors):
        input_errors.write(args.output.with_name(f"{args.output.name}.skipped.tsv"))
    return {"output": str(args.output), **vars(counts)}

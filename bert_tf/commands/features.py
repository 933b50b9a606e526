"""`bert-tf features`: writes contextual embeddings of texts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_tf.commands.arguments import Parser, add_max_sequence_length, add_preset
from bert_tf.commands.inputs import check_length, check_path, check_preset
from bert_tf.config.errors import did_you_mean
from bert_tf.config.features import COMBINATIONS
from bert_tf.tasks.registry import command_line_tasks

if TYPE_CHECKING:
    from bert_tf.tasks.base import Task


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_preset(parser)
    parser.add_argument(
        "--input", type=Path, required=True, help="input file: one text per line, or the format of --task"
    )
    parser.add_argument(
        "--layers",
        nargs="+",
        required=True,
        metavar="NAME",
        help=f"embeddings, layer_1, layer_2 ...; or all layers of a combination: {', '.join(list(COMBINATIONS)[1:])}",
    )
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        help="output directory of NumPy arrays; an existing one is resumed or extended",
    )
    add_max_sequence_length(parser, "the model's")
    parser.add_argument("--skip_bad", action="store_true", help="skip invalid texts and list them in a file")
    parser.add_argument(
        "--task",
        nargs=argparse.REMAINDER,
        metavar="TASK [FLAG ...]",
        help=f"task of the input file with its flags, must be last: {', '.join(command_line_tasks())}",
    )


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    check_preset(args.preset)
    check_path(args.input, "--input")
    check_length(args.max_sequence_length, args.preset)
    if args.task is not None:
        _task_arguments(args.task)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Writes the features; returns the summary."""
    task = None if args.task is None else make_task(args.task)
    from bert_tf.training.malloc import tune_allocator

    tune_allocator()
    from bert_tf.tasks.features.embed import embed_file
    from bert_tf.tasks.input_errors import InputErrors

    input_errors = InputErrors(args.skip_bad)
    embedded = embed_file(
        args.preset,
        args.input,
        args.layers,
        args.output,
        task=task,
        max_sequence_length=args.max_sequence_length,
        input_errors=input_errors,
    )
    if len(input_errors):
        input_errors.write(args.output.with_name(f"{args.output.name}.skipped.tsv"))
    return {
        "output": str(args.output),
        "examples": embedded.examples,
        "rows": len(embedded.folder),
        "tokens": len(embedded.folder.token_ids),
        "features": embedded.folder.manifest.features,
        "skipped": len(input_errors),
    }


def make_task(arguments: list[str]) -> Task:
    """Returns the task of a command line.

    Args:
        arguments: name of the task, followed by its flags.

    Raises:
        ValueError: if the name is unknown.
    """
    parsed = _task_arguments(arguments)
    return command_line_tasks()[arguments[0]].make_task(parsed)


def _task_arguments(arguments: list[str]) -> argparse.Namespace:
    """Parses the flags of a task after its name. Raises ValueError for an unknown name."""
    name, *flags = arguments or [""]
    tasks = command_line_tasks()
    if name not in tasks:
        raise ValueError(f"`--task` must be one of {', '.join(tasks)}. Received: {name!r}{did_you_mean(name, tasks)}")
    parser = Parser(prog=f"bert-tf features ... --task {name}")
    tasks[name].add_arguments(parser)
    return parser.parse_args(flags)

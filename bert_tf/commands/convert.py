"""`bert-tf convert`: converts a checkpoint to another format and verifies the result."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_tf.commands.inputs import check_path
from bert_tf.commands.urls import text_or_url
from bert_tf.config import ConfigError, local_path
from bert_tf.config.errors import did_you_mean
from bert_tf.config.preset_names import preset_directory
from bert_tf.tasks.registry import TASKS, command_line_tasks, task_json_for_head

if TYPE_CHECKING:
    from bert_tf.config import BertConfig

# The same as in `conversion.formats.registry`, which takes seconds to import.
FORMS = ("preset", "keras_hub", "huggingface", "model_garden", "google_tf1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    forms = ", ".join(FORMS)
    parser.add_argument(
        "--source",
        type=text_or_url,
        nargs=2,
        required=True,
        metavar=("FORM", "PATH"),
        help=f"source format and path; formats: {forms}",
    )
    parser.add_argument(
        "--target",
        type=text_or_url,
        nargs=2,
        required=True,
        metavar=("FORM", "PATH"),
        help="target format and a new directory",
    )
    parser.add_argument("--vocabulary", type=Path, help="vocab.txt, if the source has none")
    parser.add_argument(
        "--lowercase", choices=("true", "false"), help="lowercasing of text, if the source does not specify it"
    )
    parser.add_argument(
        "--padded_vocabulary",
        action="store_true",
        help="rows of the token embedding beyond the vocabulary are padding; without the flag, a message names them",
    )
    parser.add_argument(
        "--dtype", choices=("float32", "bfloat16", "float16"), help="dtype of the target; default: the source's"
    )
    parser.add_argument(
        "--task", choices=tuple(command_line_tasks()), help="task of a fine-tuned source, for task.json"
    )
    parser.add_argument("--regression", action="store_true", help="with --task classify: one number as output")
    parser.add_argument(
        "--labels", nargs="+", default=[], help="with --task: class names, if the source has none of its own"
    )
    parser.add_argument(
        "--text_columns", nargs="+", default=["text"], help="names of a classifier's one or two texts; default: text"
    )
    parser.add_argument(
        "--shard_bytes",
        type=int,
        default=5_000_000_000,
        help="maximum size of a weight file in bytes; default: 5000000000",
    )
    parser.add_argument(
        "--peer",
        nargs=2,
        action="append",
        default=[],
        metavar=("FORM", "PYTHON"),
        help="Python interpreter of an environment with the program of FORM installed",
    )
    parser.add_argument("--original", type=Path, help="checkout of google-research/bert, to verify google_tf1")


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    for flag, form in (("--source", args.source[0]), ("--target", args.target[0])):
        if form not in FORMS:
            raise ConfigError(
                f"{flag}: the format must be one of {', '.join(FORMS)}. Received: {form!r}{did_you_mean(form, FORMS)}"
            )
    source, _ = preset_directory(args.source[1]), local_path(args.target[1])
    # A TensorFlow checkpoint is the common prefix of several files.
    if not any(source.parent.glob(f"{source.name}*")):
        check_path(source, "--source")
    if args.task and args.target[0] != "preset":
        raise ValueError(f"`--task` needs a target of the format preset. Received: {args.target[0]}")
    if args.labels and not args.task:
        raise ValueError(f"`--labels` needs `--task`. Received: {', '.join(args.labels)} without a task")
    if args.regression and args.task != "classify":
        raise ValueError(f"`--regression` needs `--task classify`. Received: {args.task or 'no task'}")
    if len(args.text_columns) > 2:
        raise ValueError(f"`--text_columns` takes one or two names. Received: {args.text_columns}")
    if args.vocabulary:
        check_path(args.vocabulary, "--vocabulary")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Converts the checkpoint; returns the summary."""
    from bert_tf.conversion import Options, convert
    from bert_tf.conversion.verify.outputs import Peers

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    conversion = convert(
        args.source[1],
        Path(args.target[1]),
        args.target[0],
        source_form=args.source[0],
        options=Options(
            lowercase=None if args.lowercase is None else args.lowercase == "true",
            vocabulary=args.vocabulary,
            padded_vocabulary=args.padded_vocabulary,
            dtype=args.dtype,
            text_columns=len(args.text_columns),
            describe=_describer(args) if args.task else None,
            shard_bytes=args.shard_bytes,
        ),
        peers=Peers(dict(args.peer), args.original),
    )
    parity = conversion.parity
    for name, difference in parity.differences.items():
        print(f"{name:<16} differs by at most {difference:.3g} (largest value {parity.largest[name]:.3g})")
    for head in parity.lost:
        print(f"{head}: not supported by {args.target[0]}, omitted")
    return {
        "output": str(args.target[1]),
        "max_abs_difference": parity.max_abs_difference,
        "computed_by": list(parity.computed_by),
        "tensors": parity.tensors,
        "parameters": conversion.target.parameters(),
        "heads": conversion.target.heads.names(),
        "heads_lost": list(parity.lost),
    }


def _describer(args: argparse.Namespace) -> Callable[[Mapping[str, Any], BertConfig], dict[str, Any]]:
    """Returns a function from the head of the source to the contents of task.json."""
    # Other arguments of the task have their defaults.
    parser = argparse.ArgumentParser()
    TASKS[args.task].add_arguments(parser)
    arguments = vars(parser.parse_args([])) | vars(args)
    task = TASKS[args.task].make_task(argparse.Namespace(**arguments))
    return lambda head, config: task_json_for_head(task, head, config, args.labels)

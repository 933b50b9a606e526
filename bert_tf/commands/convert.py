"""`bert-tf convert`: a checkpoint from one form to another, compared before it is called done."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_tf.commands.arguments import existing
from bert_tf.commands.tasks import TASKS, family
from bert_tf.config import local_path

if TYPE_CHECKING:
    from bert_tf.config import BertConfig

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
    parser.add_argument("--task", choices=tuple(TASKS), help="what the source was fine-tuned for, to predict its files")
    parser.add_argument("--regression", action="store_true", help="with --task classify: the output is a number")
    parser.add_argument(
        "--labels", nargs="+", default=[], help="with --task: names of the classes, where the source's are not its own"
    )
    parser.add_argument(
        "--text_columns", nargs="+", default=["text"], help="the one or two texts that a classifier takes, by name"
    )
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
    source, target = local_path(args.source[1]), local_path(args.target[1])
    existing(source.parent, "the folder of --source")
    if args.task and args.target[0] != "preset":
        raise ValueError(f"`--task` describes a preset. Received: a target of the form {args.target[0]}")
    if args.labels and not args.task:
        raise ValueError(f"`--labels` names the classes of a `--task`. Received: {', '.join(args.labels)} without one")
    if args.regression and args.task != "classify":
        raise ValueError(f"`--regression` goes with `--task classify`. Received: {args.task or 'no task'}")
    if len(args.text_columns) > 2:
        raise ValueError(f"`--text_columns` takes one or two names. Received: {args.text_columns}")
    from bert_tf.conversion import Options, convert
    from bert_tf.conversion.verify.outputs import Peers

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    conversion = convert(
        source,
        target,
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


def _describer(args: argparse.Namespace) -> Callable[[Mapping[str, Any], BertConfig], dict[str, Any]]:
    """Returns what makes task.json of the head of the source."""
    from bert_tf.tasks.finetune.imported import task_json_for_head

    # What else the task takes has its default.
    given = argparse.ArgumentParser()
    family(args.task).add_arguments(given)
    own = vars(given.parse_args([])) | vars(args)
    task = family(args.task).make_task(argparse.Namespace(**own))
    return lambda head, config: task_json_for_head(task, head, config, args.labels)

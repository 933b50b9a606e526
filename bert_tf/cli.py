"""Command line `bert-tf COMMAND`.

Progress goes to stderr, and the last line of stdout is a JSON summary. The exit status is 0 only if the command is
complete.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bert_tf.commands.arguments import Parser
from bert_tf.commands.pipelines import run_pipeline
from bert_tf.commands.quiet import import_tensorflow
from bert_tf.entry.errors import is_expected, one_line
from bert_tf.entry.packages import missing_package

EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


@dataclass(frozen=True)
class Command:
    """A subcommand.

    Args:
        module: module with `add_arguments(parser)` and `run(args) -> summary`.
        help: one line of help.
        extra: extra of the package that installs the command's dependencies.
        keras: True if the command needs Keras.
    """

    module: str
    help: str
    extra: str = "train"
    keras: bool = True


@dataclass(frozen=True)
class Pipeline:
    """A subcommand that is a Beam pipeline; all of its flags are passed to `beam_pipelines.<module>`.

    Args:
        module: module of `beam_pipelines`.
        help: one line of help.
        extra: extra of the package that installs the command's dependencies.
    """

    module: str
    help: str
    extra: str = "data"


COMMANDS: dict[str, Command | Pipeline] = {
    "demo": Command("bert_tf.commands.demo.run", "run all steps, from raw text to a served model", "all"),
    "vocab": Pipeline("build_vocabulary", "build a WordPiece vocabulary from a corpus"),
    "data": Pipeline("create_pretraining_data", "create pre-training examples from a corpus"),
    "pretrain": Command("bert_tf.commands.pretrain", "pre-train a model, or resume a run"),
    "evaluate": Command("bert_tf.commands.evaluate", "evaluate a pre-trained preset on held-out data"),
    "finetune": Command("bert_tf.commands.finetune", "fine-tune a preset on a task"),
    "score": Command("bert_tf.commands.score", "compute official metrics of predictions from any program"),
    "predict": Command("bert_tf.commands.predict", "predict a file with a preset"),
    "submission": Command("bert_tf.commands.submission", "pack GLUE predictions into a zip file for the leaderboard"),
    "attention": Command(
        "bert_tf.commands.attention", "write a page with the attention weights of every head for a text"
    ),
    "features": Command("bert_tf.commands.features", "write contextual embeddings of texts from any layers"),
    "convert": Command("bert_tf.commands.convert", "convert a checkpoint to another format and verify it"),
    "export": Command("bert_tf.commands.export", "export a preset as a new version of a SavedModel"),
    "serve": Command("bert_tf.commands.serve", "serve SavedModels with TF Serving's APIs", "serve", keras=False),
    "tokenize": Command("bert_tf.commands.tokenize", "convert lines of text to token ids"),
    "inspect": Command("bert_tf.commands.inspect", "describe a data directory, preset, run, checkpoint or SavedModel"),
}


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line; pipelines parse their own flags."""
    parser = Parser(
        prog="bert-tf",
        description="BERT, from raw text to a served model.",
        allow_abbrev=False,
    )
    parser.add_argument("--debug", action="store_true", help="print the traceback of an error")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        if isinstance(command, Pipeline):
            commands.add_parser(name, help=command.help, add_help=False, allow_abbrev=False)
            continue
        subparser = commands.add_parser(name, help=command.help, description=command.help, allow_abbrev=False)
        module = importlib.import_module(command.module)
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: the arguments after the program's name; None means `sys.argv`.

    Returns:
        The exit status: 0 for success, 1 for an error, 2 for a wrong command line, 130 if interrupted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = arguments[:1] == ["--debug"]
    started = time.monotonic()
    try:
        summary = _run(arguments[1:] if debug else arguments)
    except KeyboardInterrupt:
        print("bert-tf: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        message = _missing(error, arguments) or (one_line(error) if is_expected(error) else None)
        if debug or message is None:
            raise
        print(f"bert-tf: error: {message}", file=sys.stderr)
        return EXIT_FAILURE
    summary.setdefault("seconds", round(time.monotonic() - started, 1))
    print(json.dumps(summary, ensure_ascii=False))
    return 0


def _missing(error: Exception, arguments: list[str]) -> str | None:
    command = COMMANDS.get(arguments[0]) if arguments else None
    return missing_package(error, arguments[0], command.extra) if command else None


def _run(arguments: list[str]) -> dict[str, Any]:
    command = COMMANDS.get(arguments[0]) if arguments else None
    if isinstance(command, Pipeline):
        return run_pipeline(command.module, arguments[1:])
    args = build_parser().parse_args(arguments)
    import_tensorflow(keras=command is None or command.keras)
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())

"""`bert-tf COMMAND`: progress on stderr, a one-line JSON summary last on stdout, status 0 only when all is done."""

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
    """One command.

    Args:
        module: holds `add_arguments(parser)` and `run(args) -> summary`.
        help: one line.
        extra: of the package, which installs what the command needs.
        keras: whether it needs Keras.
    """

    module: str
    help: str
    extra: str = "train"
    keras: bool = True


@dataclass(frozen=True)
class Pipeline:
    """A command that is a Beam pipeline: its flags, and Beam's own, go to `beam_pipelines.<module>` unread."""

    module: str
    help: str
    extra: str = "data"


COMMANDS: dict[str, Command | Pipeline] = {
    "demo": Command("bert_tf.commands.demo.run", "the whole path, from raw text to a served model", "all"),
    "vocab": Pipeline("build_vocabulary", "learn a WordPiece vocabulary from a corpus"),
    "data": Pipeline("create_pretraining_data", "turn a corpus into pre-training examples"),
    "pretrain": Command("bert_tf.commands.pretrain", "pre-train a model; run again, it resumes"),
    "evaluate": Command("bert_tf.commands.evaluate", "held-out MLM and NSP figures of a pre-trained preset"),
    "finetune": Command("bert_tf.commands.finetune", "fine-tune a preset on a task"),
    "score": Command("bert_tf.commands.score", "the official figures of any program's predictions"),
    "predict": Command("bert_tf.commands.predict", "a preset's answers to a file"),
    "submission": Command("bert_tf.commands.submission", "predictions of GLUE's test sets to its leaderboard's zip"),
    "attention": Command("bert_tf.commands.attention", "a page of every head's attention weights for a text"),
    "features": Command("bert_tf.commands.features", "contextual embeddings of a file's texts, of any layers"),
    "convert": Command("bert_tf.commands.convert", "a checkpoint from one form to another, compared"),
    "export": Command("bert_tf.commands.export", "write the next version of a SavedModel"),
    "serve": Command("bert_tf.commands.serve", "serve a SavedModel as TF Serving does", "serve", keras=False),
    "tokenize": Command("bert_tf.commands.tokenize", "the ids of every line of a file"),
    "inspect": Command("bert_tf.commands.inspect", "what a data directory, preset or SavedModel holds"),
}


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of the whole command line; pipelines parse their own flags."""
    parser = Parser(
        prog="bert-tf",
        description="BERT, from raw text to a served model.",
        allow_abbrev=False,
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
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
        argv: the arguments after the program's name; `sys.argv` where None.

    Returns:
        The exit status: 0 done, 1 an error, 2 a wrong command line, 130 interrupted.
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

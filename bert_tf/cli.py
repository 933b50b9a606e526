"""The `bert-tf` command line.

Commands log progress to stderr and print a one-line JSON summary to stdout. The exit status is 0 only on success.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bert_tf import __version__
from bert_tf.commands.arguments import Parser
from bert_tf.commands.completion import SHELLS, completion_script
from bert_tf.commands.pipelines import add_pipeline_arguments, run_pipeline
from bert_tf.commands.quiet import check_keras_backend, import_tensorflow
from bert_tf.commands.urls import local_arguments
from bert_tf.entry.errors import is_expected, one_line
from bert_tf.entry.packages import missing_package
from bert_tf.entry.printed import printable

EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


@dataclass(frozen=True)
class Command:
    """A command implemented in Python.

    Args:
        module: module path; the module defines `add_arguments(parser)`, `check(args)`, which raises an error for
            settings, paths and flags that cannot work, without importing TensorFlow, and `run(args) -> summary`.
        help: one-line help text.
        extra: optional extra of the package that installs the command's dependencies.
        keras: whether the command needs Keras.
    """

    module: str
    help: str
    extra: str = "train"
    keras: bool = True


@dataclass(frozen=True)
class Pipeline:
    """A command that runs a Beam pipeline; all flags are passed to `beam_pipelines.<module>` unparsed.

    Args:
        module: module name in `beam_pipelines`.
        help: one-line help text.
        extra: optional extra of the package that installs the command's dependencies.
    """

    module: str
    help: str
    extra: str = "data"


COMMANDS: dict[str, Command | Pipeline] = {
    "demo": Command("bert_tf.commands.demo.run", "run the whole pipeline, from raw text to a served model", "all"),
    "vocab": Pipeline("build_vocabulary", "train a WordPiece vocabulary on a corpus"),
    "data": Pipeline("create_pretraining_data", "create pre-training examples from a corpus"),
    "pretrain": Command("bert_tf.commands.pretrain", "pre-train a model; resumes an interrupted run"),
    "evaluate": Command("bert_tf.commands.evaluate", "compute held-out MLM and NSP metrics of a pre-trained preset"),
    "finetune": Command("bert_tf.commands.finetune", "fine-tune a preset on a task"),
    "glue": Command(
        "bert_tf.commands.experiments.glue", "fine-tune a preset on all tasks of GLUE; compare and submit the results"
    ),
    "reproduce": Command(
        "bert_tf.commands.experiments.reproduce",
        "run the experiments of the BERT paper and compare their tables with the paper's",
    ),
    "score": Command("bert_tf.commands.score", "compute official metrics of a prediction file"),
    "predict": Command("bert_tf.commands.predict", "run a preset on the examples in a file"),
    "submission": Command("bert_tf.commands.submission", "package GLUE test set predictions as a leaderboard zip"),
    "triviaqa": Command("bert_tf.commands.triviaqa", "convert the questions of TriviaQA to the format of SQuAD"),
    "attention": Command(
        "bert_tf.commands.attention", "write an HTML page with the attention weights of every head for a text"
    ),
    "features": Command("bert_tf.commands.features", "extract contextual embeddings of texts from any layers"),
    "convert": Command("bert_tf.commands.convert", "convert a checkpoint to another format and verify the result"),
    "average": Command("bert_tf.commands.average", "average the weights of several presets, such as checkpoints"),
    "export": Command("bert_tf.commands.export", "export a preset as the next version of a SavedModel"),
    "serve": Command("bert_tf.commands.serve", "serve a SavedModel with the API of TF Serving", "serve", keras=False),
    "tokenize": Command("bert_tf.commands.tokenize", "convert every line of a file to token ids"),
    "inspect": Command("bert_tf.commands.inspect", "describe a data directory, preset or SavedModel"),
}


def build_parser(*, pipelines: bool = False) -> argparse.ArgumentParser:
    """Builds the parser for all commands.

    Args:
        pipelines: True to add the flags of the pipelines if Beam is installed; otherwise pipelines parse their own.
    """
    parser = Parser(
        prog="bert-tf", description="BERT, from raw text to a served model.",
        epilog="`bert-tf COMMAND --help` lists the flags of a command.",
    )  # fmt: skip
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error; before COMMAND")
    parser.add_argument("--version", action="version", version=f"bert-tf {__version__}", help="show the version")
    parser.add_argument(
        "--completion", choices=SHELLS, action=_PrintCompletion, help="print the completion script of a shell"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(name, help=command.help, description=command.help)
        if isinstance(command, Command):
            module = importlib.import_module(command.module)
            module.add_arguments(subparser)
            subparser.set_defaults(check=module.check, run=module.run)
        elif pipelines:
            with contextlib.suppress(ModuleNotFoundError):
                add_pipeline_arguments(subparser, command.module)
    return parser


class _PrintCompletion(argparse.Action):
    """Prints the completion script of a shell and exits."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, shell: Any, option: str | None = None) -> None:
        print(completion_script(build_parser(pipelines=True), shell))
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: command-line arguments without the program name; defaults to `sys.argv[1:]`.

    Returns:
        The exit status: 0 on success, 1 on an error, 2 on a usage error, 130 if interrupted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = arguments[:1] == ["--debug"]
    started = time.monotonic()
    if not arguments[debug:]:
        build_parser().print_help()
        return 0
    try:
        summary = _run(arguments[debug:])
    except KeyboardInterrupt:
        print("bert-tf: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        message = _missing(error, arguments) or (one_line(error) if is_expected(error) else None)
        if debug or message is None:
            raise
        print(f"bert-tf: error: {printable(message)}", file=sys.stderr)
        return EXIT_FAILURE
    summary.setdefault("seconds", round(time.monotonic() - started, 1))
    print(printable(json.dumps(summary, ensure_ascii=False)))
    return 0


def _missing(error: Exception, arguments: list[str]) -> str | None:
    command = COMMANDS.get(arguments[0]) if arguments else None
    return missing_package(error, arguments[0], command.extra) if command else None


def _run(arguments: list[str]) -> dict[str, Any]:
    command = COMMANDS.get(arguments[0]) if arguments else None
    if isinstance(command, Pipeline):
        return run_pipeline(command.module, arguments[1:])
    args = build_parser().parse_args(arguments)
    keras = command is None or command.keras
    if keras:
        check_keras_backend()
    with local_arguments(args) as with_urls:
        args.check(args)
        import_tensorflow(keras=keras)
        return with_urls(args.run(args))


if __name__ == "__main__":
    sys.exit(main())

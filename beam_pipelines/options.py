"""The flags of both pipelines, and the strict reading of them.

Every `PipelineOptions` subclass of this project stands here: Beam merges all subclasses of a process into one
parser, so a second class that defines `--input` would break every pipeline in it.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
from collections.abc import Sequence
from typing import Any, NoReturn

from apache_beam.options.pipeline_options import PipelineOptions, _BeamArgumentParser

from bert_tf.config import ConfigError, DataConfig

FORMATS = ("text", "python_docs")

# Flag of DataConfig to its help; `lowercase` is spelt `--cased`, as in every command.
_DATA_FLAGS = {
    "max_seq_length": "tokens in an example, [CLS] and both [SEP] included",
    "masking": "dynamic (masks drawn while training) or static (masks in the records)",
    "dupe_factor": "passes over the corpus, each with its own pairs",
    "short_seq_prob": "share of target lengths drawn shorter than the maximum",
    "random_next_prob": "share of pairs whose second segment comes from another document",
    "masked_lm_prob": "share of tokens to predict",
    "max_predictions_per_seq": "upper bound on predictions in one example",
    "mask_share": "share of predicted positions that become [MASK]",
    "random_share": "share of predicted positions that become a random token",
    "validation_fraction": "share of documents kept out of training",
    "num_shards": "training shards; 0 derives them from the size of the input",
    "seed": "every random choice follows from it",
    "language": "ISO 639-1 code for sentence splitting; none keeps one sentence a line",
}


class CorpusOptions(PipelineOptions):
    """What is read and where the result goes: common to both pipelines."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--input",
            default="",
            help="text: comma-separated globs (plain, .gz, .bz2); python_docs: package names, all where left out",
        )
        parser.add_argument("--format", default="text", choices=FORMATS, help="how the input is laid out")
        parser.add_argument("--output", default="", help="what is written")
        parser.add_argument("--cased", action="store_true", help="keep case and accents")
        parser.add_argument("--max_document_bytes", type=int, default=10_000_000, help="longer documents are rejected")
        parser.add_argument("--max_rejected_fraction", type=float, default=0.05, help="the run fails above this share")


class PretrainingDataOptions(PipelineOptions):
    """How examples are made: the fields of DataConfig."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--vocabulary", default="", help="vocab.txt, one piece a line")
        defaults = DataConfig()
        for name, text in _DATA_FLAGS.items():
            default = getattr(defaults, name)
            parser.add_argument(f"--{name}", type=type(default), default=default, help=text)


class VocabularyOptions(PipelineOptions):
    """What the vocabulary may hold."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--vocabulary_size", type=int, default=0, help="pieces, special tokens included")
        parser.add_argument("--min_count", type=int, default=1, help="rarer words teach nothing")
        parser.add_argument(
            "--limit_alphabet",
            type=int,
            default=0,
            help="distinct characters kept, the most frequent first; 0 keeps a tenth of --vocabulary_size, "
            "between 100 and 1000 (languages with many characters need more)",
        )


class _StrictParser(_BeamArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def parse(
    argv: Sequence[str], program: str, classes: Sequence[type[PipelineOptions]]
) -> tuple[argparse.Namespace, list[str]]:
    """Splits a command line into our flags and Beam's, refusing everything else.

    Args:
        argv: the arguments after the program's name.
        program: the name to show in `--help`.
        classes: the option classes of this program.

    Returns:
        Our flags, and the arguments that are Beam's own.

    Raises:
        ConfigError: for an unknown or abbreviated flag, a bad value, or a missing `--input` or `--output`.
    """
    ours = _parser(classes, program)
    args, rest = ours.parse_known_args(list(argv))
    beam = _parser([c for c in PipelineOptions.__subclasses__() if not c.__module__.startswith(__package__)])
    _, unknown = beam.parse_known_args(rest)
    if unknown:
        flag = unknown[0].split("=", 1)[0]
        known = [option for parser in (ours, beam) for option in parser._option_string_actions]
        near = difflib.get_close_matches(flag, known, n=1)
        suggestion = f" (did you mean {near[0]}?)" if near else ""
        raise ConfigError(f"unknown argument {flag}{suggestion}; flags are not abbreviated.")
    for name in ("input", "output"):
        if not getattr(args, name) and not (name == "input" and args.format == "python_docs"):
            raise ConfigError(f"--{name} is required.")
    if args.max_document_bytes < 1:
        raise ConfigError(f"--max_document_bytes must be at least 1. Received: {args.max_document_bytes}")
    if not 0.0 <= args.max_rejected_fraction <= 1.0:
        raise ConfigError(f"--max_rejected_fraction must be in [0, 1]. Received: {args.max_rejected_fraction}")
    return args, rest


def _parser(classes: Sequence[type[PipelineOptions]], program: str | None = None) -> _StrictParser:
    about = "Beam's own flags (--runner, --direct_num_workers, ...) pass through."
    parser = _StrictParser(
        prog=program, allow_abbrev=False, epilog=about, add_help=program is not None, conflict_handler="resolve"
    )
    for options in classes:
        options._add_argparse_args(parser)
    return parser


def data_config(args: argparse.Namespace) -> DataConfig:
    """Builds the DataConfig that the flags describe. Raises ConfigError when they break a rule."""
    names = {field.name for field in dataclasses.fields(DataConfig)} - {"lowercase"}
    values: dict[str, Any] = {name: getattr(args, name) for name in names}
    return DataConfig(lowercase=not args.cased, **values)

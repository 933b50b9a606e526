"""The flags of both pipelines, and the strict reading of them.

Every `PipelineOptions` subclass of this project stands here: Beam merges all subclasses of a process into one
parser, so a second class that defines `--input` would break every pipeline in it.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from apache_beam.options.pipeline_options import PipelineOptions, _BeamArgumentParser

from beam_pipelines.cleaning.languages import check_languages
from beam_pipelines.sources.corpus import FORMATS, Corpus, find_corpus
from beam_pipelines.sources.documents import ReadSettings
from bert_tf.config import CleaningConfig, ConfigError, DataConfig

# Flag of DataConfig to its help; `lowercase` is spelt `--cased`, as in every command, `next_sentence` `--no_nsp`.
_DATA_FLAGS = {
    "masking": "dynamic (masks drawn while training) or static (masks in the records)",
    "dupe_factor": "passes over the corpus, each with its own pairs",
    "short_seq_prob": "share of target lengths drawn shorter than the maximum",
    "random_next_prob": "share of pairs whose second segment comes from another document",
    "masked_lm_prob": "share of tokens to predict",
    "mask_share": "share of predicted positions that become [MASK]",
    "random_share": "share of predicted positions that become a random token",
    "mask_unit": "masked together: piece, whole_word or span (of words)",
    "max_ngram": "most words in a span",
    "validation_fraction": "share of documents kept out of training",
    "num_shards": "training shards; 0 derives them from the size of the input",
    "seed": "every random choice follows from it",
}
_CLEANING_FLAGS = {
    "min_words": "leave out documents of fewer words",
    "max_symbol_ratio": "leave out documents with a larger share of symbols",
    "max_repeated_lines": "leave out documents with a larger share of repeated lines",
}
_NEAR_DUPLICATES = {
    "near_duplicates": "leave out documents at least this similar to another (Jaccard, such as 0.8); 0 looks for none",
}


class CorpusOptions(PipelineOptions):
    """Defines the flags for inputs and outputs that both pipelines share."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--input",
            default="",
            help="comma-separated globs (plain, .gz, .bz2); python_docs: package names, all where left out",
        )
        parser.add_argument("--format", default="text", help=f"one for each input or one for all: {', '.join(FORMATS)}")
        parser.add_argument(
            "--language",
            default="en",
            help="ISO 639-1 codes, one for each input or one for all; none keeps one sentence a line. Templates of "
            "wikipedia are those of the language that a dump names, or else of this one",
        )
        parser.add_argument(
            "--weights", default="1", help="how often documents are used, one number for each input or one for all"
        )
        parser.add_argument("--text_field", default="text", help="jsonl: the field, parquet: the column of the text")
        parser.add_argument("--output", default="", help="what is written")
        parser.add_argument(
            "--cased", action="store_true", help="keep case and accents; data does with a cased vocabulary"
        )
        parser.add_argument("--max_document_bytes", type=int, default=10_000_000, help="longer documents are rejected")
        parser.add_argument("--max_rejected_fraction", type=float, default=0.05, help="the run fails above this share")
        parser.add_argument(
            "--language_filter", action="store_true", help="leave out documents in another language than their input"
        )
        _add_fields(parser, CleaningConfig(), _CLEANING_FLAGS)


class PretrainingDataOptions(PipelineOptions):
    """Defines the flags for examples, one for each field of DataConfig."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--vocabulary", default="", help="vocab.txt, one piece a line")
        parser.add_argument(
            "--max_seq_length",
            default=str(DataConfig().max_seq_length),
            help="tokens in an example, special tokens included; several, such as 128,512, go to folders of their own",
        )
        parser.add_argument(
            "--max_predictions_per_seq",
            default="",
            help="upper bound on predictions in one example, for each length; derived from --masked_lm_prob",
        )
        parser.add_argument("--no_nsp", action="store_true", help="single segments instead of sentence pairs")
        parser.add_argument("--estimate", action="store_true", help="say what a run would take, and make nothing")
        _add_fields(parser, DataConfig(), _DATA_FLAGS)
        _add_fields(parser, CleaningConfig(), _NEAR_DUPLICATES)


def _add_fields(parser: argparse.ArgumentParser, defaults: Any, flags: Mapping[str, str]) -> None:
    for name, text in flags.items():
        default = getattr(defaults, name)
        parser.add_argument(f"--{name}", type=type(default), default=default, help=text)


class VocabularyOptions(PipelineOptions):
    """Defines the flags for the contents of the vocabulary."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--vocabulary_size", type=int, default=0, help="pieces, special tokens included")
        parser.add_argument("--min_count", type=int, default=1, help="rarer words are left out")
        parser.add_argument(
            "--max_words",
            type=int,
            default=1_000_000,
            help="distinct words to learn from, the most frequent first: bounds the memory of this machine",
        )
        parser.add_argument(
            "--character_coverage",
            type=float,
            default=0.9999,
            help="share of all characters of the text that the vocabulary must know; 1.0 keeps every character",
        )
        parser.add_argument(
            "--limit_alphabet",
            type=int,
            default=0,
            help="most distinct characters kept, whatever the coverage; 0 for no limit",
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
        needless = (name == "input" and args.format == "python_docs") or (name == "output" and _only_estimates(args))
        if not getattr(args, name) and not needless:
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


def _only_estimates(args: argparse.Namespace) -> bool:
    return getattr(args, "estimate", False)


def corpus_of(args: argparse.Namespace) -> Corpus:
    """Finds the corpus that the flags name. Raises ConfigError where they break a rule."""
    corpus = find_corpus(args.input, args.format, args.language, args.weights)
    if args.language_filter:
        check_languages(corpus.languages)
    return corpus


def read_settings(args: argparse.Namespace) -> ReadSettings:
    """Returns the settings that formats read from the flags."""
    return ReadSettings(max_document_bytes=args.max_document_bytes, text_field=args.text_field)


def cleaning_config(args: argparse.Namespace) -> CleaningConfig:
    """Builds the CleaningConfig that the flags describe. Raises ConfigError when they break a rule."""
    names = (field.name for field in dataclasses.fields(CleaningConfig))
    return CleaningConfig(**{name: getattr(args, name) for name in names if hasattr(args, name)})


def data_configs(args: argparse.Namespace) -> list[DataConfig]:
    """Builds the DataConfig of every length that the flags name.

    Raises:
        ConfigError: when they break a rule, name a length twice, or give another number of predictions than lengths.
    """
    lengths = _numbers("max_seq_length", args.max_seq_length)
    predictions = _numbers("max_predictions_per_seq", args.max_predictions_per_seq) or [
        max(1, math.ceil(round(length * args.masked_lm_prob, 6))) for length in lengths
    ]
    if len(predictions) != len(lengths) or len(set(lengths)) != len(lengths) or not lengths:
        raise ConfigError(
            "--max_seq_length must name each length once, and --max_predictions_per_seq have one entry for each. "
            f"Received: {args.max_seq_length!r} and {args.max_predictions_per_seq!r}"
        )
    values: dict[str, Any] = {name: getattr(args, name) for name in _DATA_FLAGS}
    values |= {"lowercase": not args.cased, "next_sentence": not args.no_nsp, "language": args.language}
    return [
        DataConfig(max_seq_length=length, max_predictions_per_seq=most, cleaning=cleaning_config(args), **values)
        for length, most in zip(lengths, predictions, strict=True)
    ]


def _numbers(name: str, text: str) -> list[int]:
    try:
        return [int(item) for item in text.split(",") if item.strip()]
    except ValueError as error:
        raise ConfigError(f"--{name} must be whole numbers, comma-separated. Received: {text!r}") from error

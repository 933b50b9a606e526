"""Flags of both pipelines and their strict parser.

Every `PipelineOptions` subclass of this project is defined here. Beam merges all subclasses of a process into one
parser, so a second class that defines `--input` would break every pipeline of the process.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from apache_beam.options.pipeline_options import PipelineOptions, _BeamArgumentParser

from beam_pipelines.cleaning.languages import check_languages
from beam_pipelines.sources.corpus import FORMATS, Corpus, find_corpus
from beam_pipelines.sources.documents import ReadSettings
from bert_tf.config import CleaningConfig, ConfigError, DataConfig
from bert_tf.config.errors import did_you_mean
from bert_tf.entry.flags import boolean

# Help of the DataConfig flags. As in every command, `lowercase` is spelt `--cased` and `next_sentence` `--no_nsp`.
_DATA_FLAGS = {
    "masking": "dynamic (masks drawn during training) or static (masks stored in the records)",
    "dupe_factor": "number of passes over the corpus, each with new pairs",
    "short_seq_prob": "share of target lengths drawn shorter than the maximum",
    "random_next_prob": "share of pairs whose second segment comes from another document",
    "masked_lm_prob": "share of tokens to predict",
    "mask_share": "share of predicted positions replaced by [MASK]",
    "random_share": "share of predicted positions replaced by a random token",
    "mask_unit": "unit of masking: piece, whole_word or span (of words)",
    "max_ngram": "maximum number of words in a span",
    "validation_fraction": "share of documents held out for validation; negative: from the input size, at least 0.01",
    "num_shards": "number of training shards; 0: derived from the input size",
    "seed": "random seed of the whole pipeline",
}
_CLEANING_FLAGS = {
    "min_words": "minimum number of words in a document",
    "max_symbol_ratio": "maximum share of symbols in a document",
    "max_repeated_lines": "maximum share of repeated lines in a document",
}
_NEAR_DUPLICATES = {
    "near_duplicates": "Jaccard similarity from which documents are dropped as near-duplicates, such as 0.8; 0: off",
}


# Value of `--vocabulary_size auto`.
AUTO_SIZE = -1

# Defaults and help of the other flags.
_CORPUS_FLAGS = {
    "format": ("text", f"input format, one for each input or one for all: {', '.join(FORMATS)}"),
    "language": (
        "en",
        "ISO 639-1 codes, one for each input or one for all; none: one sentence per line. Templates of wikipedia "
        "follow the language of the dump, or this one if the dump names none",
    ),
    "weights": ("1", "relative number of uses of the documents, one for each input or one for all"),
    "text_field": ("text", "text field (jsonl) or column (parquet)"),
    "max_document_bytes": (10_000_000, "maximum size of a document in bytes"),
    "max_rejected_fraction": (0.05, "maximum share of rejected documents before the run fails"),
}
_VOCABULARY_FLAGS = {
    "min_count": (1, "minimum number of occurrences of a word"),
    "max_words": (1_000_000, "maximum number of distinct words to train on, most frequent first; bounds memory"),
    "character_coverage": (0.9999, "share of character occurrences covered by the alphabet; 1.0: every character"),
    "limit_alphabet": (0, "maximum number of distinct characters, whatever the coverage; 0: no limit"),
}


def _add_flags(parser: argparse.ArgumentParser, flags: Mapping[str, tuple[Any, str]]) -> None:
    for name, (default, text) in flags.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"{text}; default: %(default)s")


def _add_switch(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    """Adds a switch. `--NAME=true` and `--NAME=false` are accepted too, because templates only pass values."""
    parser.add_argument(f"--{name}", type=boolean, nargs="?", const=True, default=False, metavar="BOOLEAN", help=text)


def _add_fields(parser: argparse.ArgumentParser, defaults: Any, flags: Mapping[str, str]) -> None:
    _add_flags(parser, {name: (getattr(defaults, name), text) for name, text in flags.items()})


class CorpusOptions(PipelineOptions):
    """Defines the input and output flags of both pipelines."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        inputs = "required: comma-separated globs (plain, .gz, .bz2); python_docs: package names, by default all"
        parser.add_argument("--input", default="", help=inputs)
        parser.add_argument("--output", default="", help="required: output path, a data directory or a vocabulary file")
        cased = "keep case and accents; default for data with a cased vocabulary"
        _add_switch(parser, "cased", cased)
        languages = "drop documents in another language than their input"
        _add_switch(parser, "language_filter", languages)
        _add_flags(parser, _CORPUS_FLAGS)
        _add_fields(parser, CleaningConfig(), _CLEANING_FLAGS)


class PretrainingDataOptions(PipelineOptions):
    """Defines the flags of the examples, one for each field of DataConfig."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        vocabulary = "required: vocabulary file (vocab.txt), one piece per line"
        parser.add_argument("--vocabulary", default="", help=vocabulary)
        parser.add_argument(
            "--max_sequence_length",
            "--max_seq_length",
            dest="max_seq_length",
            default=str(DataConfig().max_seq_length),
            help="maximum sequence length, special tokens included; several, such as 128,512, use one folder each; "
            "default: %(default)s",
        )
        predictions = "maximum number of predictions per example, one for each length; default: from --masked_lm_prob"
        parser.add_argument("--max_predictions_per_seq", default="", help=predictions)
        _add_switch(parser, "no_nsp", "single segments instead of sentence pairs")
        parser.add_argument("--estimate", action="store_true", help="estimate time, memory and disk; write nothing")
        _add_fields(parser, DataConfig(), _DATA_FLAGS)
        _add_fields(parser, CleaningConfig(), _NEAR_DUPLICATES)


def _vocabulary_size(text: str) -> int:
    """Returns a number of pieces; `AUTO_SIZE` for auto."""
    return AUTO_SIZE if text == "auto" else int(text)


class VocabularyOptions(PipelineOptions):
    """Defines the flags of the vocabulary."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        size = "required: number of pieces, special tokens included, or auto; BERT's own vocabulary has 30522"
        parser.add_argument("--vocabulary_size", type=_vocabulary_size, default=0, help=size)
        _add_flags(parser, _VOCABULARY_FLAGS)


class Program(NamedTuple):
    """Command line of a pipeline.

    Args:
        name: name shown in `--help`.
        classes: option classes.
    """

    name: str
    classes: tuple[type[PipelineOptions], ...]


# By the name of the pipeline's module.
PROGRAMS = {
    "build_vocabulary": Program("bert-tf vocab", (CorpusOptions, VocabularyOptions)),
    "create_pretraining_data": Program("bert-tf data", (CorpusOptions, PretrainingDataOptions)),
}


class _StrictParser(_BeamArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def parse(
    argv: Sequence[str], program: str, classes: Sequence[type[PipelineOptions]]
) -> tuple[argparse.Namespace, list[str]]:
    """Splits a command line into the parsed flags of `program`, defined by `classes`, and the arguments for Beam.

    Raises ConfigError if a flag is unknown, abbreviated or without effect, a value is invalid, or `--input` or
    `--output` is missing.
    """
    program_parser = _parser(classes, program)
    args, beam_args = program_parser.parse_known_args(list(argv))
    beam_parser = _parser([c for c in PipelineOptions.__subclasses__() if not c.__module__.startswith(__package__)])
    _, unknown = beam_parser.parse_known_args(beam_args)
    if unknown:
        flag = unknown[0].split("=", 1)[0]
        known = [option for parser in (program_parser, beam_parser) for option in parser._option_string_actions]
        raise ConfigError(
            f"unknown argument {flag}{did_you_mean(flag, known)}; flags cannot be abbreviated. Run `{program} --help` "
            "for all flags."
        )
    if s3 := next((arg.split("=", 1)[0] for arg in beam_args if arg.startswith("--s3_")), None):
        raise ConfigError(
            f"{s3} has no effect, because all commands take credentials, region and server of S3 from the environment. "
            "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_DEFAULT_REGION and AWS_ENDPOINT_URL instead."
        )
    for name in ("input", "output"):
        needless = (name == "input" and args.format == "python_docs") or (name == "output" and _only_estimates(args))
        if not getattr(args, name) and not needless:
            raise ConfigError(f"--{name} is required. Run `{program} --help` for all flags.")
    if args.max_document_bytes < 1:
        raise ConfigError(f"--max_document_bytes must be at least 1. Received: {args.max_document_bytes}")
    if not 0.0 <= args.max_rejected_fraction <= 1.0:
        raise ConfigError(f"--max_rejected_fraction must be in [0, 1]. Received: {args.max_rejected_fraction}")
    return args, beam_args


def _parser(classes: Sequence[type[PipelineOptions]], program: str | None = None) -> _StrictParser:
    about = "Flags of Beam (--runner, --direct_num_workers, ...) are passed to Beam."
    parser = _StrictParser(
        prog=program, allow_abbrev=False, epilog=about, add_help=program is not None, conflict_handler="resolve"
    )
    for options in classes:
        options._add_argparse_args(parser)
    return parser


def _only_estimates(args: argparse.Namespace) -> bool:
    return getattr(args, "estimate", False)


def corpus_of(args: argparse.Namespace) -> Corpus:
    """Returns the corpus of the flags. Raises ConfigError if a flag is invalid."""
    corpus = find_corpus(args.input, args.format, args.language, args.weights)
    if args.language_filter:
        check_languages(corpus.languages)
    return corpus


def read_settings(args: argparse.Namespace) -> ReadSettings:
    """Returns the format settings of the flags."""
    return ReadSettings(max_document_bytes=args.max_document_bytes, text_field=args.text_field)


def cleaning_config(args: argparse.Namespace) -> CleaningConfig:
    """Builds the CleaningConfig of the flags. Raises ConfigError if a flag is invalid."""
    names = (field.name for field in dataclasses.fields(CleaningConfig))
    return CleaningConfig(**{name: getattr(args, name) for name in names if hasattr(args, name)})


def data_configs(args: argparse.Namespace) -> list[DataConfig]:
    """Builds one DataConfig for each length of the flags, in their order.

    Raises ConfigError if a flag is invalid, a length is repeated, the numbers of lengths and predictions differ, or an
    example has fewer predictions than `--masked_lm_prob` of its tokens.
    """
    lengths = _numbers("max_seq_length", args.max_seq_length)
    predictions = _numbers("max_predictions_per_seq", args.max_predictions_per_seq) or [0] * len(lengths)
    if len(predictions) != len(lengths) or len(set(lengths)) != len(lengths) or not lengths:
        raise ConfigError(
            "--max_seq_length must list each length once, and --max_predictions_per_seq one number per length. "
            f"Received: {args.max_seq_length!r} and {args.max_predictions_per_seq!r}"
        )
    values: dict[str, Any] = {name: getattr(args, name) for name in _DATA_FLAGS}
    values |= {"lowercase": not args.cased, "next_sentence": not args.no_nsp, "language": args.language}
    configs = [DataConfig(max_seq_length=length, cleaning=cleaning_config(args), **values) for length in lengths]
    for config, number in zip(configs, predictions, strict=True):
        # Rounded down, because 76 predictions for 512 tokens are common: 0.15 * 512 is 76.8.
        least = int(config.masked_lm_prob * config.max_seq_length)
        if 0 < number < least:
            raise ConfigError(
                f"--max_predictions_per_seq must be at least --masked_lm_prob times --max_sequence_length, "
                f"{least} for {config.masked_lm_prob} of {config.max_seq_length} tokens. Received: {number}. "
                f"Leave it out to use {config.max_predictions_per_seq}."
            )
    return [
        dataclasses.replace(config, max_predictions_per_seq=number)
        for config, number in zip(configs, predictions, strict=True)
    ]


def _numbers(name: str, text: str) -> list[int]:
    try:
        return [int(item) for item in text.split(",") if item.strip()]
    except ValueError as error:
        raise ConfigError(f"--{name} must be comma-separated integers. Received: {text!r}") from error

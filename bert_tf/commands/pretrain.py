"""`bert-tf pretrain`: pre-trains a model on a data directory."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import add_overrides, add_verify, refuse_overrides
from bert_tf.config import BertConfig, ConfigError, RunConfig, existing, with_overrides
from bert_tf.config.training import STRATEGIES
from bert_tf.pretraining.recipes import RECIPES, recipe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "--data", type=Path, required=True, help="output directory of `bert-tf data`, with one length or two"
    )
    parser.add_argument("--model", help="model size (tiny … large, L4_H256) or config.json; default: the recipe's")
    parser.add_argument(
        "--init",
        type=Path,
        metavar="PRESET",
        help="preset or run whose weights and architecture to start from; `max_sequence_length` may be increased",
    )
    parser.add_argument("--output", type=Path, required=True, help="output directory; an existing run is resumed")
    parser.add_argument("--steps", type=int, help="total optimizer steps; default: the recipe's")
    parser.add_argument("--recipe", default="default", help=f"recipe, one of {', '.join(RECIPES)}; default: default")
    parser.add_argument(
        "--strategy",
        choices=STRATEGIES,
        help="distribution strategy: none, mirrored (all local devices), multi_worker, tpu; default: none",
    )
    add_verify(parser)
    add_overrides(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Trains the model, or resumes a run; returns the summary."""
    existing(args.data, "--data")
    if args.init:
        existing(args.init, "--init")
    config = configuration(args)
    from bert_tf.training.malloc import tune_allocator

    tune_allocator()
    from bert_tf.data.verification import verified_data
    from bert_tf.pretraining.run import run_pretraining
    from bert_tf.training.fit import weights_sha256

    with verified_data(args.data, args.verify):
        preset, result = run_pretraining(args.data, config, args.output, args.init)
    return {
        "output": str(args.output),
        "preset": str(preset),
        "step": result.step,
        "loss": result.loss,
        "tokens_per_second": result.tokens_per_second,
        "weights_sha256": weights_sha256(result.model),
        **(result.evaluation or {}),
    }


def configuration(args: argparse.Namespace) -> RunConfig:
    """Returns the recipe's configuration with the data's vocabulary, the model, the steps and the overrides."""
    from bert_tf.data.manifest import data_directories, read_manifest

    refuse_overrides(args.overrides, ("training.epochs",), "pre-training counts in steps")
    config = recipe(args.recipe)
    size = read_manifest((data_directories(args.data) or [args.data])[0]).vocabulary_size
    if args.init:
        from bert_tf.pretraining.warm_start import InitialWeights

        if args.model:
            raise ConfigError(f"--model has no effect with --init, which uses the preset's. Received: {args.model}")
        model = InitialWeights.of(args.init).config
    elif args.model:
        model = BertConfig.from_name_or_path(args.model, vocabulary_size=size)
    else:
        model = replace(config.model, vocabulary_size=size)
    flags = {"steps": args.steps, "strategy": args.strategy}
    training = replace(config.training, **{name: value for name, value in flags.items() if value is not None})
    return with_overrides(RunConfig(model=model, training=training), args.overrides)

"""`bert-tf pretrain`: examples to a pre-trained preset."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import add_overrides, add_verify, existing, refuse_overrides
from bert_tf.config import BertConfig, ConfigError, RunConfig, with_overrides
from bert_tf.config.training import STRATEGIES
from bert_tf.pretraining.recipes import RECIPES, recipe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--data", type=Path, required=True, help="the output of `bert-tf data`, of one length or two")
    parser.add_argument("--model", help="a named size (tiny … large, L4_H256) or a config.json; default: the recipe's")
    parser.add_argument(
        "--init",
        type=Path,
        metavar="PRESET",
        help="go on from the weights, and with the model, of a preset or a run; positions may become more",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder of the run; given again, it resumes")
    parser.add_argument("--steps", type=int, help="optimizer steps in all; default: the recipe's")
    parser.add_argument("--recipe", default="default", help=", ".join(RECIPES))
    parser.add_argument("--strategy", choices=STRATEGIES, help="one device, or a copy of the model on each of several")
    add_verify(parser)
    add_overrides(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Trains, or resumes, and returns the summary."""
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
    """Returns the recipe with the data's vocabulary, the model, the steps and the overrides on top."""
    from bert_tf.data.manifest import data_directories, read_manifest

    refuse_overrides(args.overrides, ("training.epochs",), "pre-training counts in steps")
    config = recipe(args.recipe)
    size = read_manifest((data_directories(args.data) or [args.data])[0]).vocabulary_size
    if args.init:
        from bert_tf.pretraining.warm_start import InitialWeights

        if args.model:
            raise ConfigError(f"--model does not go with --init: the model is the preset's. Received: {args.model}")
        model = InitialWeights.of(args.init).config
    elif args.model:
        model = BertConfig.from_name_or_path(args.model, vocabulary_size=size)
    else:
        model = replace(config.model, vocabulary_size=size)
    given = {"steps": args.steps, "strategy": args.strategy}
    training = replace(config.training, **{name: value for name, value in given.items() if value is not None})
    return with_overrides(RunConfig(model=model, training=training), args.overrides)

"""`bert-tf pretrain`: pre-trains a model on a data directory."""

from __future__ import annotations

import argparse
import inspect
import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import (
    PRESET_HELP,
    add_overrides,
    add_verify,
    definitions,
    preset_name,
    refuse_overrides,
    settings_of,
)
from bert_tf.commands.inputs import check_data, check_preset, check_same_vocabulary
from bert_tf.commands.urls import text_or_url
from bert_tf.config import BertConfig, ConfigError, RunConfig, TrainingConfig, with_overrides
from bert_tf.config.training import STRATEGIES, check_objective
from bert_tf.pretraining.recipes import EXPECTED_DATA, RECIPES, ExpectedData, present_name, recipe
from bert_tf.training.output import check_output

logger = logging.getLogger(__name__)
_NO_EFFECT, _REASON = ("training.epochs",), "pre-training counts in steps"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "--data", type=Path, required=True, help="output directory of `bert-tf data`, with one length or two"
    )
    parser.add_argument(
        "--model",
        type=text_or_url,
        help="model size (tiny … large, modern_tiny … modern_large, L4_H256) or config.json; default: the recipe's",
    )
    parser.add_argument(
        "--init",
        type=preset_name,
        metavar="PRESET",
        help=f"weights and architecture to start from: {PRESET_HELP}; `max_sequence_length` may be increased",
    )
    parser.add_argument("--output", type=Path, required=True, help="output directory; an existing run is resumed")
    parser.add_argument("--steps", type=int, help="total optimizer steps; default: the recipe's")
    parser.add_argument(
        "--decay_from",
        type=int,
        metavar="STEP",
        help="with the schedule `trapezoidal`: begin the decay after this step, instead of near the end of --steps",
    )
    parser.add_argument(
        "--recipe",
        type=present_name,
        choices=RECIPES,
        default="default",
        help=f"recipe: {', '.join(RECIPES)}; default: default",
    )
    parser.add_argument(
        "--strategy",
        choices=STRATEGIES,
        help="distribution strategy: none, mirrored (all local devices), multi_worker, tpu; default: none",
    )
    add_verify(parser)
    settings = settings_of(RunConfig(), without=_NO_EFFECT)
    add_overrides(parser, settings)
    parser.epilog = "\n\n".join(
        [
            definitions("recipes", {name: recipe_summary(name) for name in RECIPES}),
            definitions("settings of --set, with the defaults of the recipe `default`", settings),
        ]
    )


def recipe_summary(name: str) -> str:
    """Returns the purpose of a recipe, and the hardware and time that its docstring states.

    Example:
        >>> from bert_tf.commands.pretrain import recipe_summary
        >>> recipe_summary("default")
        "BERT's own hyperparameters at batch size 32; the default recipe."
    """
    docstring = inspect.getdoc(RECIPES[name]) or ""
    hardware = re.search(r"^Hardware: (.*(?:\n[ ].*)*)", docstring, re.MULTILINE)
    return " ".join([docstring.partition("\n")[0], *(hardware[0].split() if hardware else ())])


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    check_data(args.data)
    check_output(args.output)
    if not args.init:
        configuration(args)
        return
    check_preset(args.init, "--init")
    check_same_vocabulary(args.init, args.data)
    if args.model:
        raise ConfigError(f"--model has no effect with --init, which uses the preset's. Received: {args.model}")
    refuse_overrides(args.overrides, _NO_EFFECT, _REASON)
    # The architecture is that of the preset, which is read later.
    settings = [item for item in args.overrides if item[:6] != "model."]
    _decaying(with_overrides(RunConfig(training=_training(args)), settings), args)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Trains the model, or resumes a run; returns the summary."""
    config = configuration(args)
    if difference := data_difference(args.recipe, args.data):
        logger.warning(difference)
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


def data_difference(name: str, data: Path) -> str | None:
    """Returns a message if the data is not of the kind that a recipe is made for.

    Args:
        name: name of the recipe.
        data: data directory.

    Returns:
        The flags of `bert-tf data` that the recipe expects, and those of the data; None if they are equal, or if the
        recipe is for any data.
    """
    from bert_tf.data.manifest import data_directories, read_manifest

    if name not in EXPECTED_DATA:
        return None
    expected = EXPECTED_DATA[name]
    found = ExpectedData.of([read_manifest(folder).config for folder in data_directories(data) or [data]])
    if found == expected:
        return None
    return f"the recipe {name} is for data of `bert-tf data {expected.flags}`. Received: {found.flags}"


def configuration(args: argparse.Namespace) -> RunConfig:
    """Returns the recipe's configuration with the data's vocabulary, the model, the steps and the overrides."""
    from bert_tf.data.manifest import data_directories, read_manifest

    refuse_overrides(args.overrides, _NO_EFFECT, _REASON)
    config = recipe(args.recipe)
    manifests = [read_manifest(folder) for folder in data_directories(args.data) or [args.data]]
    size = manifests[0].vocabulary_size
    if args.init:
        from bert_tf.pretraining.warm_start import InitialWeights

        model = InitialWeights.of(args.init).config
    elif args.model:
        model = BertConfig.from_name_or_path(str(args.model), vocabulary_size=size)
    else:
        model = replace(config.model, vocabulary_size=size)
    config = _decaying(with_overrides(RunConfig(model=model, training=_training(args)), args.overrides), args)
    check_objective(config, any(manifest.config.next_sentence for manifest in manifests))
    return config


def _decaying(config: RunConfig, args: argparse.Namespace) -> RunConfig:
    """Returns the configuration with the decay of `--decay_from`."""
    if args.decay_from is None:
        return config
    return replace(config, training=config.training.with_decay_from(args.decay_from))


def _training(args: argparse.Namespace) -> TrainingConfig:
    """Returns the recipe's training configuration with the flags."""
    flags = {"steps": args.steps, "strategy": args.strategy}
    return replace(recipe(args.recipe).training, **{name: value for name, value in flags.items() if value is not None})

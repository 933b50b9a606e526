"""`bert-tf pretrain`: pre-trains a model on a data directory."""

from __future__ import annotations

import argparse
import inspect
import logging
import re
import sys
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
from bert_tf.config import BertConfig, ConfigError, RunConfig, TrainingConfig, to_dict, with_overrides
from bert_tf.config.model import NAMED_SIZES
from bert_tf.config.training import STRATEGIES, check_objective
from bert_tf.pretraining.recipes import AUTO, EXPECTED_DATA, RECIPES, ExpectedData, of_size, present_name, recipe
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
        choices=(*RECIPES, AUTO),
        default="default",
        help=f"recipe: {', '.join(RECIPES)}, or {AUTO}, which chooses for the data and --hours; default: default",
    )
    parser.add_argument("--hours", type=float, help="with --recipe auto: hours that the run may take")
    parser.add_argument(
        "--plan",
        action="store_true",
        help="with --recipe auto: print sizes, steps, passes and expected perplexities, and stop",
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
    _check_auto(args)
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
    _decaying(with_overrides(RunConfig(training=_training(args, recipe(args.recipe))), settings), args)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Trains the model, or resumes a run; returns the summary."""
    from bert_tf.training.malloc import tune_allocator

    tune_allocator()
    if args.plan:
        from bert_tf.pretraining.plan import make_plan

        plan = make_plan(args.data, args.hours, _sizes(args), args.strategy or "none")
        print("\n".join(plan.lines()), file=sys.stderr, flush=True)
        run = with_overrides(plan.best.run, args.overrides)
        return {"model": plan.best.size, "perplexity": round(plan.best.perplexity, 1), **to_dict(run.training)}
    config = configuration(args, _auto(args) if args.recipe == AUTO else recipe(args.recipe))
    if difference := data_difference(args.recipe, args.data):
        logger.warning(difference)
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


def _check_auto(args: argparse.Namespace) -> None:
    """Raises ConfigError for flags that do not go with the recipe, or with `auto`."""
    if args.recipe != AUTO:
        for name in ("hours", "plan"):
            if getattr(args, name):
                raise ConfigError(f"--{name} needs --recipe {AUTO}. Received: --recipe {args.recipe}")
        return
    if not args.hours or args.hours <= 0:
        raise ConfigError(f"--recipe {AUTO} needs --hours, a positive number. Received: {args.hours or 'none'}")
    for name in ("init", "steps", "decay_from"):
        if getattr(args, name) is not None:
            raise ConfigError(
                f"--{name} does not go with --recipe {AUTO}, which starts from random weights and takes the steps that "
                "fit into --hours. Leave it out, or choose another recipe."
            )
    if args.strategy in ("multi_worker", "tpu"):
        raise ConfigError(
            f"--recipe {AUTO} times steps in one process: --strategy must be none or mirrored. "
            f"Received: {args.strategy}"
        )
    if any(override.replace(" ", "").startswith("training.objective=") for override in args.overrides):
        raise ConfigError(
            f"training.objective does not go with --recipe {AUTO}, whose fit is of masked words. Choose another recipe."
        )
    if args.model and str(args.model) not in NAMED_SIZES:
        raise ConfigError(
            f"with --recipe {AUTO}, --model must be one of {', '.join(NAMED_SIZES)}. Received: {args.model}"
        )


def _sizes(args: argparse.Namespace) -> tuple[str, ...]:
    """Returns the sizes that the recipe `auto` compares."""
    return (str(args.model),) if args.model else tuple(NAMED_SIZES)


def _auto(args: argparse.Namespace) -> RunConfig:
    """Returns the configuration of the recipe `auto`."""
    from bert_tf.pretraining.plan import planned_run
    from bert_tf.storage import working_copy

    with working_copy(args.output) as output:
        return planned_run(output, args.data, args.hours, _sizes(args), args.strategy or "none")


def configuration(args: argparse.Namespace, config: RunConfig | None = None) -> RunConfig:
    """Returns a configuration with the data's vocabulary, the model, the steps and the overrides.

    Args:
        args: arguments of the command.
        config: the configuration; None for the recipe's, or for an example of those of `auto`.
    """
    from bert_tf.data.manifest import data_directories, read_manifest

    refuse_overrides(args.overrides, _NO_EFFECT, _REASON)
    if config is None:
        config = of_size("tiny", 1) if args.recipe == AUTO else recipe(args.recipe)
    manifests = [read_manifest(folder) for folder in data_directories(args.data) or [args.data]]
    size = manifests[0].vocabulary_size
    if args.init:
        from bert_tf.pretraining.warm_start import InitialWeights

        model = InitialWeights.of(args.init).config
    elif args.model and args.recipe != AUTO:
        model = BertConfig.from_name_or_path(str(args.model), vocabulary_size=size)
    else:
        model = replace(config.model, vocabulary_size=size)
    config = _decaying(with_overrides(RunConfig(model=model, training=_training(args, config)), args.overrides), args)
    if config.training.objective == "causal_lm" and not any("masked_lm_prob" in item for item in args.overrides):
        # The share of a recipe is that of masks, which such a model does not have.
        config = replace(config, training=replace(config.training, masked_lm_prob=-1.0))
    check_objective(config, any(manifest.config.next_sentence for manifest in manifests))
    return config


def _decaying(config: RunConfig, args: argparse.Namespace) -> RunConfig:
    """Returns the configuration with the decay of `--decay_from`."""
    if args.decay_from is None:
        return config
    return replace(config, training=config.training.with_decay_from(args.decay_from))


def _training(args: argparse.Namespace, config: RunConfig) -> TrainingConfig:
    """Returns the training configuration of a recipe with the flags."""
    flags = {"steps": args.steps, "strategy": args.strategy}
    return replace(config.training, **{name: value for name, value in flags.items() if value is not None})

"""`bert-tf finetune TASK`: fine-tunes a preset on a task."""

from __future__ import annotations

import argparse
import functools
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_tf.commands.arguments import (
    add_max_sequence_length,
    add_overrides,
    add_preset,
    definitions,
    refuse_overrides,
    settings_of,
)
from bert_tf.commands.inputs import check_length, check_preset
from bert_tf.config import TrainingConfig, with_overrides
from bert_tf.config.features import COMBINATIONS
from bert_tf.config.training import check_finetuning, rate_of_width
from bert_tf.tasks.entry import MIDDLE_OF_GRID
from bert_tf.tasks.registry import command_line_tasks
from bert_tf.training.output import check_output

if TYPE_CHECKING:
    from bert_tf.tasks.features.config import Features

logger = logging.getLogger(__name__)
# arXiv 1810.04805, section 5.3.
_BILSTM_DIM = 768


@dataclass(frozen=True)
class FinetuningConfig:
    """Configuration of `--set`.

    Args:
        training: training configuration.
    """

    training: TrainingConfig


# For a BiLSTM on features: the rates of untrained LSTMs, as the paper describes none.
_ON_FEATURES = FinetuningConfig(TrainingConfig(learning_rate=1e-3, batch_size=32, epochs=10))
_NO_EFFECT = ("training.steps", "training.evaluate_every")
_NO_PRETRAINING = ("training.objective", "training.nsp_weight", "training.mask_share", "training.random_share")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = f"{_epilog(MIDDLE_OF_GRID)}\n\n{definitions('defaults of other tasks', _other_defaults())}"
    tasks = parser.add_subparsers(dest="task", required=True, metavar="TASK")
    for name, entry in command_line_tasks().items():
        task = tasks.add_parser(name, help=entry.help, description=entry.help, epilog=_epilog(entry.recipe))
        add_preset(task)
        entry.add_files(task)
        entry.add_arguments(task)
        task.add_argument("--output", type=Path, required=True, help="output directory; an existing run is resumed")
        add_max_sequence_length(task, "the task's, or the model's if smaller")
        task.add_argument(
            "--from_scratch", action="store_true", help="random initial weights, as a baseline without pre-training"
        )
        task.add_argument(
            "--frozen_layers", type=int, metavar="N", help="freeze the embeddings and the lowest N layers"
        )
        _add_features(task)
        task.add_argument("--skip_bad", action="store_true", help="skip invalid examples and list them in a file")
        task.add_argument(
            "--grid",
            choices=["paper"],
            help="grid search over the paper's batch sizes, rates (for this width) and epochs; keeps the best",
        )
        task.add_argument(
            "--restarts",
            type=int,
            default=1,
            metavar="K",
            help="number of runs with different seeds; keeps the best; default: 1",
        )
        add_overrides(task, _settings(entry.recipe))


@functools.cache
def _settings(recipe: TrainingConfig) -> dict[str, str]:
    """Returns the meaning of every setting by `section.field=DEFAULT`, with the defaults of a recipe."""
    return settings_of(FinetuningConfig(recipe), without=(*_NO_EFFECT, *_NO_PRETRAINING))


@functools.cache
def _epilog(recipe: TrainingConfig) -> str:
    return definitions("settings of --set, with their defaults", _settings(recipe))


def _other_defaults() -> dict[str, str]:
    """Returns the settings that differ from `MIDDLE_OF_GRID`, by task."""
    defaults = {}
    for name, entry in command_line_tasks().items():
        if changed := [setting for setting in _settings(entry.recipe) if setting not in _settings(MIDDLE_OF_GRID)]:
            defaults[name] = " ".join(changed)
    return defaults


def _add_features(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of models other than a dense layer on the encoder."""
    parser.add_argument(
        "--features",
        metavar="NAME",
        help=f"features of the frozen encoder to train a BiLSTM tagger on: {', '.join(COMBINATIONS)} "
        "(the paper's Table 7), or one layer such as layer_3; needs --probe for tasks on whole texts",
    )
    parser.add_argument(
        "--probe",
        nargs="?",
        const="first",
        metavar="POOLING",
        help="linear classifier of whole texts on --features (default: last), with the pooling first ([CLS], the "
        "default), mean or max",
    )
    parser.add_argument(
        "--feature_cache", type=Path, metavar="DIR", help="directory of features shared by runs; default: in --output"
    )
    parser.add_argument(
        "--bilstm", action="store_true", help="train a BiLSTM between encoder and head (the paper's Table 5)"
    )
    parser.add_argument("--bilstm_dim", type=int, metavar="N", help="width of each direction of a BiLSTM; default: 768")


def features_of(args: argparse.Namespace) -> Features | None:
    """Returns the features to learn from, None if the run trains the encoder.

    Args:
        args: parsed arguments.

    Raises:
        ValueError: for flags without effect.
    """
    if args.bilstm_dim is not None and not (args.bilstm or (args.features and args.probe is None)):
        raise ValueError(f"`--bilstm_dim` needs --bilstm, or --features without --probe. Received: {args.bilstm_dim}")
    if args.probe is not None and args.overrides:
        raise ValueError(f"`--set` has no effect with --probe, which has no steps. Received: {args.overrides}")
    if args.probe is not None and (args.grid or args.restarts != 1):
        raise ValueError("`--grid` and `--restarts` have no effect with --probe, which has no steps and no seed.")
    if args.features is None and args.probe is None:
        if args.feature_cache:
            raise ValueError(f"`--feature_cache` needs --features or --probe. Received: {args.feature_cache}")
        return None
    from bert_tf.tasks.features.config import Features

    return Features(args.features or "last", args.probe, args.bilstm_dim or _BILSTM_DIM, args.feature_cache)


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    check_preset(args.preset)
    check_length(args.max_sequence_length, args.preset)
    refuse_overrides(args.overrides, _NO_EFFECT, "fine-tuning counts in epochs")
    refuse_overrides(args.overrides, _NO_PRETRAINING, "it is a setting of pre-training")
    check_finetuning(configuration(args))
    command_line_tasks()[args.task].make_files(args)
    if args.grid is None and args.restarts == 1:
        check_output(args.output)


def configuration(args: argparse.Namespace) -> TrainingConfig:
    """Returns the training configuration of the arguments."""
    recipe = command_line_tasks()[args.task].recipe
    return with_overrides(FinetuningConfig(recipe) if args.features is None else _ON_FEATURES, args.overrides).training


def sized_configuration(args: argparse.Namespace) -> TrainingConfig:
    """Returns the configuration with the rate of the task for the width of the encoder, unless `--set` gives a rate."""
    from bert_tf.models.preset_sources import open_preset

    config = configuration(args)
    if args.features or any(override.startswith("training.learning_rate=") for override in args.overrides):
        return config
    width = open_preset(args.preset).header.config.hidden_dim
    rate = rate_of_width(config.learning_rate, width)
    if rate != config.learning_rate:
        logger.warning(
            "learning rate %g, for a width of %d instead of %g (--set training.learning_rate)",
            rate, width, config.learning_rate,
        )  # fmt: skip
    return replace(config, learning_rate=rate)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Fine-tunes the preset; returns the summary."""
    from bert_tf.training.malloc import tune_allocator

    tune_allocator()
    config = sized_configuration(args)
    from bert_tf.tasks.finetune.init import FinetuneInit
    from bert_tf.tasks.finetune.run import finetune_task
    from bert_tf.tasks.finetune.sweep import finetune_trials, trials
    from bert_tf.tasks.input_errors import InputErrors

    start = FinetuneInit(
        args.preset,
        args.from_scratch,
        frozen_layers=args.frozen_layers,
        max_sequence_length=args.max_sequence_length,
        features=features_of(args),
        bilstm_dim=(args.bilstm_dim or _BILSTM_DIM) if args.bilstm else None,
    )
    input_errors = InputErrors(args.skip_bad)
    entry = command_line_tasks()[args.task]
    task, files = entry.make_task(args), entry.make_files(args)
    if args.grid or args.restarts != 1:
        scale = config.learning_rate / configuration(args).learning_rate
        runs = trials(config, args.grid == "paper", args.restarts, scale)
        best, result, outcomes = finetune_trials(task, files, start, runs, args.output, input_errors)
        trial_summary = {"best": best.name, "runs": len(outcomes)}
    else:
        result, trial_summary = finetune_task(task, files, start, config, args.output, input_errors), {}
    return trial_summary | {
        "output": str(args.output),
        "preset": str(args.output / "preset"),
        "metrics": result.metrics,
        "dev_examples": result.dev_examples,
        "remark": result.remark,
        "skipped": len(input_errors),
        "step": result.step,
    }

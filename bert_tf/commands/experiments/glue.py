"""`bert-tf glue`: fine-tunes a preset on all tasks of GLUE, and writes a table, a page and the submission."""

from __future__ import annotations

import argparse
import gc
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import (
    add_max_sequence_length,
    add_overrides,
    add_preset,
    definitions,
    refuse_overrides,
    settings_of,
)
from bert_tf.commands.experiments.in_process import run_command
from bert_tf.commands.finetune import FinetuningConfig
from bert_tf.commands.inputs import check_length, check_path, check_preset
from bert_tf.config import ConfigError, TrainingConfig, with_overrides
from bert_tf.config.preset_names import find_preset
from bert_tf.config.training import check_finetuning
from bert_tf.experiments.glue.plan import (
    COMPARED,
    PAGE_NAME,
    PAPER_BATCH,
    PAPER_EPOCHS,
    PAPER_RATES,
    RESULTS_NAME,
    RUNS,
    GlueSettings,
    check_output,
    plan_lines,
    trials_of,
)
from bert_tf.experiments.glue.tasks import TASKS, WNLI, TaskData, find_data
from bert_tf.experiments.runs import Run, Runs, Status, duration
from bert_tf.reports.text import in_bytes

_DEFAULTS = FinetuningConfig(TrainingConfig(batch_size=PAPER_BATCH, epochs=PAPER_EPOCHS, keep_checkpoints=1))
_NO_EFFECT = ("training.steps", "training.evaluate_every")
_RATE = "training.learning_rate"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    settings = settings_of(_DEFAULTS, without=(*_NO_EFFECT, _RATE))
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = definitions("settings of --set, with their defaults", settings)
    add_preset(parser)
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        help="directory of GLUE with a directory for each task: CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI, "
        "and diagnostic",
    )
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        help="output directory; finished runs in it are reused, and several processes may share it",
    )
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS), help="tasks; default: all")
    parser.add_argument(
        "--rates",
        nargs="+",
        type=float,
        default=list(PAPER_RATES),
        metavar="RATE",
        help="learning rates, of which the best on the development set is kept; default: those of the paper, "
        f"{' '.join(f'{rate:g}' for rate in PAPER_RATES)}",
    )
    parser.add_argument("--seeds", type=int, default=1, metavar="K", help="seeds of every task; default: 1")
    parser.add_argument(
        "--restarts",
        type=int,
        default=1,
        metavar="K",
        help="seeds of the tasks with fewer than 10,000 training examples, of which the best is kept; default: 1",
    )
    parser.add_argument(
        "--train_wnli", action="store_true", help="train WNLI; by default the most frequent label is predicted"
    )
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="PRESET",
        help="another preset, which is fine-tuned with the same settings and compared on the development sets; or the "
        "output directory of another `bert-tf glue`",
    )
    add_max_sequence_length(parser, "128, or the model's if smaller")
    parser.add_argument(
        "--from_scratch", action="store_true", help="random initial weights, as a baseline without pre-training"
    )
    parser.add_argument("--skip_bad", action="store_true", help="skip invalid training and development examples")
    parser.add_argument("--plan", action="store_true", help="show the runs without executing them")
    add_overrides(parser, settings)


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    check_preset(args.preset)
    check_length(args.max_sequence_length, args.preset)
    refuse_overrides(args.overrides, _NO_EFFECT, "fine-tuning counts in epochs")
    refuse_overrides(args.overrides, (_RATE,), "use `--rates`")
    check_finetuning(with_overrides(_DEFAULTS, args.overrides).training)
    check_path(args.data, "--data")
    check_output(args.output)
    glue_settings(args)
    if (other := other_settings(args)) is not None:
        if (other.preset / RUNS).is_dir():
            raise ConfigError(
                f"`--compare` must be a preset, or a finished output directory of `bert-tf glue`. Received: "
                f"{other.preset}, without {RESULTS_NAME}. Run `bert-tf glue --output {other.preset}` to the end first."
            )
        check_preset(other.preset, "--compare")
        check_length(args.max_sequence_length, other.preset)
        check_output(other.output)
    data, missing = find_data(args.data, args.tasks)
    if not data:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
        raise ConfigError(f"--data has no task that can be trained. Received: {args.data}; {reasons}")


def glue_settings(args: argparse.Namespace) -> GlueSettings:
    """Returns the settings of parsed arguments.

    Args:
        args: parsed arguments.

    Raises:
        ConfigError: for invalid rates and counts.
    """
    training = dict(override.split("=", 1) for override in args.overrides)
    seed = with_overrides(_DEFAULTS, args.overrides).training.seed
    return GlueSettings(
        args.preset,
        args.output,
        tuple(args.rates),
        args.seeds,
        args.restarts,
        seed,
        training,
        args.max_sequence_length,
        args.from_scratch,
        args.skip_bad,
        args.train_wnli,
    )


def other_settings(args: argparse.Namespace) -> GlueSettings | None:
    """Returns the settings of the preset of `--compare`, None without one and for the output of another benchmark.

    Args:
        args: parsed arguments.
    """
    if args.compare is None or (args.compare / RESULTS_NAME).is_file():
        return None
    return replace(glue_settings(args), preset=args.compare, output=args.output / COMPARED, from_scratch=False)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Executes the runs without results, and prints a table to stdout; returns the summary."""
    settings, other = glue_settings(args), other_settings(args)
    data, missing = find_data(args.data, args.tasks)
    _show_plan(settings, data, missing)
    if other is not None:
        print(f"\ncompared with {other.preset}:", file=sys.stderr)
        _show_plan(other, data, {})
    if args.plan:
        return {"output": str(args.output), "missing": missing}
    from bert_tf.experiments.glue.benchmark import run_benchmark
    from bert_tf.experiments.glue.results import averages
    from bert_tf.experiments.glue.table import text_table
    from bert_tf.training.malloc import tune_allocator

    tune_allocator()
    if other is not None:
        run_benchmark(other, data, missing, _execute)
    results, submission = run_benchmark(settings, data, missing, _execute, other.output if other else args.compare)
    print(text_table(results))
    page = args.output / PAGE_NAME
    print(f"page: {page}", file=sys.stderr)
    return {
        "output": str(args.output),
        "page": str(page),
        "results": str(args.output / RESULTS_NAME),
        "submission": submission and str(submission),
        "scores": results.scores,
        **averages(results.scores),
        "missing": results.missing,
    }


def _execute(run: Run) -> dict[str, Any]:
    # Models and their graphs form reference cycles; several of them would not fit into memory.
    gc.collect()
    return run_command(run.command)


def _show_plan(settings: GlueSettings, data: list[TaskData], missing: dict[str, str]) -> None:
    """Prints the plan with what is finished, and what cannot be reused."""
    trials = [trial for one in data for trial in trials_of(settings, one)]
    lines = plan_lines(trials, missing)
    if not settings.train_wnli and any(one.task.name == WNLI for one in data):
        lines.append("WNLI    not trained: the most frequent label is predicted; --train_wnli trains it")
    runs = Runs(settings.output, [trial.run for trial in trials])
    states = runs.states()
    counts = [sum(state.status is status for state in states.values()) for status in (Status.FINISHED, Status.PENDING)]
    lines += [f"not reused: {name}: {state.reason}" for name, state in states.items() if state.reason]
    left = runs.remaining_seconds()
    estimate = f", about {duration(left)} in one process" if left else ""
    rows = sum(run.work for run in runs.pending())
    disk = in_bytes(counts[1] * _preset_bytes(settings.preset))
    lines.append(
        f"{counts[0]} runs finished, {counts[1]} to execute: {rows:,.0f} training rows{estimate}, about {disk} on disk"
    )
    print("\n".join(lines), file=sys.stderr, flush=True)


def _preset_bytes(preset: Path) -> int:
    """Returns the size of the files of a preset, which is about that of a fine-tuned one."""
    path, _ = find_preset(preset)
    files = path.iterdir() if path.is_dir() else path.parent.glob(f"{path.name}.*")
    return sum(file.stat().st_size for file in files if file.is_file())

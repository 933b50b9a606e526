"""`bert-tf reproduce`: runs the experiments of the paper and compares their tables with the paper's."""

from __future__ import annotations

import argparse
import inspect
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import add_overrides, refuse_overrides, settings_of
from bert_tf.commands.inputs import check_data, check_path
from bert_tf.config import ConfigError, RunConfig
from bert_tf.config.preset_names import CHECKPOINTS_NAME, RUN_PRESET_NAME
from bert_tf.experiments.plan import FINETUNING_NAME, Directories, Plan
from bert_tf.experiments.registry import TABLES, module_of, table
from bert_tf.experiments.runs import Run, Runs, Status, duration, run_subprocess
from bert_tf.experiments.scales import LAPTOP, SCALES, scale
from bert_tf.experiments.work import pretraining_bytes, seconds_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"{', '.join(TABLES)}; default: all of them")
    parser.add_argument("--list", action="store_true", help="describe the tables and exit")
    parser.add_argument("--data", type=Path, help="output directory of `bert-tf data`, with dynamic masks")
    parser.add_argument("--tasks", type=Path, help="directory of task data: glue/MRPC, squad, ner, swag ...")
    parser.add_argument("--output", type=Path, help="output directory; finished runs in it are reused")
    parser.add_argument(
        "--scale", choices=SCALES, default=LAPTOP, help=f"size of the models and runs; default: {LAPTOP}"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="seeds of fine-tuning; default: those of the scale")
    parser.add_argument(
        "--steps", type=int, metavar="N", help="steps of each pre-training run; default: those of the scale"
    )
    parser.add_argument("--plan", action="store_true", help="show the runs with an estimate of time and disk, and exit")
    parser.add_argument("--report", action="store_true", help="write the pages of the finished runs, and exit")
    parser.add_argument(
        "--keep_presets", action="store_true", help="keep the presets of fine-tuning runs, which no table needs"
    )
    add_overrides(parser, settings_of(RunConfig(), without=["training.epochs", "training.steps"]))


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    for name in args.tables:
        module_of(name)
    if args.list:
        return
    for flag in ("data", "tasks", "output"):
        if getattr(args, flag) is None:
            raise ConfigError(f"--{flag} is required, unless --list is given.")
    check_data(args.data)
    check_path(args.tasks, "--tasks")
    if args.seeds is not None and args.seeds < 1:
        raise ConfigError(f"--seeds must be at least 1. Received: {args.seeds}")
    refuse_overrides(args.overrides, ["training.steps"], "use --steps")
    _plan(args)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Executes the runs that are missing and writes the pages; returns the summary."""
    names = args.tables or TABLES
    if args.list:
        print("\n\n".join(_description(name) for name in names))
        return {"tables": list(names)}
    plan = _plan(args)
    runs = Runs(args.output, list(plan.runs.values()))
    if not args.report:
        _show(plan, runs)
    if args.plan:
        return {"output": str(args.output), "runs": len(runs.runs), "finished": len(runs.results())}
    from bert_tf.experiments.results import write_tables

    try:
        if not args.report:
            plan.prepare()
            runs.execute_all(lambda run: _executed(run, runs, args.keep_presets))
    finally:
        pages = write_tables(plan, runs)
        for page in pages:
            print(f"page: {page}", file=sys.stderr)
    unfinished = {name: state for name, state in runs.states().items() if state.status is not Status.FINISHED}
    if unfinished and not args.report:
        name, state = next(iter(unfinished.items()))
        raise RuntimeError(
            f"{len(unfinished)} of {len(runs.runs)} runs are not finished, among them {name}: "
            f"{state.reason or state.status}. The pages name them. Run the command again to resume."
        )
    return {
        "output": str(args.output),
        "pages": [str(page) for page in pages],
        "runs": len(runs.runs),
        "finished": len(runs.runs) - len(unfinished),
        "missing": plan.missing,
    }


def _plan(args: argparse.Namespace) -> Plan:
    """Returns the plan. Raises ConfigError for settings that a run does not accept."""
    size = scale(args.scale)
    if args.seeds is not None:
        size = replace(size, seeds=args.seeds)
    if args.steps is not None:
        size = size.with_steps(args.steps)
    overrides = dict(item.partition("=")[::2] for item in args.overrides)
    plan = Plan(size, Directories(args.output, args.data, args.tasks))
    for name in args.tables or TABLES:
        plan.add(table(name, size), overrides)
    return plan


def _description(name: str) -> str:
    """Returns the documentation of a table."""
    return f"{name}\n{inspect.getdoc(module_of(name))}"


def _show(plan: Plan, runs: Runs) -> None:
    """Prints the runs with their states, and the estimate of the work that is left."""
    from bert_tf.training.logging.flops import measured_peak

    states = runs.states()
    width = max(map(len, states))
    rate = measured_peak("float32")
    seconds, disk = 0.0, 0
    print("runs:", file=sys.stderr)
    for run in runs.runs:
        state = states[run.name]
        estimate = ""
        if state.status is not Status.FINISHED:
            seconds += seconds_of(run.work, rate)
            disk += _bytes(run, plan)
            estimate = f"about {duration(seconds_of(run.work, rate))}"
        print(f"  {run.name:<{width}}  {state.status:<9}  {state.reason or estimate}", file=sys.stderr)
    for label, reason in plan.missing.items():
        print(f"column {label}: {reason}. The column stays empty.", file=sys.stderr)
    left = sum(state.status is not Status.FINISHED for state in states.values())
    print(
        f"{left} of {len(states)} runs are left: about {duration(seconds)} on one device like this one "
        f"({rate / 1e9:.0f} GFLOP/s), and {disk / 1e9:.1f} GB of {plan.directories.output}.",
        file=sys.stderr,
        flush=True,
    )


def _bytes(run: Run, plan: Plan) -> int:
    """Returns the disk space of a run; the presets of fine-tuning runs exist only while they run."""
    if run.after:
        return 0
    config = plan.configs[run.name.rpartition("/")[2]]
    kept = config.training.keep_checkpoints
    if config.training.keep_every:
        kept += config.training.steps // config.training.keep_every
    return pretraining_bytes(config.model, kept)


def _executed(run: Run, runs: Runs, keep_presets: bool) -> dict[str, Any]:
    """Executes a run; deletes what no table needs of a fine-tuning run."""
    summary = run_subprocess(run)
    if run.name.startswith(f"{FINETUNING_NAME}/"):
        shutil.rmtree(runs.folder(run) / CHECKPOINTS_NAME, ignore_errors=True)
        if not keep_presets:
            shutil.rmtree(runs.folder(run) / RUN_PRESET_NAME, ignore_errors=True)
    return summary

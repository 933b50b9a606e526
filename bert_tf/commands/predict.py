"""`bert-tf predict`: predicts a file with a preset."""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import add_preset, preset_name
from bert_tf.commands.inputs import check_batch_size, check_path, check_preset
from bert_tf.tasks.registry import TASKS

# A file of this suffix holds one text per line, unless the task's own files have it (`TaskEntry.reads_txt`).
PLAIN_TEXT = ".txt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_preset(parser)
    parser.add_argument(
        "--input",
        type=Path,
        required=True,
        help="input file in the task's format; one text per line if the preset has no task or the file is .txt "
        "(except ner), or two texts with a tab between for pairs",
    )
    parser.add_argument(
        "--output", type=Path, required=True, help="output file in the task's format, or JSON lines for lines of text"
    )
    parser.add_argument(
        "--ensemble",
        type=preset_name,
        nargs="+",
        default=[],
        metavar="PRESET",
        help="further presets of the same task, whose predictions are averaged with those of --preset",
    )
    parser.add_argument("--skip_bad", action="store_true", help="skip invalid examples and list them in a file")
    parser.add_argument("--batch_size", type=int, default=64, help="lines per batch; default: 64")
    parser.add_argument("--top_k", type=int, default=5, help="fill-mask: candidates per [MASK]; default: 5")


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    check_preset(args.preset)
    check_path(args.input, "--input")
    for preset in args.ensemble:
        check_preset(preset, "--ensemble")
    check_batch_size(args.batch_size)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Predicts the file; returns the summary."""
    if _is_of_task(args.input, args.preset):
        return _of_task(args)
    if args.ensemble:
        raise ValueError(f"`--ensemble` needs an input file in the task's format. Received: {args.input}")
    from bert_tf.config.files import staged_file
    from bert_tf.entry.progress import Progress
    from bert_tf.export.inference import Predictor

    predictor, progress = Predictor(args.preset, top_k=args.top_k), Progress("lines")
    lines = 0
    try:
        with args.input.open(encoding="utf-8", newline="\n") as source, staged_file(args.output) as target:
            while batch := list(itertools.islice(source, args.batch_size)):
                rows = _columns(batch, len(predictor.texts), args.input, lines)
                for row, answer in zip(zip(*rows, strict=True), predictor(*rows), strict=True):
                    texts = dict(zip(predictor.texts, row, strict=True))
                    target.write((json.dumps(texts | answer, ensure_ascii=False) + "\n").encode())
                lines += len(batch)
                progress.add(len(batch))
    except UnicodeDecodeError as error:
        raise ValueError(f"{args.input}: not UTF-8: {error}. Convert the file to UTF-8.") from error
    return {"output": str(args.output), "lines": lines}


def _is_of_task(path: Path, preset: Path) -> bool:
    """Returns True if the input is in the format of the preset's task, not one text per line."""
    from bert_tf.models.preset_sources import open_preset

    task = (open_preset(preset).task or {}).get("task")
    return task in TASKS and (path.suffix != PLAIN_TEXT or TASKS[task].reads_txt)


def _of_task(args: argparse.Namespace) -> dict[str, Any]:
    """Predicts a file in the task's format; skipped examples are listed next to the output."""
    from bert_tf.tasks.input_errors import InputErrors
    from bert_tf.tasks.predictor import Ensemble, TaskPredictor

    input_errors = InputErrors(args.skip_bad)
    predictor = Ensemble([args.preset, *args.ensemble]) if args.ensemble else TaskPredictor(args.preset)
    examples = predictor.predict_file(args.input, args.output, input_errors)
    if len(input_errors):
        input_errors.write(args.output.with_name(f"{args.output.name}.skipped.tsv"))
    return {"output": str(args.output), "examples": examples, "skipped": len(input_errors)}


def _columns(batch: list[str], count: int, path: Path, before: int) -> list[list[str]]:
    rows = [line.rstrip("\r\n").split("\t", count - 1) for line in batch]
    for number, row in enumerate(rows, start=before + 1):
        if len(row) != count:
            raise ValueError(f"{path}: line {number}: must have {count} texts separated by tabs. Received: {len(row)}")
    return [list(column) for column in zip(*rows, strict=True)]

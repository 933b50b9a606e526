"""`bert-tf finetune TASK`: a preset becomes a classifier."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import add_overrides, add_preset, existing, refuse_overrides
from bert_tf.config import TrainingConfig, with_overrides


@dataclass(frozen=True)
class FinetuningConfig:
    """What `--set` reaches; by default the middle of the paper's grid (arXiv 1810.04805, A.3)."""

    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(learning_rate=3e-5, batch_size=32, epochs=3)
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("task", choices=["classify"], metavar="TASK", help="classify: your own labelled TSV")
    add_preset(parser)
    parser.add_argument("--data", type=Path, required=True, help="folder with train.tsv and dev.tsv")
    parser.add_argument("--output", type=Path, required=True, help="folder of the run; given again, it resumes")
    parser.add_argument("--text_columns", nargs="+", default=["text"], help="one column, or two for pairs of texts")
    parser.add_argument("--label_column", default="label", help="the column of the label")
    parser.add_argument("--max_seq_length", type=int, help="tokens kept of a text; default: 128, or the model's most")
    parser.add_argument("--from_scratch", action="store_true", help="random weights, to see what pre-training gives")
    add_overrides(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Fine-tunes and returns the summary."""
    existing(args.preset, "--preset")
    existing(args.data, "--data")
    if len(args.text_columns) > 2:
        raise ValueError(f"`--text_columns` takes one or two names. Received: {args.text_columns}")
    refuse_overrides(args.overrides, ("training.steps", "training.evaluate_every"), "fine-tuning counts in epochs")
    config = with_overrides(FinetuningConfig(), args.overrides).training
    from bert_tf.training.allocator import tune_allocator

    tune_allocator()
    from bert_tf.tasks.classification import ClassifyTask, finetune_classifier

    task = ClassifyTask(args.data, tuple(args.text_columns), args.label_column, args.max_seq_length)
    result = finetune_classifier(args.preset, task, config, args.output, from_scratch=args.from_scratch)
    return {
        "output": str(args.output),
        "preset": str(result.preset),
        "metrics": {"accuracy": result.accuracy},
        "majority": result.majority,
        "dev_examples": result.dev_examples,
        "step": result.training.step,
    }

"""Entries of the tasks of GLUE."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bert_tf.config import existing
from bert_tf.tasks.entry import TaskEntry, TaskFiles


@dataclass(frozen=True)
class GlueEntry(TaskEntry):
    """Task of GLUE, with the files of its directory; `dev` and `further` are the names of its labelled files."""

    dev: str = "dev.tsv"
    further: Mapping[str, str] = field(default_factory=dict)

    def add_files(self, parser: argparse.ArgumentParser) -> None:
        """Adds the directory."""
        parser.add_argument(
            "--data",
            type=Path,
            required=True,
            help="GLUE directory of the task with train.tsv and dev.tsv; for mnli dev_matched.tsv and "
            "dev_mismatched.tsv",
        )

    def make_files(self, args: argparse.Namespace) -> TaskFiles:
        """Returns the files of the directory."""
        existing(args.data, "--data")
        train, dev, *further = (
            existing(args.data / name, "--data:") for name in ("train.tsv", self.dev, *self.further.values())
        )
        return TaskFiles(train, dev, dict(zip(self.further, further, strict=True)))


class DiagnosticEntry(GlueEntry):
    """GLUE's diagnostic set."""

    def make_files(self, args: argparse.Namespace) -> TaskFiles:
        """Raises ValueError, because the set has no training examples."""
        raise ValueError("the diagnostic set has no training examples. Fine-tune mnli and predict with its preset.")


_TASKS = "bert_tf.tasks.glue.tasks:"
ENTRIES = (
    GlueEntry("cola", "GLUE: linguistic acceptability; Matthews' correlation", f"{_TASKS}ColaTask"),
    GlueEntry("sst2", "GLUE: sentiment of film reviews; accuracy", f"{_TASKS}Sst2Task"),
    GlueEntry("mrpc", "GLUE: paraphrase detection; F1 and accuracy", f"{_TASKS}MrpcTask"),
    GlueEntry("stsb", "GLUE: similarity from 0 to 5; Pearson's and Spearman's correlation", f"{_TASKS}StsbTask"),
    GlueEntry("qqp", "GLUE: duplicate questions; F1 and accuracy", f"{_TASKS}QqpTask"),
    GlueEntry(
        "mnli",
        "GLUE: entailment, matched and mismatched; accuracy",
        f"{_TASKS}MnliTask",
        dev="dev_matched.tsv",
        further={"mismatched": "dev_mismatched.tsv"},
    ),
    GlueEntry("qnli", "GLUE: question and answer sentence entailment; accuracy", f"{_TASKS}QnliTask"),
    GlueEntry("rte", "GLUE: entailment; accuracy", f"{_TASKS}RteTask"),
    GlueEntry("wnli", "GLUE: Winograd schemas; accuracy", f"{_TASKS}WnliTask"),
    DiagnosticEntry(
        "ax",
        "GLUE: diagnostic set for a preset of mnli; Matthews' correlation",
        f"{_TASKS}DiagnosticTask",
        dev="diagnostic-full.tsv",
    ),
)

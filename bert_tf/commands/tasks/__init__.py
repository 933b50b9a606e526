"""Tasks of the command line, one module per family.

A module has `add_arguments(parser)` for arguments of the task itself, `add_files(parser)` for training files,
`make_task(args)` and `make_sources(args)`, and imports nothing heavy before these are called.
It may have `add_score_arguments(parser)` and `score(args, examples, answers)`, if the official script takes more
than predictions.
"""

from __future__ import annotations

import importlib
from types import ModuleType

# Task to module and help.
TASKS: dict[str, tuple[str, str]] = {
    "cola": ("bert_tf.commands.tasks.glue", "GLUE: linguistic acceptability; Matthews' correlation"),
    "sst2": ("bert_tf.commands.tasks.glue", "GLUE: sentiment of film reviews; accuracy"),
    "mrpc": ("bert_tf.commands.tasks.glue", "GLUE: paraphrase detection; F1 and accuracy"),
    "stsb": ("bert_tf.commands.tasks.glue", "GLUE: similarity from 0 to 5; Pearson's and Spearman's correlation"),
    "qqp": ("bert_tf.commands.tasks.glue", "GLUE: duplicate questions; F1 and accuracy"),
    "mnli": ("bert_tf.commands.tasks.glue", "GLUE: entailment, matched and mismatched; accuracy"),
    "qnli": ("bert_tf.commands.tasks.glue", "GLUE: question and answer sentence entailment; accuracy"),
    "rte": ("bert_tf.commands.tasks.glue", "GLUE: entailment; accuracy"),
    "wnli": ("bert_tf.commands.tasks.glue", "GLUE: Winograd schemas; accuracy"),
    "ax": ("bert_tf.commands.tasks.glue", "GLUE: diagnostic set for a preset of mnli; Matthews' correlation"),
    "classify": ("bert_tf.commands.tasks.classify", "classification of texts, or pairs of texts, of your own files"),
    "squad1": ("bert_tf.commands.tasks.squad", "extractive question answering, SQuAD 1.1"),
    "squad2": ("bert_tf.commands.tasks.squad2", "extractive question answering with unanswerable questions, SQuAD 2.0"),
    "ner": ("bert_tf.commands.tasks.ner", "named entity recognition: CoNLL-2003, WNUT, WikiANN and similar files"),
    "swag": ("bert_tf.commands.tasks.swag", "multiple choice of endings: SWAG, and files with its header"),
}


def family(name: str) -> ModuleType:
    """Returns the command module of a task."""
    return importlib.import_module(TASKS[name][0])

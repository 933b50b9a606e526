"""The tasks of the command line: for each family a module with what is its own.

A module has `add_arguments(parser)` for what belongs to the task itself, `add_files(parser)` for the files to learn
from, `make_task(args)` and `make_sources(args)`, and imports nothing heavy before these are called.
It may have `add_score_arguments(parser)` and `score(args, examples, answers)`, where the official script takes more
than predictions.
"""

from __future__ import annotations

import importlib
from types import ModuleType

# Task to module and help.
TASKS: dict[str, tuple[str, str]] = {
    "cola": ("bert_tf.commands.tasks.glue", "GLUE: whether a sentence is grammatical; Matthews' correlation"),
    "sst2": ("bert_tf.commands.tasks.glue", "GLUE: praise or blame; accuracy"),
    "mrpc": ("bert_tf.commands.tasks.glue", "GLUE: paraphrases; F1 and accuracy"),
    "stsb": ("bert_tf.commands.tasks.glue", "GLUE: likeness from 0 to 5; Pearson's and Spearman's correlation"),
    "qqp": ("bert_tf.commands.tasks.glue", "GLUE: questions that ask the same; F1 and accuracy"),
    "mnli": ("bert_tf.commands.tasks.glue", "GLUE: entailment, matched and mismatched; accuracy"),
    "qnli": ("bert_tf.commands.tasks.glue", "GLUE: whether a sentence answers a question; accuracy"),
    "rte": ("bert_tf.commands.tasks.glue", "GLUE: entailment; accuracy"),
    "wnli": ("bert_tf.commands.tasks.glue", "GLUE: Winograd schemas; accuracy"),
    "ax": ("bert_tf.commands.tasks.glue", "GLUE's diagnostic set, answered by a preset of mnli; Matthews' correlation"),
    "classify": ("bert_tf.commands.tasks.classify", "one label for a text, or a pair of texts, of your own file"),
    "squad1": ("bert_tf.commands.tasks.squad", "spans that answer questions, as SQuAD 1.1"),
    "squad2": ("bert_tf.commands.tasks.squad2", "spans that answer questions, some without an answer, as SQuAD 2.0"),
    "ner": ("bert_tf.commands.tasks.ner", "named entities: CoNLL-2003, WNUT, WikiANN and the like"),
    "swag": ("bert_tf.commands.tasks.swag", "the best of several endings: SWAG, and any file of its header"),
}


def family(name: str) -> ModuleType:
    """Returns the module of a task."""
    return importlib.import_module(TASKS[name][0])

"""Tasks by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from bert_tf.tasks.base import Task

# Name to module and class, imported lazily.
TASKS: dict[str, tuple[str, str]] = {
    "classify": ("bert_tf.tasks.classify.task", "ClassifyTask"),
    "regression": ("bert_tf.tasks.classify.task", "RegressionTask"),
    "cola": ("bert_tf.tasks.glue.tasks", "ColaTask"),
    "sst2": ("bert_tf.tasks.glue.tasks", "Sst2Task"),
    "mrpc": ("bert_tf.tasks.glue.tasks", "MrpcTask"),
    "stsb": ("bert_tf.tasks.glue.tasks", "StsbTask"),
    "qqp": ("bert_tf.tasks.glue.tasks", "QqpTask"),
    "mnli": ("bert_tf.tasks.glue.tasks", "MnliTask"),
    "qnli": ("bert_tf.tasks.glue.tasks", "QnliTask"),
    "rte": ("bert_tf.tasks.glue.tasks", "RteTask"),
    "wnli": ("bert_tf.tasks.glue.tasks", "WnliTask"),
    "ax": ("bert_tf.tasks.glue.tasks", "DiagnosticTask"),
    "squad1": ("bert_tf.tasks.squad.task", "Squad1Task"),
    "squad2": ("bert_tf.tasks.squad.task", "Squad2Task"),
    "ner": ("bert_tf.tasks.ner.task", "NerTask"),
    "swag": ("bert_tf.tasks.swag.task", "SwagTask"),
}


def task_class(name: str) -> type[Task]:
    """Returns the class of a task. Raises ValueError for an unknown name.

    Example:
        >>> task = bert_tf.task_class("sst2")()
        >>> task.name, task.metric
        ('sst2', 'accuracy')
    """
    if name not in TASKS:
        raise ValueError(f"the task must be one of {', '.join(TASKS)}. Received: {name!r}")
    module, attribute = TASKS[name]
    return getattr(importlib.import_module(module), attribute)


def task_of(description: Mapping[str, Any]) -> tuple[Task, int]:
    """Returns the task of a preset's task.json, and the maximum tokens of a row.

    Args:
        description: the contents of task.json.

    Raises:
        ValueError: for an unknown task or unknown fields.
    """
    fields = dict(description)
    cls = task_class(str(fields.pop("task", "")))
    length = fields.pop("max_sequence_length", cls.default_length)
    if type(length) is not int or length < 1:
        raise ValueError(f"`max_sequence_length` must be an integer of at least 1. Received: {length!r}")
    try:
        return cls.from_description(fields), length
    except TypeError as error:
        raise ValueError(f"task.json does not describe the task `{cls.name}`: {error}") from error

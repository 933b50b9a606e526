"""Registry of tasks. A new task is a folder, and one line in `TASKS`.

| in the folder | declares |
|---|---|
| `entry.py`: `ENTRIES` of `tasks.entry.TaskEntry` | name, help, files and arguments on the command line |
| a subclass of `tasks.base.Task` | file format, encoding, head, metrics, page, labels of converted models |

The class of the model from `Task.build` determines the signatures of an export (`export.signatures`).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bert_tf.tasks.entry import ScoreEntry, TaskEntry
from bert_tf.tasks.triviaqa.entry import ENTRIES as TRIVIAQA

if TYPE_CHECKING:
    from bert_tf.config import BertConfig
    from bert_tf.tasks.base import Task


def entries_of(module: str) -> dict[str, TaskEntry]:
    """Returns the entries of a module by name: its `ENTRIES`."""
    return {entry.name: entry for entry in importlib.import_module(module).ENTRIES}


# By name, in the order of the command line.
TASKS: dict[str, TaskEntry] = {
    **entries_of("bert_tf.tasks.glue.entry"),
    **entries_of("bert_tf.tasks.classify.entry"),
    **entries_of("bert_tf.tasks.squad.entry"),
    **entries_of("bert_tf.tasks.ner.entry"),
    **entries_of("bert_tf.tasks.swag.entry"),
}


def command_line_tasks() -> dict[str, TaskEntry]:
    """Returns the tasks that have a name on the command line; the others are variants of these."""
    return {name: entry for name, entry in TASKS.items() if entry.help}


def scored() -> dict[str, ScoreEntry]:
    """Returns the entries of `score`: the tasks of the command line, and data sets with a metric of their own."""
    return {**command_line_tasks(), **{entry.name: entry for entry in TRIVIAQA}}


def task_class(name: str) -> type[Task]:
    """Returns the class of a task. Raises ValueError for an unknown name.

    Example:
        >>> task = bert_tf.task_class("sst2")()
        >>> task.name, task.metric
        ('sst2', 'accuracy')
    """
    if name not in TASKS:
        raise ValueError(f"the task must be one of {', '.join(TASKS)}. Received: {name!r}")
    return TASKS[name].task_class


def task_of(description: Mapping[str, Any]) -> tuple[Task, int]:
    """Returns the task of a preset's task.json, and the maximum tokens of a row. Raises ValueError if it is invalid."""
    fields = dict(description)
    cls = task_class(str(fields.pop("task", "")))
    length = fields.pop("max_sequence_length", cls.max_sequence_length)
    if type(length) is not int or length < 1:
        raise ValueError(f"`max_sequence_length` must be an integer of at least 1. Received: {length!r}")
    try:
        return cls.from_description(fields), length
    except TypeError as error:
        raise ValueError(f"task.json does not describe the task `{cls.name}`: {error}") from error


def with_default_task(description: Mapping[str, Any], config: BertConfig) -> Mapping[str, Any]:
    """Returns a task.json whose `task` is the task of a head of another program; otherwise unchanged.

    A head for spans has no default, because its model may or may not find that there is no answer. Raises ValueError if
    the labels do not match the task.
    """
    kind, labels = str(description.get("task")), description.get("labels")
    tasks = {"sequence_classification": "classify", "token_classification": "ner", "multiple_choice": "swag"}
    if kind not in tasks or not (isinstance(labels, list) or kind == "multiple_choice"):
        return description
    name = "regression" if kind == "sequence_classification" and labels and len(labels) == 1 else tasks[kind]
    return task_json_for_head(task_class(name)(), description, config)


def task_json_for_head(
    task: Task, head: Mapping[str, Any], config: BertConfig, labels: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the contents of task.json for a converted model, whose checkpoint has a head but no task.

    `task` is the task before `fit_labels`. `head` has `task`, the kind of the head, and `labels`, the class names if it
    has classes. `labels`, in the order of the model's outputs, replaces them. Raises ValueError if the task needs
    another head, or the class names do not match the task's labels.
    """
    kind = head.get("task", "")
    if not kind or kind != task.head:
        raise ValueError(f"the task `{task.name}` does not match the source's head. Received: {kind or 'no head'}")
    names = tuple(labels or head.get("labels", ()))
    if len(names) != len(head.get("labels", ())):
        raise ValueError(f"`labels` must name the {len(head.get('labels', ()))} outputs. Received: {', '.join(names)}")
    length = min(task.max_sequence_length, config.max_sequence_length)
    return {"task": task.name, "max_sequence_length": length, **task.import_labels(names).description()}

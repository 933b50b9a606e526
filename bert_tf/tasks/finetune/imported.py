"""Builds `task.json` for imported checkpoints, which carry a head and labels but no task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bert_tf.config import BertConfig
from bert_tf.tasks.base import Task
from bert_tf.tasks.classify.base import NumberTask, TextTask
from bert_tf.tasks.ner.tags import OUTSIDE
from bert_tf.tasks.ner.task import NerTask
from bert_tf.tasks.squad.task import Squad1Task
from bert_tf.tasks.swag.task import SwagTask

# Heads by their name in conversions, and the tasks that use them.
HEADS: dict[str, tuple[type[Task], ...]] = {
    "sequence_classification": (TextTask, NumberTask),
    "token_classification": (NerTask,),
    "question_answering": (Squad1Task,),
    "multiple_choice": (SwagTask,),
}
# Prefix of the default class names in transformers.
_UNNAMED = "LABEL_"


def task_json_for_head(
    task: Task, head: Mapping[str, Any], config: BertConfig, labels: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the contents of task.json for a converted model.

    Args:
        task: the task that the model was fine-tuned for, before `fit_labels`.
        head: the converted head: `task`, one of `HEADS`, and `labels`, the class names if it has classes.
        config: the encoder's configuration.
        labels: class names in the order of the model's outputs; () uses the head's labels.

    Raises:
        ValueError: if the task needs another head, or the class names do not match the task's labels.
    """
    kind = head.get("task", "")
    if not isinstance(task, HEADS.get(kind, ())):
        raise ValueError(f"the task `{task.name}` does not match the source's head. Received: {kind or 'no head'}")
    names = tuple(labels or head.get("labels", ()))
    if len(names) != len(head.get("labels", ())):
        raise ValueError(f"`labels` must name the {len(head.get('labels', ()))} outputs. Received: {', '.join(names)}")
    if isinstance(task, NumberTask) and len(names) != 1:
        raise ValueError(f"the task `{task.name}` needs a head of one output. Received: {len(names)}")
    if isinstance(task, TextTask):
        task = replace(task, labels=class_names(task.labels, names))
    if isinstance(task, NerTask):
        task = replace(task, labels=_tags(names), scheme=task.scheme or "IOB2")
    length = min(task.default_length, config.max_sequence_length)
    return {"task": task.name, "max_sequence_length": length, **task.description()}


def class_names(wanted: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Returns the task's labels in the order of the model's outputs.

    Names are compared without case, and `-` equals `_`. Default names (`LABEL_0`, `LABEL_1`, ...) match the labels 0,
    1, ... if the task has these.

    Args:
        wanted: the task's labels, in any order; () returns `names` unchanged.
        names: the source's class names.

    Raises:
        ValueError: if the names do not match the labels.
    """
    if not wanted:
        return tuple(names)
    known = {_folded(label): label for label in wanted}
    labels = [known.get(_folded(name.removeprefix(_UNNAMED)), "") for name in names]
    if sorted(labels) != sorted(wanted):
        raise ValueError(
            f"`labels` must name the classes, {', '.join(wanted)}, in the order of the model's outputs. "
            f"Received: {', '.join(names)}"
        )
    return tuple(labels)


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")


def _tags(names: Sequence[str]) -> tuple[str, ...]:
    wrong = [name for name in names if name != OUTSIDE and name[:2] not in ("B-", "I-")]
    if wrong or OUTSIDE not in names:
        raise ValueError(
            f"`labels` must be {OUTSIDE}, and B- and I- with a type, in the order of the model's outputs. "
            f"Received: {', '.join(names)}"
        )
    return tuple(names)

"""Tasks for models that other programs fine-tuned: a converted preset knows its head and its classes, but no task."""

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

# What a conversion calls a head, and the tasks that it may have been learnt for.
HEADS: dict[str, tuple[type[Task], ...]] = {
    "sequence_classification": (TextTask, NumberTask),
    "token_classification": (NerTask,),
    "question_answering": (Squad1Task,),
    "multiple_choice": (SwagTask,),
}
# What transformers calls classes without a name.
_UNNAMED = "LABEL_"


def task_json_for_head(
    task: Task, head: Mapping[str, Any], config: BertConfig, labels: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns task.json of a converted model.

    Args:
        task: what it was fine-tuned for, not fitted.
        head: what the conversion knows: `task`, one of `HEADS`, and where it has classes their names as `labels`.
        config: the encoder's.
        labels: names of the classes in the order of the model's outputs; () takes the head's.

    Raises:
        ValueError: for a task that has another head, or names of classes that are not the task's.
    """
    kind = head.get("task", "")
    if not isinstance(task, HEADS.get(kind, ())):
        raise ValueError(f"the task `{task.name}` is not one for the head of the source. Received: {kind or 'no head'}")
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
    """Returns the names of classes as a task has them, in the order of the model's outputs.

    Case, `-` and `_` do not count; classes without a name are the labels 0, 1, ... where the task's labels are these.

    Args:
        wanted: the task's labels, in any order; () takes `names` as they are.
        names: what the source calls its classes.

    Raises:
        ValueError: where these are not the same.
    """
    if not wanted:
        return tuple(names)
    known = {_folded(label): label for label in wanted}
    found = [known.get(_folded(name.removeprefix(_UNNAMED)), "") for name in names]
    if sorted(found) != sorted(wanted):
        raise ValueError(
            f"`labels` must name the classes, {', '.join(wanted)}, in the order of the model's outputs. "
            f"Received: {', '.join(names)}"
        )
    return tuple(found)


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

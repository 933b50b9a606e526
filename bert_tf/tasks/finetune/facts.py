"""Facts about the data of a fine-tuning run, for its page, its preset and the model card of an export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bert_tf.models import Preset
from bert_tf.tasks.base import Task
from bert_tf.tasks.entry import TaskFiles

# Examples to select the sample from, and the most characters that a reader takes in at once.
_LOOKED_AT, _READABLE = 200, 600


def data_facts(sources: TaskFiles, examples: Sequence[Any], source: Preset) -> dict[str, Any]:
    """Returns the name of the training file, the number of its examples, and the languages of the encoder, if known.

    Args:
        sources: the files of the task.
        examples: all training examples.
        source: the preset to start from.

    Returns:
        `data_name`, `train_examples` and, if the preset has them, `languages`.
    """
    first, *more = ("/".join(path.absolute().parts[-2:]) for path in sources.training)
    name = f"{first} and {len(more)} more" if more else first
    languages = {"languages": source.info["languages"]} if "languages" in source.info else {}
    return {"data_name": name, "train_examples": len(examples), **languages}


def sample_inputs(task: Task, examples: Sequence[Any]) -> dict[str, Any]:
    """Returns the inputs of an exported model for one example: the first one of readable length, else the shortest.

    Args:
        task: the task.
        examples: examples of the development set.

    Returns:
        Texts by input name, as `Task.serving_inputs` returns them; {} for a task without such inputs.
    """
    inputs = [task.serving_inputs(example) for example in examples[:_LOOKED_AT]]
    readable = (sample for sample in inputs if _size(sample) <= _READABLE)
    return next(readable, min(inputs, key=_size, default={}))


def _size(inputs: dict[str, Any]) -> int:
    """Returns the number of characters of all inputs."""
    return sum(len("".join(value)) for value in inputs.values())

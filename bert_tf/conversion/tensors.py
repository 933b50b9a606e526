"""The one layout that every form of a checkpoint is read to and written from: the original's names and shapes.

Kernels are (inputs, outputs); the output weights of heads are (outputs, H), as the original has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bert_tf.config import BertConfig

# What a task puts on the encoder, by the kind of its preset.
TASK_HEADS = {
    "BertTextClassifier": "sequence_classification",
    "BertTokenClassifier": "token_classification",
    "BertSpanPredictor": "question_answering",
    "BertMultipleChoice": "multiple_choice",
}
# Where the output weights of a task's head are. The original has the first and the third; it leaves the others to its
# users, and ignores what it does not know.
TASK_PREFIXES = {
    "sequence_classification": "",
    "token_classification": "cls/token/",
    "question_answering": "cls/squad/",
    "multiple_choice": "cls/choice/",
}
# The number of outputs where the task leaves no choice: start and end; one score.
FIXED_OUTPUTS = {"question_answering": 2, "multiple_choice": 1}
MLM_BIAS = "cls/predictions/output_bias"
WORD_EMBEDDINGS = "bert/embeddings/word_embeddings"


class ConversionError(ValueError):
    """A checkpoint that cannot be read, or written in the form asked for; the message says why."""


@dataclass(frozen=True)
class Tensor:
    """One array of a checkpoint, read when it is asked for.

    Args:
        name: in the checkpoint it comes from.
        shape: in the original's layout.
        read: returns the array in the original's layout, in the number format it is kept in.
    """

    name: str
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


@dataclass(frozen=True)
class Heads:
    """What stands on the encoder.

    Args:
        masked_lm: the masked language model's.
        next_sentence: the one of next sentence prediction.
        task: a value of `TASK_HEADS`, or None.
        num_labels: outputs of the task's head, C.
    """

    masked_lm: bool = False
    next_sentence: bool = False
    task: str | None = None
    num_labels: int | None = None

    def names(self) -> list[str]:
        """Returns the heads by name."""
        named = {"masked_lm": self.masked_lm, "next_sentence": self.next_sentence}
        return [name for name, present in named.items() if present] + ([self.task] if self.task else [])


def expected_shapes(config: BertConfig, heads: Heads) -> dict[str, tuple[int, ...]]:
    """Returns the shape of every tensor of a model by its name, in the original's order.

    Args:
        config: the encoder's architecture.
        heads: what stands on it.
    """
    hidden = config.hidden_dim
    shapes = dict(_encoder(config))
    if config.pooler:
        shapes.update(_dense("bert/pooler/dense", hidden, hidden))
    if heads.masked_lm:
        shapes.update(_dense("cls/predictions/transform/dense", hidden, hidden))
        shapes.update(_normalization("cls/predictions/transform/LayerNorm", hidden))
        shapes[MLM_BIAS] = (config.vocabulary_size,)
    if heads.next_sentence:
        shapes.update(_outputs("cls/seq_relationship/", 2, hidden))
    if heads.task:
        shapes.update(_outputs(TASK_PREFIXES[heads.task], heads.num_labels or FIXED_OUTPUTS[heads.task], hidden))
    return shapes


def _encoder(config: BertConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden, inner = config.hidden_dim, config.intermediate_dim
    yield WORD_EMBEDDINGS, (config.vocabulary_size, hidden)
    yield "bert/embeddings/token_type_embeddings", (config.num_segments, hidden)
    yield "bert/embeddings/position_embeddings", (config.max_sequence_length, hidden)
    yield from _normalization("bert/embeddings/LayerNorm", hidden)
    for number in range(config.num_layers):
        layer = f"bert/encoder/layer_{number}"
        for name in ("query", "key", "value"):
            yield from _dense(f"{layer}/attention/self/{name}", hidden, hidden)
        yield from _dense(f"{layer}/attention/output/dense", hidden, hidden)
        yield from _normalization(f"{layer}/attention/output/LayerNorm", hidden)
        yield from _dense(f"{layer}/intermediate/dense", hidden, inner)
        yield from _dense(f"{layer}/output/dense", inner, hidden)
        yield from _normalization(f"{layer}/output/LayerNorm", hidden)


def _dense(name: str, inputs: int, outputs: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}/kernel", (inputs, outputs)
    yield f"{name}/bias", (outputs,)


def _normalization(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}/gamma", (width,)
    yield f"{name}/beta", (width,)


def _outputs(prefix: str, outputs: int, hidden: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{prefix}output_weights", (outputs, hidden)
    yield f"{prefix}output_bias", (outputs,)


def checked_rate(value: object, where: str) -> float:
    """Returns a dropout rate of a foreign file. Raises ConversionError, beginning with `where`, for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0.0 <= value < 1.0:
        raise ConversionError(f"{where} must be a number in [0, 1). Received: {value!r}")
    return float(value)


def heads_among(names: Mapping[str, object], shape: Callable[[str], tuple[int, ...]]) -> Heads:
    """Returns the heads whose tensors are among `names`.

    Args:
        names: those of a checkpoint, in the original's form; values are not looked at.
        shape: of a tensor by its name.

    Raises:
        ConversionError: where there are output weights of more than one task.
    """
    tasks = [task for task, prefix in TASK_PREFIXES.items() if f"{prefix}output_weights" in names]
    if len(tasks) > 1:
        raise ConversionError(f"a checkpoint must have the output weights of one task. Received: {', '.join(tasks)}")
    task = tasks[0] if tasks else None
    return Heads(
        masked_lm=MLM_BIAS in names,
        next_sentence="cls/seq_relationship/output_weights" in names,
        task=task,
        num_labels=shape(f"{TASK_PREFIXES[task]}output_weights")[0] if task else None,
    )


def check_tensors(
    tensors: Mapping[str, Tensor], config: BertConfig, heads: Heads, source: object, *, surplus: bool = False
) -> None:
    """Makes sure that a checkpoint holds the tensors of its model, no other, and of the right shapes.

    Args:
        tensors: by the original's names.
        config: what the checkpoint says of itself.
        heads: what stands on the encoder.
        source: the file or directory, for the message.
        surplus: whether tensors of no such model are let through.

    Raises:
        ConversionError: naming every tensor that is missing, too many or of another shape.
    """
    expected = expected_shapes(config, heads)
    faults = [f"missing: {name} {shape}" for name, shape in expected.items() if name not in tensors]
    if not surplus:
        faults += [f"unknown: {tensor.name}" for name, tensor in tensors.items() if name not in expected]
    faults += [
        f"{tensors[name].name}: must have shape {shape} by the configuration. Received: {tensors[name].shape}"
        for name, shape in expected.items()
        if name in tensors and tensors[name].shape != shape
    ]
    if faults:
        raise ConversionError(f"{source}: tensors do not fit the configuration:\n  " + "\n  ".join(faults))

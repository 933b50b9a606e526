"""Tensor names in Hugging Face's files, and the heads of transformers' classes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.conversion.tensor_file import FLOATS, StoredTensor
from bert_tf.conversion.tensors import MLM_BIAS, TASK_PREFIXES, ConversionError, Heads, Tensor, expected_shapes

# Heads of each class.
CLASSES: dict[str, Heads] = {
    "BertModel": Heads(),
    "BertForPreTraining": Heads(masked_lm=True, next_sentence=True),
    "BertForMaskedLM": Heads(masked_lm=True),
    "BertLMHeadModel": Heads(masked_lm=True),
    "BertForNextSentencePrediction": Heads(next_sentence=True),
    "BertForSequenceClassification": Heads(task="sequence_classification"),
    "BertForTokenClassification": Heads(task="token_classification"),
    "BertForQuestionAnswering": Heads(task="question_answering"),
    "BertForMultipleChoice": Heads(task="multiple_choice"),
}
_ON_POOLER = ("sequence_classification", "multiple_choice")
_POOLER = "pooler.dense.weight"
_MASKED_LM = "cls.predictions.transform.dense.weight"
_NEXT_SENTENCE = "cls.seq_relationship.weight"
_CLASSIFIER, _SPANS = "classifier.weight", "qa_outputs.weight"
_WORDS = "embeddings.word_embeddings.weight"
_BIAS = "cls.predictions.bias"
_TIED = {"cls.predictions.decoder.weight": _WORDS, "cls.predictions.decoder.bias": _BIAS}
# Index tensors that older versions of the library stored with the weights.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
_OWN = ("bert.", "embeddings.", "encoder.", "pooler.", "cls.", "classifier.", "qa_outputs.")
_OTHERS = {
    "roberta": "RoBERTa",
    "distilbert": "DistilBERT",
    "albert": "ALBERT",
    "electra": "ELECTRA",
    "deberta": "DeBERTa",
    "xlm": "XLM",
    "transformer": "a transformer of another kind",
    "mpnet": "MPNet",
    "camembert": "CamemBERT",
    "mobilebert": "MobileBERT",
    "convbert": "ConvBERT",
}


@dataclass(frozen=True)
class Weights:
    """The tensors of a model by the names of BertForPreTraining and similar classes, without `bert.`.

    Args:
        tensors: tensors of the model.
        left_out: names in the file of tensors that the model does not need.
    """

    tensors: Mapping[str, StoredTensor]
    left_out: tuple[str, ...] = field(default=())


def plain(stored: Mapping[str, StoredTensor], config: BertConfig, source: Path) -> Weights:
    """Returns tensors by the current names of the library, without copies and index tables.

    Args:
        stored: tensors by their names in the files.
        config: architecture of the encoder.
        source: directory, for the error message.

    Raises:
        ConversionError: for names of a wrapper or another architecture, duplicate names, output weights of the masked
            language model that differ from the embedding, or unusual index tables.
    """
    _refuse_wrappers(stored, source)
    tensors: dict[str, StoredTensor] = {}
    for tensor in stored.values():
        name = _present_name(tensor.name)
        if name in tensors:
            raise ConversionError(f"{source}: `{tensor.name}` and `{tensors[name].name}` are names of one tensor.")
        tensors[name] = tensor
    left_out = []
    for name in _BUFFERS:
        if name in tensors:
            buffer = tensors.pop(name)
            _check_buffer(name, buffer, config, source)
            left_out.append(buffer.name)
    if _BIAS not in tensors and "cls.predictions.decoder.bias" in tensors:
        tensors[_BIAS] = tensors.pop("cls.predictions.decoder.bias")
    for name, twin in _TIED.items():
        if name in tensors and twin in tensors:
            copy = tensors.pop(name)
            _check_tied(copy, tensors[twin], source)
            left_out.append(copy.name)
    return Weights(tensors, tuple(left_out))


def heads_of(
    tensors: Mapping[str, StoredTensor], architecture: str | None, config: Mapping[str, Any], source: Path
) -> Heads:
    """Returns the heads on the encoder, from the tensors; the class defines the task of a classifier.

    Args:
        tensors: tensors by the names of `plain`.
        architecture: class that config.json names; None if it names none.
        config: content of config.json.
        source: directory, for the error message.

    Raises:
        ConversionError: if tensors of the class are missing, there are tensors of another task, or the task of the
            classifier is unknown.
    """
    present = {
        "masked_lm": _MASKED_LM in tensors,
        "next_sentence": _NEXT_SENTENCE in tensors,
        "classifier": _CLASSIFIER in tensors,
        "question_answering": _SPANS in tensors,
    }
    if architecture is None:
        task = _guessed_task(tensors, config, source)
        return Heads(present["masked_lm"], present["next_sentence"], task)
    wanted = CLASSES[architecture]
    needed = [name for name in (_MASKED_LM,) if wanted.masked_lm]
    needed += [name for name in (_NEXT_SENTENCE,) if wanted.next_sentence]
    if wanted.task:
        needed.append(_SPANS if wanted.task == "question_answering" else _CLASSIFIER)
    if wanted.next_sentence or wanted.task in _ON_POOLER:
        needed.append(_POOLER)
    missing = [name for name in needed if name not in tensors]
    strange = [_CLASSIFIER] if present["classifier"] and wanted.task in (None, "question_answering") else []
    strange += [_SPANS] if present["question_answering"] and wanted.task != "question_answering" else []
    if wanted.task:
        strange += [name for name in (_MASKED_LM, _NEXT_SENTENCE) if name in tensors]
    if missing or strange:
        faults = [f"missing: {name}" for name in missing] + [f"of another class: {name}" for name in strange]
        raise ConversionError(
            f"{source}: tensors must be those of {architecture}, as in config.json:\n  " + "\n  ".join(faults)
        )
    return Heads(present["masked_lm"], present["next_sentence"], wanted.task)


def has_pooler(tensors: Mapping[str, StoredTensor]) -> bool:
    """Returns True if there is a pooler among tensors by the names of `plain`."""
    return _POOLER in tensors


def names(config: BertConfig, heads: Heads) -> dict[str, str]:
    """Returns Hugging Face's names, without `bert.`, by the original's names and in the original's order."""
    return {name: _name(name, heads.task) for name in expected_shapes(config, heads)}


def canonical(tensors: Mapping[str, StoredTensor], config: BertConfig, heads: Heads) -> dict[str, Tensor]:
    """Returns tensors by the original's names and in its layout; unknown tensors keep their names.

    Args:
        tensors: tensors by the names of `plain`.
        config: architecture of the encoder.
        heads: heads on the encoder.

    Raises:
        ConversionError: for a tensor of the model whose dtype is not one of `tensor_file.FLOATS`.
    """
    originals = {theirs: ours for ours, theirs in names(config, heads).items()}
    result = {}
    for name, tensor in tensors.items():
        ours = originals.get(name, tensor.name)
        if name in originals and tensor.dtype not in FLOATS:
            raise ConversionError(
                f"{tensor.file}: tensor `{tensor.name}` must have dtype {', '.join(FLOATS)}. Received: {tensor.dtype}"
            )
        turned = ours.endswith("/kernel")
        shape = tensor.shape[::-1] if turned else tensor.shape
        result[ours] = Tensor(tensor.name, shape, _Transposed(tensor) if turned else tensor.read)
    ordered = [name for name in originals.values() if name in result]
    return {name: result[name] for name in [*ordered, *(name for name in result if name not in set(ordered))]}


def number_format(tensors: Iterable[StoredTensor]) -> str:
    """Returns the dtype that holds all tensors exactly."""
    kinds = {tensor.dtype for tensor in tensors}
    return kinds.pop() if len(kinds) == 1 else "float32"


@dataclass(frozen=True)
class _Transposed:
    tensor: StoredTensor

    def __call__(self) -> np.ndarray:
        return self.tensor.read().T


def _name(name: str, task: str | None) -> str:
    if name == MLM_BIAS:
        return _BIAS
    if task and name.startswith(f"{TASK_PREFIXES[task]}output_"):
        head = "qa_outputs" if task == "question_answering" else "classifier"
        return f"{head}.{'weight' if name.endswith('weights') else 'bias'}"
    if name.startswith("bert/embeddings/") and name.endswith("embeddings"):
        return f"{name.removeprefix('bert/').replace('/', '.')}.weight"
    ends = {"kernel": "weight", "gamma": "weight", "beta": "bias", "output_weights": "weight", "output_bias": "bias"}
    parts = re.sub(r"layer_(\d+)", r"layer/\1", name.removeprefix("bert/")).split("/")
    return ".".join([*parts[:-1], ends.get(parts[-1], parts[-1])])


def _present_name(name: str) -> str:
    name = name.removeprefix("bert.")
    for old, new in (("gamma", "weight"), ("beta", "bias")):
        if name.endswith(f"LayerNorm.{old}"):
            return name.removesuffix(old) + new
    return name


def _refuse_wrappers(stored: Mapping[str, StoredTensor], source: Path) -> None:
    strange = [name for name in stored if not name.startswith(_OWN)]
    if not strange:
        return
    first = strange[0].partition(".")[0]
    if first in _OTHERS:
        raise ConversionError(f"{source}: must be BERT. Received: {_OTHERS[first]}, by tensor `{strange[0]}`")
    if any(name.partition(".")[2].startswith(_OWN) for name in strange):
        raise ConversionError(
            f"{source}: tensors must have the names of a model that is saved without a wrapper. "
            f"Received: the prefix `{first}.` of a wrapper, as in `{strange[0]}`"
        )


def _check_buffer(name: str, buffer: StoredTensor, config: BertConfig, source: Path) -> None:
    length = config.max_sequence_length
    wanted = np.arange(length) if name.endswith("position_ids") else np.zeros(length)
    if buffer.shape not in ((1, length), (length,)) or not np.array_equal(buffer.read().reshape(-1), wanted):
        rule = f"0 to {length - 1}" if name.endswith("position_ids") else f"{length} zeros"
        raise ConversionError(f"{source}: `{buffer.name}` must be {rule}. Received: shape {buffer.shape}")


def _check_tied(copy: StoredTensor, tensor: StoredTensor, source: Path) -> None:
    if copy.place is not None and copy.place == tensor.place:
        return
    if copy.shape != tensor.shape or copy.dtype != tensor.dtype or not np.array_equal(copy.read(), tensor.read()):
        raise ConversionError(
            f"{source}: `{copy.name}` must be equal to `{tensor.name}`, since BERT's output weights are its embedding. "
            f"Received: {copy.dtype} {copy.shape} with other values or another shape or dtype than {tensor.dtype} "
            f"{tensor.shape}"
        )


def _guessed_task(tensors: Mapping[str, StoredTensor], config: Mapping[str, Any], source: Path) -> str | None:
    if _SPANS in tensors:
        return "question_answering"
    if _CLASSIFIER not in tensors:
        return None
    if _POOLER not in tensors:
        return "token_classification"
    if config.get("finetuning_task") or config.get("problem_type"):
        return "sequence_classification"
    raise ConversionError(
        f"{source}: config.json must name the class in `architectures`, such as BertForSequenceClassification, because "
        f"tensor `{tensors[_CLASSIFIER].name}` may classify texts, tokens or choices. Received: no `architectures`"
    )

"""Tensor names in Hugging Face's files, and the heads of transformers' classes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.conversion.formats.name_table import NameTable, StoredTensor, by_name
from bert_tf.conversion.tensors import MLM_BIAS, WORD_EMBEDDINGS, ConversionError, Heads

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
_LAYER = (
    "attention/self/query",
    "attention/self/key",
    "attention/self/value",
    "attention/output/dense",
    "attention/output/LayerNorm",
    "intermediate/dense",
    "output/dense",
    "output/LayerNorm",
)
# Names of BertForPreTraining and similar classes, without `bert.`.
TABLE = NameTable(
    rows={
        WORD_EMBEDDINGS: "embeddings.word_embeddings.weight",
        "bert/embeddings/token_type_embeddings": "embeddings.token_type_embeddings.weight",
        "bert/embeddings/position_embeddings": "embeddings.position_embeddings.weight",
        "bert/embeddings/LayerNorm": "embeddings.LayerNorm",
        **{f"bert/encoder/layer_{{i}}/{part}": f"encoder.layer.{{i}}.{part.replace('/', '.')}" for part in _LAYER},
        "bert/pooler/dense": "pooler.dense",
        "cls/predictions/transform/dense": "cls.predictions.transform.dense",
        "cls/predictions/transform/LayerNorm": "cls.predictions.transform.LayerNorm",
        MLM_BIAS: "cls.predictions.bias",
        "cls/seq_relationship": "cls.seq_relationship",
        "": "classifier",
        "cls/token": "classifier",
        "cls/squad": "qa_outputs",
        "cls/choice": "classifier",
    },
    kinds=dict.fromkeys(("kernel", "gamma", "output_weights"), ".weight")
    | dict.fromkeys(("bias", "beta", "output_bias"), ".bias"),
    transposed=("/kernel",),
)
_ON_POOLER = ("sequence_classification", "multiple_choice")
POOLER = "pooler.dense.weight"
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


def common_names(
    stored: Mapping[str, StoredTensor], config: BertConfig, source: Path
) -> tuple[dict[str, StoredTensor], tuple[str, ...]]:
    """Returns tensors by the names of `TABLE`, and the stored names of copies and index tables, which are left out.

    Raises ConversionError for names of a wrapper or another architecture, duplicate names, output weights of the masked
    language model that differ from the embedding, or unusual index tables.
    """
    _refuse_wrappers(stored, source)
    tensors = by_name(stored.values(), lambda tensor: _present_name(tensor.name))
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
    return tensors, tuple(left_out)


def heads_of(
    tensors: Mapping[str, StoredTensor], architecture: str | None, config: Mapping[str, Any], source: Path
) -> Heads:
    """Returns the heads on the encoder, by tensors and class. Raises ConversionError if these contradict each other."""
    masked_lm, next_sentence = _MASKED_LM in tensors, _NEXT_SENTENCE in tensors
    if architecture is None:
        return Heads(masked_lm, next_sentence, _guessed_task(tensors, config, source))
    wanted = CLASSES[architecture]
    output = _SPANS if wanted.task == "question_answering" else _CLASSIFIER if wanted.task else ""
    needed = {
        _MASKED_LM: wanted.masked_lm,
        _NEXT_SENTENCE: wanted.next_sentence,
        output: bool(wanted.task),
        POOLER: wanted.next_sentence or wanted.task in _ON_POOLER,
    }
    faults = [f"missing: {name}" for name, is_needed in needed.items() if is_needed and name not in tensors]
    strange = [name for name in (_CLASSIFIER, _SPANS) if name != output]
    strange += [_MASKED_LM, _NEXT_SENTENCE] if wanted.task else []
    faults += [f"of another class: {name}" for name in strange if name in tensors]
    if faults:
        raise ConversionError(
            f"{source}: tensors must be those of {architecture}, as in config.json:\n  " + "\n  ".join(faults)
        )
    return Heads(masked_lm, next_sentence, wanted.task)


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
    if POOLER not in tensors:
        return "token_classification"
    if config.get("finetuning_task") or config.get("problem_type"):
        return "sequence_classification"
    raise ConversionError(
        f"{source}: config.json must name the class in `architectures`, such as BertForSequenceClassification, because "
        f"tensor `{tensors[_CLASSIFIER].name}` may classify texts, tokens or choices. Received: no `architectures`"
    )

"""Names and configuration of transformers' ModernBERT, whose encoder is the body `modern`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config import BertConfig, from_dict
from bert_tf.config.model import BODIES
from bert_tf.conversion.checkpoint import Checkpoint, conversion_errors
from bert_tf.conversion.formats.name_table import NameTable, StoredTensor, by_name
from bert_tf.conversion.tensors import MLM_BIAS, WORD_EMBEDDINGS, ConversionError, Heads

MODEL_TYPE = "modernbert"
CLASSES: dict[str, Heads] = {
    "ModernBertModel": Heads(),
    "ModernBertForMaskedLM": Heads(masked_lm=True),
    "ModernBertForSequenceClassification": Heads(task="sequence_classification"),
    "ModernBertForTokenClassification": Heads(task="token_classification"),
    "ModernBertForQuestionAnswering": Heads(task="question_answering"),
    "ModernBertForMultipleChoice": Heads(task="multiple_choice"),
}
POOLING_NAMES = {"cls": "first", "mean": "mean"}
_LAYER = "bert/encoder/layer_{i}"
# Names without `model.`; query, key and value are parts of one tensor.
TABLE = NameTable(
    rows={
        WORD_EMBEDDINGS: "embeddings.tok_embeddings.weight",
        "bert/embeddings/LayerNorm": "embeddings.norm",
        f"{_LAYER}/attention/self/query": "layers.{i}.attn.Wqkv.0",
        f"{_LAYER}/attention/self/key": "layers.{i}.attn.Wqkv.1",
        f"{_LAYER}/attention/self/value": "layers.{i}.attn.Wqkv.2",
        f"{_LAYER}/attention/output/dense": "layers.{i}.attn.Wo",
        f"{_LAYER}/attention/output/LayerNorm": "layers.{i}.attn_norm",
        f"{_LAYER}/intermediate/dense": "layers.{i}.mlp.Wi",
        f"{_LAYER}/output/dense": "layers.{i}.mlp.Wo",
        f"{_LAYER}/output/LayerNorm": "layers.{i}.mlp_norm",
        "bert/encoder/LayerNorm": "final_norm",
        "cls/predictions/transform/dense": "head.dense",
        "cls/predictions/transform/LayerNorm": "head.norm",
        "cls/head/dense": "head.dense",
        "cls/head/LayerNorm": "head.norm",
        MLM_BIAS: "decoder.bias",
        **dict.fromkeys(("", "cls/token", "cls/squad", "cls/choice"), "classifier"),
    },
    kinds=dict.fromkeys(("kernel", "gamma", "output_weights"), ".weight")
    | dict.fromkeys(("bias", "beta", "output_bias"), ".bias"),
    transposed=("/kernel",),
)
_JOINED, _PARTS = ".attn.Wqkv", 3
_WORDS, _OUTPUT = "embeddings.tok_embeddings.weight", "decoder.weight"

# Key: field of `BertConfig`, and transformers' default.
FIELDS: dict[str, tuple[str, Any]] = {
    "vocab_size": ("vocabulary_size", 50368),
    "hidden_size": ("hidden_dim", 768),
    "num_hidden_layers": ("num_layers", 22),
    "num_attention_heads": ("num_heads", 12),
    "intermediate_size": ("intermediate_dim", 1152),
    "max_position_embeddings": ("max_sequence_length", 8192),
    "mlp_dropout": ("dropout", 0.0),
    "attention_dropout": ("attention_dropout", 0.0),
    "norm_eps": ("layer_norm_epsilon", 1e-5),
    "norm_bias": ("normalization_bias", False),
    "mlp_bias": ("biases", False),
    "initializer_range": ("initializer_range", 0.02),
    "local_attention": ("local_attention", 128),
}
_EVERY, _THETA, _LOCAL_THETA = "global_attn_every_n_layers", "global_rope_theta", "local_rope_theta"
_ACTIVATIONS = ("hidden_activation", "classifier_activation")
# Keys that change the computation, and the values that the body supports.
FIXED: dict[str, tuple[Any, ...]] = {
    "decoder_bias": (True,),
    "sparse_prediction": (False, True),
    "position_embedding_type": ("absolute", "sans_pos", None),
    "tie_word_embeddings": (True, None),
    "is_decoder": (False, None),
    "quantization_config": (None,),
    "auto_map": (None,),
}
# Keys that do not affect the outputs of the model, besides those of BERT.
HARMLESS = (
    "cls_token_id", "sparse_pred_ignore_index", "deterministic_flash_attn", "reference_compile",
    "repad_logits_with_grad", "initializer_cutoff_factor", "layer_norm_eps", "gradient_checkpointing",
)  # fmt: skip
KNOWN = {
    *FIELDS, *FIXED, *HARMLESS, *_ACTIVATIONS, _EVERY, _THETA, _LOCAL_THETA, "embedding_dropout", "attention_bias",
    "classifier_bias", "classifier_pooling", "layer_types", "rope_parameters",
}  # fmt: skip
_TYPES = ("full_attention", "sliding_attention")
_ROPE = {"rope_type", "rope_theta"}


@conversion_errors()
def encoder_config(config: Mapping[str, Any], path: Path) -> BertConfig:
    """Returns the encoder's architecture. Raises ConversionError with the key that has an unsupported value."""
    for key in _ACTIVATIONS:
        if config.get(key, "gelu") not in ("gelu", "gelu_python"):
            raise ConversionError(f"{path}: `{key}` must be gelu. Received: {config[key]!r}")
    biases = {key: config.get(key, False) for key in ("mlp_bias", "attention_bias", "classifier_bias")}
    if len(set(biases.values())) > 1:
        raise ConversionError(f"{path}: {', '.join(f'`{key}`' for key in biases)} must be equal. Received: {biases}")
    rates = [config.get(key, 0.0) for key in ("embedding_dropout", "mlp_dropout")]
    if rates[0] != rates[1]:
        raise ConversionError(f"{path}: `embedding_dropout` must equal `mlp_dropout`. Received: {rates[0]}, {rates[1]}")
    fields = {name: config.get(key, default) for key, (name, default) in FIELDS.items()}
    if fields["attention_dropout"] == fields["dropout"]:
        fields["attention_dropout"] = None
    thetas = dict(zip(("rotary_theta", "local_rotary_theta"), _thetas(config, path), strict=True))
    every = {"global_attention_every": _global_every(config, fields["num_layers"], path)}
    body = {"body": "modern", "num_segments": 0, "pooler": False}
    return from_dict(BertConfig, fields | thetas | every | body, str(path))


def _global_every(config: Mapping[str, Any], layers: Any, path: Path) -> Any:
    """Returns the distance of layers that see all tokens."""
    types = config.get("layer_types")
    if types is None:
        return config.get(_EVERY, 3)
    if not isinstance(types, list) or len(types) != layers or any(kind not in _TYPES for kind in types):
        raise ConversionError(
            f"{path}: `layer_types` must name {' or '.join(_TYPES)} for each of {layers} layers. Received: {types!r}"
        )
    every = types.index(_TYPES[0], 1) if _TYPES[0] in types[1:] else len(types)
    stored = config.get(_EVERY)
    if isinstance(stored, int) and stored >= len(types) == every:
        every = stored  # No other layer sees all tokens, so the list does not tell.
    if types != [_TYPES[number % every > 0] for number in range(len(types))]:
        raise ConversionError(
            f"{path}: `layer_types` must be {_TYPES[0]} in layers 0, n, 2 n, … and {_TYPES[1]} in all others. "
            f"Received: {types!r}"
        )
    return every


def _thetas(config: Mapping[str, Any], path: Path) -> tuple[Any, Any]:
    """Returns the bases of the rotary angles of layers that see all tokens, and of the others."""
    parameters = config.get("rope_parameters")
    if parameters is None:
        everywhere = config.get(_THETA, 160_000.0)
        local = config.get(_LOCAL_THETA, 10_000.0)
        return everywhere, everywhere if local is None else local
    found = []
    for kind, default in zip(_TYPES, (160_000.0, 10_000.0), strict=True):
        own = (parameters.get(kind) or {}) if isinstance(parameters, dict) else None
        if not isinstance(own, dict) or own.get("rope_type", "default") != "default" or not own.keys() <= _ROPE:
            raise ConversionError(
                f"{path}: `rope_parameters` must have `rope_theta`, and `rope_type` = default, for "
                f"{' and '.join(_TYPES)}. Received: {parameters!r}"
            )
        found.append(own.get("rope_theta", default))
    return found[0], found[1]


def written_config(checkpoint: Checkpoint, heads: Heads) -> dict[str, Any]:
    """Returns the keys of config.json that describe the model. Raises ConversionError for other encoders."""
    config = checkpoint.config
    needed = BODIES["modern"] | {"body": "modern", "num_segments": 0, "pooler": False, "attention": "bidirectional"}
    free = {name for name, _ in FIELDS.values()} | {"global_attention_every", "rotary_theta", "local_rotary_theta"}
    others = {name: value for name, value in needed.items() if name not in free and getattr(config, name) != value}
    if others or config.mlm_head != (config.activation, config.layer_norm_epsilon) or heads.next_sentence:
        received = ", ".join(f"`{name}` = {getattr(config, name)}" for name in others) or "other heads"
        rule = ", ".join(f"`{name}` = {value}" for name, value in others.items()) or "one activation and epsilon"
        raise ConversionError(
            f"{checkpoint.path}: ModernBERT of Hugging Face needs {rule}, and no next sentence prediction. "
            f"Received: {received}"
        )
    named = next(name for name, own in CLASSES.items() if own == Heads(heads.masked_lm, False, heads.task))
    values: dict[str, Any] = {"architectures": [named], "model_type": MODEL_TYPE}
    values |= {key: getattr(config, name) for key, (name, _) in FIELDS.items()}
    if config.attention_dropout is None:
        values["attention_dropout"] = config.dropout
    every = config.global_attention_every
    values |= {
        "embedding_dropout": config.dropout,
        "attention_bias": config.biases,
        "classifier_bias": config.biases,
        "decoder_bias": True,
        "hidden_activation": "gelu",
        "classifier_activation": "gelu",
        "classifier_pooling": next(key for key, own in POOLING_NAMES.items() if own == checkpoint.pooling),
        "classifier_dropout": checkpoint.classifier_dropout or 0.0,
        # For releases of transformers before and since version 5.
        _EVERY: every,
        _THETA: config.rotary_theta,
        _LOCAL_THETA: config.local_rotary_theta,
        "layer_types": [_TYPES[number % every > 0] for number in range(config.num_layers)],
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": theta}
            for kind, theta in zip(_TYPES, (config.rotary_theta, config.local_rotary_theta), strict=True)
        },
    }  # fmt: skip
    return values


def common_names(stored: Mapping[str, StoredTensor], source: Path) -> tuple[dict[str, StoredTensor], tuple[str, ...]]:
    """Returns tensors by the names of `TABLE`, and the names of copies, which are left out.

    Raises ConversionError for output weights of the masked language model that differ from the embedding.
    """
    tensors = by_name(stored.values(), lambda tensor: tensor.name.removeprefix("model."))
    left_out = []
    if _OUTPUT in tensors and _WORDS in tensors:
        copy, words = tensors.pop(_OUTPUT), tensors[_WORDS]
        same = copy.place is not None and copy.place == words.place
        if not same and not (copy.shape == words.shape and np.array_equal(copy.read(), words.read())):
            raise ConversionError(
                f"{source}: `{copy.name}` must be equal to `{words.name}`, since the output weights of the masked "
                "language model are the embedding. Received: other values"
            )
        left_out.append(copy.name)
    return dict(_split(tensors)), tuple(left_out)


def _split(tensors: Mapping[str, StoredTensor]) -> Iterator[tuple[str, StoredTensor]]:
    """Yields tensors by name, and those of query, key and value as three."""
    for name, tensor in tensors.items():
        layer, joined, kind = name.partition(_JOINED)
        if not joined or tensor.shape[0] % _PARTS:
            yield name, tensor
            continue
        size = tensor.shape[0] // _PARTS
        for part in range(_PARTS):
            rows = slice(part * size, (part + 1) * size)
            yield (
                f"{layer}{joined}.{part}{kind}",
                replace(tensor, shape=(size, *tensor.shape[1:]), read=partial(_rows, tensor.read, rows), place=None),
            )


def _rows(read: Callable[[], np.ndarray], rows: slice) -> np.ndarray:
    return read()[rows]


def heads_of(tensors: Mapping[str, StoredTensor], architecture: str | None, source: Path) -> Heads:
    """Returns the heads. Raises ConversionError if the class is missing or lacks tensors."""
    if architecture is None:
        if any(name.startswith(("classifier.", "head.")) for name in tensors):
            raise ConversionError(
                f"{source}: config.json must name the class in `architectures`, such as ModernBertForMaskedLM, because "
                "the weights have a head. Received: no `architectures`"
            )
        return Heads()
    heads = CLASSES[architecture]
    needed = ["head.dense.weight"] if heads.names() else []
    needed += ["decoder.bias"] if heads.masked_lm else ["classifier.weight"] if heads.task else []
    if missing := [name for name in needed if name not in tensors]:
        raise ConversionError(f"{source}: tensors must be those of {architecture}. Missing: {', '.join(missing)}")
    return heads


def written_names(names: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the name in the file, and the tensors that it joins, from the names of `TABLE` by ours."""
    by_table = {table: ours for ours, table in names.items()}
    for ours, table in names.items():
        layer, joined, rest = table.partition(_JOINED)
        prefix = "model." if ours.startswith("bert/") else ""
        if not joined:
            yield prefix + table, (ours,)
        elif rest.startswith(".0"):
            kind = rest.removeprefix(".0")
            yield f"{prefix}{layer}{joined}{kind}", tuple(by_table[f"{layer}{joined}.{n}{kind}"] for n in range(_PARTS))

"""Reads and writes Hugging Face's `config.json`, and rejects values that this project's BERT does not support."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_tf.config import BertConfig, from_dict
from bert_tf.conversion.checkpoint import Checkpoint, conversion_errors, read_json
from bert_tf.conversion.formats.huggingface import modernbert
from bert_tf.conversion.formats.huggingface.names import CLASSES
from bert_tf.conversion.tensors import ConversionError, Heads

CONFIG_NAME = "config.json"
INFO_KEY = "huggingface"
# Key: field of `BertConfig`, and transformers' default.
_FIELDS: dict[str, tuple[str, Any]] = {
    "vocab_size": ("vocabulary_size", 30522),
    "hidden_size": ("hidden_dim", 768),
    "num_hidden_layers": ("num_layers", 12),
    "num_attention_heads": ("num_heads", 12),
    "intermediate_size": ("intermediate_dim", 3072),
    "max_position_embeddings": ("max_sequence_length", 512),
    "type_vocab_size": ("num_segments", 2),
    "hidden_dropout_prob": ("dropout", 0.1),
    "attention_probs_dropout_prob": ("attention_dropout", 0.1),
    "layer_norm_eps": ("layer_norm_epsilon", 1e-12),
    "initializer_range": ("initializer_range", 0.02),
}
# All tanh variants are the same function.
_TANH_GELU = ("gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate", "gelu_fast", "gelu_approximate")
ACTIVATIONS = {"gelu": "gelu", "gelu_python": "gelu"} | dict.fromkeys(_TANH_GELU, "gelu_approximate")
ACTIVATIONS |= {"relu": "relu", "tanh": "tanh"}
_WRITTEN_ACTIVATIONS = {"gelu": "gelu", "gelu_approximate": "gelu_new", "relu": "relu", "tanh": "tanh"}
# Keys that change the computation, and the values that BERT supports.
_FIXED: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "cross_attention_hidden_size": (None,),
    "is_encoder_decoder": (False, None),
    "tie_encoder_decoder": (False, None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
    "compression_config": (None,),
    "per_layer_config": (None, {}),
    "auto_map": (None,),
    "pooler_type": ("first_token_transform", None),
    "directionality": ("bidi", None),
    "tie_word_embeddings": (True, False, None),
    # Written with TinyBERT's checkpoints, and empty.
    "cell": ({}, None),
    "structure": ([], None),
    "pre_trained": ("", None),
    "problem_type": ("regression", "single_label_classification", "multi_label_classification", None),
}
_SAME_AS_HIDDEN_SIZE = ("embedding_size", "emb_size")
# Keys that are rewritten, or that concern a single run of a program.
_NOT_KEPT = (
    "model_type", "architectures", "hidden_act", "classifier_dropout", "id2label", "label2id", "num_labels",
    "_num_labels", "torch_dtype", "dtype", "transformers_version", "_name_or_path", "name_or_path", "_commit_hash",
    "pad_vocab_size_multiple_of", "tie_word_embeddings", "xla_device", "_attn_implementation", "attn_implementation",
    "_attn_implementation_autoset", "use_bfloat16", "torchscript", "gradient_checkpointing", "output_past",
)  # fmt: skip
# Keys that do not affect the outputs of the model.
_HARMLESS = (
    "chunk_size_feed_forward", "output_attentions", "output_hidden_states", "return_dict", "use_return_dict",
    "use_cache", "pad_token_id", "bos_token_id", "eos_token_id", "eos_token_ids", "sep_token_id", "cls_token_id",
    "mask_token_id", "unk_token_id", "decoder_start_token_id", "finetuning_task", "task_specific_params", "prefix",
    "tokenizer_class", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
    "language", "name", "base_model_prefix", "do_lower_case", "model_max_length", "max_seq_length",
    "sentence_transformers", "sbert_ce_default_activation_function", "sbert_ce_default_activation_fn", "summary_type",
    "tf_legacy_loss", "training", "train_batch_size", "tie_last_hidden_states", "unsloth_version",
)  # fmt: skip
# Keys of text generation, which this model does not support.
_GENERATION = (
    "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty",
    "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "output_scores",
    "return_dict_in_generate", "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values",
    "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens", "epsilon_cutoff", "eta_cutoff",
)  # fmt: skip
_KNOWN = {*_FIELDS, *_FIXED, *_SAME_AS_HIDDEN_SIZE, *_NOT_KEPT, *_HARMLESS, *_GENERATION}
_KNOWN_MODERN = {*modernbert.KNOWN, "problem_type", *_NOT_KEPT, *_HARMLESS, *_GENERATION}


def is_modern(config: Mapping[str, Any]) -> bool:
    """Returns True if a config.json is ModernBERT's."""
    return config.get("model_type") == modernbert.MODEL_TYPE


def read_config(path: Path) -> dict[str, Any]:
    """Returns the content of config.json. Raises ConversionError for another architecture, unknown key or value."""
    config = read_json(path)
    kind = config.get("model_type", "bert")
    if kind not in ("bert", modernbert.MODEL_TYPE):
        raise ConversionError(f"{path}: `model_type` must be `bert` or `{modernbert.MODEL_TYPE}`. Received: {kind!r}")
    known, fixed = (_KNOWN_MODERN, modernbert.FIXED) if is_modern(config) else (_KNOWN, _FIXED)
    for key in config:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f" (did you mean `{near[0]}`?)" if near else ""
            raise ConversionError(f"{path}: unknown key `{key}`{hint}, which may change the computation.")
    for key, allowed in fixed.items():
        if key in config and not any(type(config[key]) is type(value) and config[key] == value for value in allowed):
            values = " or ".join(repr(value) for value in allowed if value is not None) or "missing"
            raise ConversionError(f"{path}: `{key}` must be {values}. Received: {config[key]!r}")
    for key in _SAME_AS_HIDDEN_SIZE:
        if key in config and config[key] != config.get("hidden_size", 768):
            raise ConversionError(f"{path}: `{key}` must equal `hidden_size`. Received: {config[key]!r}")
    return config


@conversion_errors()
def encoder_config(config: Mapping[str, Any], path: Path, pooler: bool) -> BertConfig:
    """Returns the encoder's architecture. Raises ConversionError with the key that has a wrong type or value."""
    activation = config.get("hidden_act", "gelu")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise ConversionError(f"{path}: `hidden_act` must be one of {', '.join(ACTIVATIONS)}. Received: {activation!r}")
    fields = {name: config.get(key, default) for key, (name, default) in _FIELDS.items()}
    if fields["attention_dropout"] == fields["dropout"]:
        fields["attention_dropout"] = None
    return from_dict(BertConfig, fields | {"activation": ACTIVATIONS[activation], "pooler": pooler}, str(path))


def architecture(config: Mapping[str, Any], path: Path) -> str | None:
    """Returns the class that config.json names; None if it names none. Raises ConversionError unless it is BERT's."""
    names = config.get("architectures")
    if names is None or names == []:
        return None
    known = modernbert.CLASSES if is_modern(config) else CLASSES
    if not isinstance(names, list) or len(names) != 1 or names[0] not in known:
        raise ConversionError(f"{path}: `architectures` must be one of {', '.join(known)}. Received: {names!r}")
    name: str = names[0]
    return name


def labels(config: Mapping[str, Any], path: Path) -> tuple[int, tuple[str, ...] | None]:
    """Returns the number of classes and their names by id, None if generic. Raises ConversionError if they conflict."""
    numbers = {key: config[key] for key in ("num_labels", "_num_labels") if config.get(key) is not None}
    for key, number in numbers.items():
        if type(number) is not int or number < 1:
            raise ConversionError(f"{path}: `{key}` must be an integer of at least 1. Received: {number!r}")
    if config.get("id2label") is None:
        return next(iter(numbers.values()), 2), None
    names, ids = _label_maps(config, path)
    if sorted(names) != list(range(len(names))):
        raise ConversionError(f"{path}: the ids of `id2label` must be 0 to {len(names) - 1}. Received: {sorted(names)}")
    ordered = tuple(names[number] for number in range(len(names)))
    for key, number in numbers.items():
        if number != len(ordered):
            raise ConversionError(f"{path}: `{key}` must be {len(ordered)}, as in `id2label`. Received: {number}")
    generic = {f"LABEL_{number}": number for number in range(len(ids))}
    if ids and ids != generic and ids != {name: number for number, name in enumerate(ordered)}:
        raise ConversionError(f"{path}: `label2id` must be the inverse of `id2label`. Received: {ids}, {names}")
    if ordered == tuple(f"LABEL_{number}" for number in range(len(ordered))):
        return len(ordered), None
    if len(set(ordered)) != len(ordered):
        raise ConversionError(f"{path}: the names of `id2label` must be distinct. Received: {names}")
    return len(ordered), ordered


def _label_maps(config: Mapping[str, Any], path: Path) -> tuple[dict[int, str], dict[str, int]]:
    """Returns `id2label` and `label2id`, which may be missing. Raises ConversionError if they are not mappings."""
    try:
        names = {int(number): str(name) for number, name in config["id2label"].items()}
        return names, {str(name): int(number) for name, number in (config.get("label2id") or {}).items()}
    except (AttributeError, OverflowError, TypeError, ValueError) as error:
        raise ConversionError(f"{path}: `id2label` must map ids to names, `label2id` names to ids: {error}") from error


def check_problem(config: Mapping[str, Any], number: int, path: Path) -> None:
    """Raises ConversionError for a multi-label text classifier, or a regression with several outputs."""
    # A pipeline of transformers applies the configuration of its task.
    of_tasks = config.get("task_specific_params")
    places = {"problem_type": config.get("problem_type")}
    for task, fields in of_tasks.items() if isinstance(of_tasks, dict) else ():
        if isinstance(fields, dict):
            places[f"task_specific_params.{task}.problem_type"] = fields.get("problem_type")
    for place, kind in places.items():
        if kind == "multi_label_classification" or (kind == "regression" and number > 1):
            raise ConversionError(
                f"{path}: `{place}` must be single_label_classification, or regression with one output: a preset "
                f"predicts one label or one number per text. Received: {kind!r} with {number} outputs. To convert the "
                "encoder alone, load it with `BertModel.from_pretrained`, save it, and convert the saved directory."
            )


def kept(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of config.json to write again, except those derived from the model."""
    if is_modern(config):
        return {key: value for key, value in config.items() if key in _HARMLESS}
    values = {key: value for key, value in config.items() if key not in _FIELDS and key not in _NOT_KEPT}
    return values | {key: config[key] for key in ("architectures", "hidden_act") if config.get(key)}


def padded_length(config: Mapping[str, Any], length: int) -> int:
    """Returns the rows of an embedding for `length` word pieces with `pad_vocab_size_multiple_of`."""
    multiple = config.get("pad_vocab_size_multiple_of")
    return -(-length // multiple) * multiple if type(multiple) is int and multiple > 0 else length


def written_config(checkpoint: Checkpoint, heads: Heads, dtype: str, pieces: int | None) -> dict[str, Any]:
    """Returns config.json for `pieces` in vocab.txt, if any. Raises ConversionError for left-to-right attention."""
    config = checkpoint.config
    if config.differences_from_bert:
        kept: dict[str, Any] = dict(checkpoint.info.get(INFO_KEY, {}).get("config", {}))
        kept |= modernbert.written_config(checkpoint, heads) | {"torch_dtype": dtype}
        return kept | _of_vocabulary(checkpoint, pieces) | _of_labels(checkpoint, heads)
    if config.attention != "bidirectional":
        raise ConversionError(
            f"{checkpoint.path}: Hugging Face BERT only supports `attention` = 'bidirectional'. "
            f"Received: {config.attention!r}"
        )
    before: dict[str, Any] = dict(checkpoint.info.get(INFO_KEY, {}).get("config", {}))
    named = before.pop("architectures", [None])[0]
    fits = CLASSES.get(named)
    fitting = fits is not None and fits.task == heads.task and fits.masked_lm <= heads.masked_lm
    if fits is None or not fitting or fits.next_sentence > heads.next_sentence:
        wanted = Heads(heads.masked_lm, heads.next_sentence, heads.task)
        named = next(name for name, class_heads in CLASSES.items() if class_heads == wanted)
    activation = before.pop("hidden_act", None)
    if ACTIVATIONS.get(activation) != config.activation:
        activation = _WRITTEN_ACTIVATIONS[config.activation]
    values: dict[str, Any] = {"architectures": [named], "model_type": "bert", "hidden_act": activation}
    values |= {key: getattr(config, name) for key, (name, _) in _FIELDS.items()}
    if config.attention_dropout is None:
        values["attention_probs_dropout_prob"] = config.dropout
    rate = checkpoint.classifier_dropout
    values |= {"classifier_dropout": None if rate == config.dropout else rate, "torch_dtype": dtype}
    return before | values | _of_vocabulary(checkpoint, pieces) | _of_labels(checkpoint, heads)


def _of_vocabulary(checkpoint: Checkpoint, pieces: int | None) -> dict[str, Any]:
    """Returns the keys that describe the vocabulary of `pieces` in vocab.txt."""
    values: dict[str, Any] = {}
    rows = checkpoint.config.vocabulary_size
    if pieces is not None and pieces != rows:
        usual = (number for number in (8, 16, 32, 64, 128) if -(-pieces // number) * number == rows)
        values["pad_vocab_size_multiple_of"] = next(usual, rows)
    if checkpoint.vocabulary is not None:
        values["pad_token_id"] = checkpoint.vocabulary.pad_id
    return values


def _of_labels(checkpoint: Checkpoint, heads: Heads) -> dict[str, Any]:
    """Returns the keys that name the classes of a task."""
    if heads.task not in ("sequence_classification", "token_classification"):
        return {}
    ordered = checkpoint.labels or tuple(f"LABEL_{number}" for number in range(heads.num_labels or 0))
    return {
        "id2label": {str(number): name for number, name in enumerate(ordered)},
        "label2id": {name: number for number, name in enumerate(ordered)},
    }

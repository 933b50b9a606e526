"""Tests the errors for unsupported directories of Hugging Face."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_tf.conversion import ConversionError, Options, convert
from bert_tf.conversion.formats.huggingface import checkpoint
from bert_tf.text.vocabulary import load_vocabulary
from tests.support.conversion.huggingface_samples import change_json, copied, opened, replace_tensors, tensors


def refused(directory: Path, reason: str, options: Options | None = None) -> None:
    with pytest.raises(ConversionError, match=reason):
        opened(directory, options)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"model_type": "roberta"}, "`model_type` must be `bert` or `modernbert`. Received: 'roberta'"),
        ({"model_type": "modernbert"}, "unknown key"),
        ({"position_embedding_type": "relative_key"}, "`position_embedding_type` must be 'absolute'"),
        ({"is_decoder": True}, "`is_decoder` must be False"),
        ({"add_cross_attention": True}, "`add_cross_attention` must be False"),
        ({"pruned_heads": {"1": [0]}}, "`pruned_heads` must be"),
        ({"quantization_config": {"bits": 4}}, "`quantization_config` must be missing"),
        ({"auto_map": {"AutoModel": "m.M"}}, "`auto_map` must be missing"),
        ({"pooler_type": "mean"}, "`pooler_type` must be 'first_token_transform'"),
        ({"directionality": "left"}, "`directionality` must be 'bidi'"),
        ({"hidden_act": "silu"}, "`hidden_act` must be one of gelu"),
        ({"rotary_value": False}, "unknown key `rotary_value`"),
        ({"hidden_sizes": 16}, r"unknown key `hidden_sizes` \(did you mean `hidden_size`"),
        ({"embedding_size": 8}, "`embedding_size` must equal `hidden_size`"),
        ({"problem_type": "ranking"}, "`problem_type` must be"),
        ({"hidden_size": "16"}, "`hidden_dim` must be int"),
        ({"num_hidden_layers": 10**9}, "`num_layers` must be at most 1000. Received: 1000000000"),
        ({"vocab_size": 10**12}, "`vocabulary_size` must be at most"),
        ({"initializer_range": float("inf")}, "`initializer_range` must be a finite number"),
        ({"initializer_range": -0.02}, "`initializer_range` must be a positive number"),
        ({"hidden_dropout_prob": float("nan")}, "`dropout` must be a finite number"),
        ({"num_attention_heads": 3}, "`hidden_dim` must be a multiple"),
        ({"architectures": ["BertForCausalLM"]}, "`architectures` must be one of BertModel"),
        ({"tie_word_embeddings": False}, "`tie_word_embeddings` must be true"),
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "Received: 'BertJapaneseTokenizer'"),
        ({"num_hidden_layers": 1}, "unknown: bert.encoder.layer.1.attention.output.LayerNorm.bias"),
        ({"num_hidden_layers": 3}, "missing: bert/encoder/layer_2/attention/self/query/kernel"),
        ({"vocab_size": 61}, r"word_embeddings.weight: must have shape \(61, 16\)"),
        ({"max_position_embeddings": 21}, r"position_embeddings.weight: must have shape \(21, 16\)"),
        ({"architectures": ["BertForSequenceClassification"]}, "missing: classifier.weight"),
    ],
)
def test_configurations(fields: dict[str, Any], reason: str, tmp_path: Path) -> None:
    directory = copied("pretraining", tmp_path)
    change_json(directory / "config.json", **fields)
    refused(directory, reason)


_FULL, _LOCAL = "full_attention", "sliding_attention"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"rope_parameters": {_FULL: {"rope_type": "yarn", "factor": 2.0}}}, "`rope_type` = default, .*yarn"),
        ({"rope_parameters": {_FULL: {"rope_theta": 1e4, "factor": 2.0}}}, "`rope_parameters` must have"),
        (
            {"layer_types": [_FULL, _LOCAL, _FULL, _LOCAL, _LOCAL]},
            "`layer_types` must be full_attention in layers 0, n",
        ),
        (
            {"layer_types": [_LOCAL, _FULL, _LOCAL, _FULL, _LOCAL]},
            "`layer_types` must be full_attention in layers 0, n",
        ),
        ({"layer_types": [_FULL]}, "`layer_types` must name .* for each of 5 layers"),
        ({"hidden_activation": "silu"}, "`hidden_activation` must be gelu. Received: 'silu'"),
        ({"mlp_bias": True}, "`mlp_bias`, `attention_bias`, `classifier_bias` must be equal"),
        ({"embedding_dropout": 0.3}, "`embedding_dropout` must equal `mlp_dropout`"),
        ({"decoder_bias": False}, "`decoder_bias` must be True"),
        ({"global_attn_every_n_layer": 2}, "unknown key `global_attn_every_n_layer`"),
        ({"architectures": ["ModernBertForCausalLM"]}, "`architectures` must be one of ModernBertModel"),
        ({"architectures": None}, "must name the class in `architectures`"),
        ({"num_hidden_layers": 6, "layer_types": None}, "missing: bert/encoder/layer_5/attention/self/query/kernel"),
    ],
)
def test_configurations_of_modernbert(fields: dict[str, Any], reason: str, tmp_path: Path) -> None:
    directory = copied("modern_masked_lm", tmp_path)
    change_json(directory / "config.json", **fields)
    refused(directory, reason)


def test_old_and_new_keys_of_modernbert_agree(tmp_path: Path) -> None:
    """Releases of transformers before version 5 wrote no `layer_types` and `rope_parameters`."""
    directory = copied("modern_multiple_choice", tmp_path)
    expected = opened(directory).config
    assert (expected.global_attention_every, expected.local_rotary_theta) == (3, 500.0)
    path = directory / "config.json"
    fields = json.loads(path.read_text())
    for name in ("layer_types", "rope_parameters"):
        fields.pop(name, None)
    fields |= {"global_attn_every_n_layers": 3, "global_rope_theta": 160_000.0, "local_rope_theta": 500.0}
    path.write_text(json.dumps(fields))
    assert opened(directory).config == expected
    change_json(path, local_rope_theta=None)
    assert opened(directory).config.local_rotary_theta == 160_000.0


def test_mean_pooling_of_choices_is_refused(tmp_path: Path) -> None:
    directory = copied("modern_multiple_choice", tmp_path)
    change_json(directory / "config.json", classifier_pooling="mean")
    refused(directory, "`classifier_pooling` must be cls. Received: 'mean'")


TEXTS, TOKENS, SPANS = "sequence_classification", "token_classification", "question_answering"
MULTI_LABEL = {"problem_type": "multi_label_classification"}


@pytest.mark.parametrize(
    ("kind", "fields", "reason"),
    [
        (TEXTS, {"id2label": {"0": "a", "2": "b", "1": "c"}, "num_labels": 4}, "`num_labels` must be 3"),
        (TEXTS, {"id2label": {"0": "a", "1": "b"}}, r"classifier.weight: must have shape \(2, 16\)"),
        (TEXTS, {"id2label": {"0": "a", "1": "b", "3": "c"}}, "the ids of `id2label` must be 0 to 2"),
        (TEXTS, {"id2label": {"0": "a", "1": "b", "2": "b"}}, "must be distinct"),
        (TEXTS, {"label2id": {"bad": 1, "fair": 0, "good": 2}}, "`label2id` must be the inverse of `id2label`"),
        (TEXTS, {"id2label": ["a"]}, "must map ids to names"),
        (TEXTS, {"label2id": {"a": float("inf")}}, "must map ids to names"),
        (TEXTS, {"num_labels": "3"}, "`num_labels` must be an integer"),
        (TEXTS, {"classifier_dropout": float("nan")}, r"`classifier_dropout` must be a number in \[0, 1\)"),
        (TEXTS, MULTI_LABEL, "`problem_type` must be .* 'multi_label_classification' with 3 .* `BertModel.from_pre"),
        (TEXTS, {"task_specific_params": {"text-classification": MULTI_LABEL}}, "`task_spec.*classification.problem_t"),
        (TEXTS, {"problem_type": "regression"}, "`problem_type` must be .*Received: 'regression' with 3 outputs"),
        (TEXTS, {"architectures": ...}, "must name the class in `architectures`"),
        (TEXTS, {"architectures": ["BertModel"]}, "of another class: classifier.weight"),
        (TOKENS, {"architectures": ["BertForSequenceClassification"]}, "missing: pooler.dense.weight"),
        (SPANS, {"architectures": ["BertForTokenClassification"]}, "of another class: qa_outputs.weight"),
        ("masked_lm", {"architectures": ["BertForPreTraining"]}, "missing: cls.seq_relationship.weight"),
        ("backbone", {"architectures": ["BertForMaskedLM"]}, "missing: cls.predictions.transform"),
    ],
)  # fmt: skip
def test_classes_and_labels(kind: str, fields: dict[str, Any], reason: str, tmp_path: Path) -> None:
    directory = copied(kind, tmp_path)
    change_json(directory / "config.json", **fields)
    refused(directory, reason)


@pytest.mark.parametrize("kind", [TOKENS, "backbone"])
def test_problem_type_is_ignored_for_other_heads(kind: str, tmp_path: Path) -> None:
    directory = copied(kind, tmp_path)
    change_json(directory / "config.json", **MULTI_LABEL)
    assert opened(directory).info["huggingface"]["config"]["problem_type"] == MULTI_LABEL["problem_type"]


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_deep_json(name: str, tmp_path: Path) -> None:
    directory = copied("pretraining", tmp_path)
    (directory / name).write_text("[" * 200_000)
    refused(directory, f"{name}: .*nested at most 100 levels")


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_numbers_that_are_not_finite(value: float, tmp_path: Path) -> None:
    directory = copied("pretraining", tmp_path)
    arrays = tensors(directory)
    arrays[WORDS][3, 4] = value
    replace_tensors(directory, arrays)
    with pytest.raises(ConversionError, match=f"weight `{WORDS}` must hold finite numbers"):
        convert(directory, tmp_path / "target", "preset", source_form="huggingface")
    assert not (tmp_path / "target").exists()


WORDS = "bert.embeddings.word_embeddings.weight"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda found: {f"model.{name}": value for name, value in found.items()}, "the prefix `model.` of a wrapper"),
        (lambda found: {f"module.{name}": value for name, value in found.items()}, "the prefix `module.` of a wrapper"),
        (
            lambda found: {name.replace("bert.", "roberta."): value for name, value in found.items()},
            "must be BERT. Received: RoBERTa",
        ),
        (
            lambda found: found | {"cls.predictions.decoder.weight": found[WORDS] + 1},
            "must be equal to `bert.embeddings",
        ),
        (lambda found: found | {"cls.predictions.decoder.bias": np.ones(60, np.float32)}, "must be equal to `cls.pred"),
        (lambda found: found | {"bert.embeddings.position_ids": np.arange(20)[::-1]}, "must be 0 to 19"),
        (lambda found: found | {"bert.embeddings.token_type_ids": np.ones((1, 20))}, "must be 20 zeros"),
        (lambda found: found | {"bert.extra.weight": found[WORDS]}, "unknown: bert.extra.weight"),
        (lambda found: found | {WORDS[5:]: found[WORDS]}, "are names of one tensor"),
        (lambda found: found | {WORDS: found[WORDS].astype(np.float64)}, "Received: float64"),
        (
            lambda found: {name: value for name, value in found.items() if name != WORDS},
            "missing: bert/embeddings/word",
        ),
        (lambda found: {name: value.T.copy() for name, value in found.items()}, "must have shape"),
    ],
)
def test_tensors(change: Any, reason: str, tmp_path: Path) -> None:
    directory = copied("pretraining", tmp_path)
    replace_tensors(directory, change(tensors(directory)))
    refused(directory, reason)


def _header(path: Path, change: Any) -> None:
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = change(json.loads(content[8 : 8 + length]))
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])


def _moved(header: dict[str, Any]) -> dict[str, Any]:
    names = sorted((name for name in header if name != "__metadata__"), key=lambda name: header[name]["data_offsets"])
    first = header[names[0]]["data_offsets"]
    header[names[1]]["data_offsets"] = first
    return header


def shift_offsets(header: dict[str, Any]) -> dict[str, Any]:
    entry = header["cls.seq_relationship.weight"]
    entry["data_offsets"] = [start + 10**6 for start in entry["data_offsets"]]
    return header


@pytest.mark.parametrize("change", [_moved, shift_offsets])
def test_offsets_of_safetensors(change: Any, tmp_path: Path) -> None:
    directory = copied("pretraining", tmp_path)
    _header(directory / "model.safetensors", change)
    refused(directory, "not a readable safetensors file")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda content: content[:-5], "not a readable safetensors file"),
        (lambda content: content[:4], "not a readable safetensors file"),
        (lambda content: b"\xff" * 8 + content[8:], "not a readable safetensors file"),
        (lambda content: content + b"more", "not a readable safetensors file"),
        (lambda content: content[:8] + b"]" + content[9:], "not a readable safetensors file"),
        (lambda content: b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
    ],
)
def test_damaged_safetensors(content: Any, reason: str, tmp_path: Path) -> None:
    directory = copied("pretraining", tmp_path)
    path = directory / "model.safetensors"
    path.write_bytes(content(path.read_bytes()))
    refused(directory, reason)


def test_weights_of_other_programs(tmp_path: Path) -> None:
    directory = copied("pretraining", tmp_path)
    (directory / "model.safetensors").rename(directory / "tf_model.h5")
    assert checkpoint.recognizes(directory) and not checkpoint.recognizes(tmp_path)
    refused(directory, "Received: tf_model.h5")


INDEX, FIRST = "model.safetensors.index.json", "model-00001-of-00004.safetensors"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda places: places | {"classifier.bias": "../elsewhere.safetensors"}, "no such file"),
        (lambda places: places | {"classifier.bias": "model-00009-of-00009.safetensors"}, "no such file"),
        (lambda places: places | {"classifier.bias": FIRST}, "`classifier.bias` in model-00001"),
        (lambda places: places | {"new.weight": FIRST}, "`new.weight` in model-00001"),
        (lambda places: {name: file for name, file in places.items() if name != "classifier.bias"}, "in no file by"),
        (lambda places: {}, "`weight_map` must map"),
    ],
)  # fmt: skip
def test_index_of_shards(change: Any, reason: str, tmp_path: Path) -> None:
    directory = copied(TEXTS, tmp_path)
    places = json.loads((directory / INDEX).read_text())["weight_map"]
    change_json(directory / INDEX, weight_map=change(places))
    refused(directory, reason)


def test_a_missing_shard(tmp_path: Path) -> None:
    directory = copied(TEXTS, tmp_path)
    (directory / "model-00003-of-00004.safetensors").unlink()
    refused(directory, "model-00003-of-00004.safetensors', no such file")


def test_a_tensor_in_two_shards(tmp_path: Path) -> None:
    directory = copied(TEXTS, tmp_path)
    first, second = directory / "model-00001-of-00004.safetensors", directory / "model-00002-of-00004.safetensors"
    second.write_bytes(first.read_bytes())
    refused(directory, "must be in one file. Received: also in model-00001-of-00004.safetensors")


def test_left_to_right_attention_is_refused(tmp_path: Path) -> None:
    import dataclasses

    source = opened(copied("pretraining", tmp_path))
    turned = dataclasses.replace(source, config=dataclasses.replace(source.config, attention="left_to_right"))
    with pytest.raises(ConversionError, match="`attention` = 'bidirectional'. Received: 'left_to_right'"):
        checkpoint.write(turned, tmp_path, Options())


def test_failed_conversion_leaves_no_files(tmp_path: Path) -> None:
    directory = copied("pretraining", tmp_path)
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ConversionError):
        convert(directory, tmp_path / "target", "preset", source_form="huggingface")
    assert [item.name for item in tmp_path.iterdir()] == [directory.name]


def test_vocabularies_of_another_length(tmp_path: Path) -> None:
    directory = copied("pretraining", tmp_path)
    tokens = load_vocabulary(directory / "vocab.txt").tokens
    (directory / "vocab.txt").write_text("\n".join((*tokens, "more")) + "\n")
    refused(directory, "as many word pieces as the token embedding has rows, 60. Received: 61")

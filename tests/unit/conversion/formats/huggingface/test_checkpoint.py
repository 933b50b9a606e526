"""Tests conversions from and to Hugging Face: recorded outputs of transformers, and bit-identical round trips."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from tokenizers import Tokenizer

from bert_tf.conversion import Options, convert
from bert_tf.conversion.formats.huggingface import checkpoint as form
from bert_tf.conversion.verify.outputs import Peers, answers
from bert_tf.conversion.verify.probe_inputs import fixed_inputs
from bert_tf.conversion.verify.reference import reference_outputs
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.text.vocabulary import load_vocabulary
from tests.support.conversion.huggingface_samples import (
    KINDS,
    MODERN_KINDS,
    RELEASED_LAYOUTS,
    change_json,
    copied,
    opened,
    recorded,
    replace_tensors,
    tensors,
    whole,
    write_zip,
)

TOLERANCE = 1e-5
PYTHON = os.environ.get("BERT_TF_PEER_HUGGINGFACE")
HEADS = {
    "pretraining": ["masked_lm", "next_sentence"],
    "masked_lm": ["masked_lm"],
    "backbone": [],
    "sequence_classification": ["sequence_classification"],
    "token_classification": ["token_classification"],
    "question_answering": ["question_answering"],
    "multiple_choice": ["multiple_choice"],
    "base": ["masked_lm"],
    "large": ["masked_lm"],
}
DTYPES = {
    "sequence_classification": "bfloat16", "token_classification": "float16",
    "modern_sequence_classification": "bfloat16", "modern_large": "bfloat16",
}  # fmt: skip
PLAIN_TEXTS = ["a bc, abba!", "Ünïcode ab", "ab\tcd  x.", "", "ABC 中a"]


def assert_as_recorded(outputs: Any, expected: Any, mask: np.ndarray, deep: bool = False) -> None:
    assert set(expected) <= set(outputs)
    for name, wanted in expected.items():
        found = outputs[name]
        assert found.shape == wanted.shape
        if wanted.ndim == 3 and wanted.shape[:2] == mask.shape:
            found, wanted = found[mask], wanted[mask]
        # Rounding grows with depth: the 22 and 28 layers of the released ones are compared with the largest output.
        largest = float(np.abs(wanted).max()) if deep else 1.0
        np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE * largest, err_msg=name)


def outputs_of(kind: str) -> dict[str, np.ndarray]:
    with np.load(recorded(kind) / "outputs.npz") as file:
        return {name: file[name] for name in file.files}


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_equal_those_of_transformers(kind: str) -> None:
    checkpoint = opened(recorded(kind))
    assert checkpoint.form == "huggingface"
    assert checkpoint.heads.names() == HEADS[kind.removeprefix("modern_")]
    assert checkpoint.dtype == DTYPES.get(kind, "float32")
    without = ("masked_lm", "token_classification", "question_answering", *MODERN_KINDS)
    assert checkpoint.config.pooler == (kind not in without)
    assert checkpoint.config.body == ("modern" if kind in MODERN_KINDS else "bert")
    assert checkpoint.lowercase is (kind != "token_classification")
    inputs = fixed_inputs(checkpoint.config)
    found = reference_outputs(checkpoint, inputs)
    assert_as_recorded(found, outputs_of(kind), inputs["padding_mask"] != 0, kind in RELEASED_LAYOUTS)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.integration) if kind in MODERN_KINDS else kind for kind in KINDS]
)
def test_to_a_preset_and_back(kind: str, tmp_path: Path) -> None:
    source = opened(recorded(kind))
    there = convert(recorded(kind), tmp_path / "preset", "preset", source_form="huggingface", peers=Peers({}))
    assert there.parity.max_abs_difference <= TOLERANCE
    back = convert(tmp_path / "preset", tmp_path / "back", "huggingface", source_form="preset", peers=Peers({})).target
    assert set(back.tensors) == set(source.tensors)
    for name in source.tensors:
        np.testing.assert_array_equal(back.array(name).view(np.uint32), source.array(name).view(np.uint32), name)
    for field in ("config", "heads", "vocabulary", "lowercase", "dtype", "labels", "classifier_dropout"):
        assert getattr(back, field) == getattr(source, field), field
    before, after = source.info["huggingface"]["config"], back.info["huggingface"]["config"]
    assert {key: after.get(key) for key in before} == before
    inputs = fixed_inputs(source.config)
    preset = answers(there.target, inputs, Peers({})).outputs
    assert_as_recorded(preset, outputs_of(kind), inputs["padding_mask"] != 0, kind in RELEASED_LAYOUTS)
    if (recorded(kind) / "vocab.txt").exists():
        assert (tmp_path / "back/vocab.txt").read_bytes() == (recorded(kind) / "vocab.txt").read_bytes()


@pytest.mark.parametrize("kind", ["pretraining", "token_classification"])
def test_written_tokenizer_gives_the_same_ids(kind: str, tmp_path: Path) -> None:
    source = opened(recorded(kind))
    form.write(source, tmp_path, Options())
    theirs = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ours = BertTokenizer(load_vocabulary(tmp_path / "vocab.txt"), lowercase=bool(source.lowercase))
    found = ours.tokenize(PLAIN_TEXTS)
    for number, text in enumerate(PLAIN_TEXTS):
        ids = found.values[found.row_splits[number] : found.row_splits[number + 1]].tolist()
        vocabulary = ours.vocabulary
        assert theirs.encode(text).ids == [vocabulary.cls_id, *ids, vocabulary.sep_id]


@pytest.mark.parametrize(("dtype", "kind"), [("bfloat16", "BF16"), ("float16", "F16"), ("float32", "F32")])
def test_shards_and_number_formats(dtype: str, kind: str, tmp_path: Path) -> None:
    source = opened(recorded("pretraining"))
    form.write(source, tmp_path, Options(dtype=dtype, shard_bytes=6000))
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    files = sorted(tmp_path.glob("*.safetensors"))
    assert {path.name for path in files} == set(index["weight_map"].values())
    assert files[0].name == f"model-00001-of-{len(files):05d}.safetensors"
    size = 0
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1
    for path in files:
        with safe_open(path, "numpy") as file:
            names = list(file.keys())
            assert file.metadata() == {"format": "pt"}
            assert {file.get_slice(name).get_dtype() for name in names} == {kind}
            held = sum(file.get_tensor(name).nbytes for name in names)
            assert len(names) == 1 or held <= 6000
            size += held
    assert index["metadata"]["total_size"] == size
    assert opened(tmp_path).dtype == dtype
    assert json.loads((tmp_path / "config.json").read_text())["torch_dtype"] == dtype


def test_numbers_too_large_for_the_format_are_refused(tmp_path: Path) -> None:
    directory = copied("multiple_choice", tmp_path)
    arrays = tensors(directory)
    arrays["classifier.weight"] = arrays["classifier.weight"] + np.float32(1e6)
    replace_tensors(directory, arrays)
    with pytest.raises(ValueError, match=r"`classifier.weight` does not fit float16. Received: up to 1e\+06"):
        form.write(opened(directory), tmp_path, Options(dtype="float16"))


@pytest.mark.parametrize(
    ("kind", "fields", "heads"),
    [
        ("pretraining", {"architectures": ["BertForMaskedLM"]}, ["masked_lm", "next_sentence"]),
        ("pretraining", {"architectures": ["BertModel"]}, ["masked_lm", "next_sentence"]),
        ("pretraining", {"architectures": ...}, ["masked_lm", "next_sentence"]),
        ("pretraining", {"architectures": ["BertForNextSentencePrediction"]}, ["masked_lm", "next_sentence"]),
        ("masked_lm", {"architectures": ["BertLMHeadModel"]}, ["masked_lm"]),
        ("token_classification", {"architectures": ...}, ["token_classification"]),
        ("question_answering", {"architectures": ...}, ["question_answering"]),
        ("sequence_classification", {"architectures": ..., "finetuning_task": "sst"}, ["sequence_classification"]),
    ],
)
def test_heads_follow_the_tensors(kind: str, fields: dict[str, Any], heads: list[str], tmp_path: Path) -> None:
    directory = copied(kind, tmp_path)
    change_json(directory / "config.json", **fields)
    assert opened(directory).heads.names() == heads


@pytest.mark.parametrize(
    ("written", "read"),
    [("gelu_python", "gelu"), ("gelu_new", "gelu_approximate"), ("gelu_fast", "gelu_approximate"),
     ("gelu_pytorch_tanh", "gelu_approximate"), ("relu", "relu"), ("tanh", "tanh"), (..., "gelu")],
)  # fmt: skip
def test_activations_by_name(written: str, read: str, tmp_path: Path) -> None:
    directory = copied("backbone", tmp_path)
    change_json(directory / "config.json", hidden_act=written)
    checkpoint = opened(directory)
    assert checkpoint.config.activation == read
    form.write(checkpoint, tmp_path, Options())
    hidden_act = json.loads((tmp_path / "config.json").read_text())["hidden_act"]
    assert hidden_act == ("gelu" if written is ... else written)


def test_a_config_of_2019_takes_the_defaults_of_transformers(tmp_path: Path) -> None:
    directory = copied("backbone", tmp_path)
    for key in ("initializer_range", "hidden_dropout_prob", "attention_probs_dropout_prob"):
        change_json(directory / "config.json", **{key: ...})
    config = opened(directory).config
    assert (config.layer_norm_epsilon, config.initializer_range, config.dropout) == (1e-12, 0.02, 0.1)
    assert config.attention_dropout is None


@pytest.mark.parametrize(
    "fields",
    [
        {"directionality": "bidi", "pooler_fc_size": 768, "pooler_num_fc_layers": 3, "pooler_size_per_head": 128,
         "pooler_num_attention_heads": 12, "pooler_type": "first_token_transform", "output_past": True},
        {"position_embedding_type": "absolute", "gradient_checkpointing": False, "chunk_size_feed_forward": 0},
        {"pruned_heads": {}, "_name_or_path": "x", "transformers_version": "4.1", "torch_dtype": "float16"},
        {"language": "english", "name": "Bert", "finetuning_task": None, "task_specific_params": None},
        {"bos_token_id": 0, "eos_token_ids": 0, "num_labels": 2, "use_bfloat16": False, "torchscript": False},
        {"emb_size": 16, "cell": {}, "structure": [], "pre_trained": "", "training": ""},
        {"embedding_size": 16, "max_length": 20, "do_sample": False, "sentence_transformers": {"version": "4.1.0"}},
    ],
)  # fmt: skip
def test_keys_of_real_configs_pass(fields: dict[str, Any], tmp_path: Path) -> None:
    directory = copied("pretraining", tmp_path)
    change_json(directory / "config.json", **fields)
    assert opened(directory).config == opened(recorded("pretraining")).config


def test_shards_of_torch_files(tmp_path: Path) -> None:
    directory = copied("pretraining", tmp_path)
    arrays = tensors(directory)
    (directory / "model.safetensors").unlink()
    names = sorted(arrays)
    places = {name: f"pytorch_model-{1 + (number > 20):05d}-of-00002.bin" for number, name in enumerate(names)}
    for file in sorted(set(places.values())):
        held = [name for name in names if places[name] == file]
        content = {name: whole(arrays[name], name) for name in held}
        write_zip(directory / file, content, {name: arrays[name].tobytes() for name in held})
    change_json(directory / "pytorch_model.bin.index.json", metadata={"total_size": 1}, weight_map=places)
    expected, found = opened(recorded("pretraining")), opened(directory)
    assert set(found.tensors) == set(expected.tensors)
    for name in expected.tensors:
        np.testing.assert_array_equal(found.array(name), expected.array(name), name)


def test_pretraining_heads_are_lost_if_there_is_a_task_head(tmp_path: Path) -> None:
    source = opened(recorded("sequence_classification"))
    both = dataclasses.replace(source, heads=dataclasses.replace(source.heads, masked_lm=True, next_sentence=True))
    assert form.write(both, tmp_path, Options()) == ["masked_lm", "next_sentence"]
    assert opened(tmp_path).heads == source.heads


def test_mixed_number_formats_are_kept_whole(tmp_path: Path) -> None:
    directory = copied("pretraining", tmp_path)
    arrays = tensors(directory)
    arrays["cls.predictions.bias"] = arrays["cls.predictions.bias"].astype(ml_dtypes.bfloat16)
    replace_tensors(directory, arrays)
    assert opened(directory).dtype == "float32"


def test_pad_vocab_size_multiple_of_marks_padding_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = copied("pretraining", tmp_path)
    lines = (directory / "vocab.txt").read_text().splitlines(keepends=True)
    (directory / "vocab.txt").write_text("".join(lines[:57]))
    opened(directory)
    assert "57 pieces for 60 rows" in caplog.text
    caplog.clear()
    change_json(directory / "config.json", pad_vocab_size_multiple_of=4)
    source = opened(directory)
    assert "pieces" not in caplog.text
    assert source.vocabulary is not None and source.vocabulary.tokens[57:] == tuple(
        f"[padding{row}]" for row in range(57, 60)
    )
    form.write(source, tmp_path, Options())
    assert (tmp_path / "vocab.txt").read_text() == "".join(lines[:57])
    assert opened(tmp_path).vocabulary == source.vocabulary


@pytest.mark.skipif(PYTHON is None, reason="BERT_TF_PEER_HUGGINGFACE names no interpreter with transformers")
def test_transformers_computes_the_reference_outputs() -> None:
    source = opened(recorded("pretraining"))
    inputs = fixed_inputs(source.config)
    answered = answers(source, inputs, Peers({"huggingface": Path(str(PYTHON))}))
    assert answered.by.startswith("transformers ")
    assert_as_recorded(answered.outputs, outputs_of("pretraining"), inputs["padding_mask"] != 0)

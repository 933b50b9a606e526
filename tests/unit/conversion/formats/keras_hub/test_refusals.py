"""Tests the errors for unsupported keras-hub presets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bert_tf.conversion import Options
from bert_tf.conversion.formats.keras_hub import checkpoint
from bert_tf.conversion.tensors import ConversionError
from tests.support.conversion.keras_hub_samples import copied, edit


def _config(**fields: Any) -> Callable[[Path], None]:
    return lambda directory: edit(directory / "config.json", lambda mapping: mapping["config"].update(fields))


def _tokenizer(**fields: Any) -> Callable[[Path], None]:
    return lambda directory: edit(directory / "tokenizer.json", lambda mapping: mapping["config"].update(fields))


def _class(name: str) -> Callable[[Path], None]:
    return lambda directory: edit(
        directory / "config.json", lambda m: m.update(class_name=name, registered_name=f"keras_hub>{name}")
    )


def _weights(change: Callable[[h5py.File], Any], name: str = "model.weights.h5") -> Callable[[Path], None]:
    def damage(directory: Path) -> None:
        with h5py.File(directory / name, "a") as file:
            change(file)

    return damage


def _replaced(key: str, array: np.ndarray) -> Callable[[h5py.File], Any]:
    def change(file: h5py.File) -> None:
        file.pop(key, None)
        file[key] = array

    return change


def _task(**fields: Any) -> Callable[[Path], None]:
    return lambda directory: edit(directory / "task.json", lambda mapping: mapping["config"].update(fields))


def _metadata(ours: dict[str, Any]) -> Callable[[Path], None]:
    return lambda directory: edit(directory / "metadata.json", lambda mapping: mapping.update(bert_tf=ours))


def external_link(file: h5py.File) -> None:
    file.pop("layers/dense/vars/1", None)
    file["layers/dense/vars/1"] = h5py.ExternalLink("/elsewhere.h5", "x")


def add_file_with_external_link(directory: Path) -> None:
    with h5py.File(directory / "other.h5", "w") as file:
        external_link(file)


def _truncated(directory: Path) -> None:
    content = (directory / "model.weights.h5").read_bytes()
    (directory / "model.weights.h5").write_bytes(content[: len(content) // 2])


_QUANTIZED = {"module": "keras", "class_name": "DTypePolicyMap", "config": {}, "registered_name": None}
_KERNEL = "layers/transformer_encoder/_self_attention_layer/query_dense/vars/0"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_class("RobertaBackbone"), "another architecture. Received: keras_hub>RobertaBackbone"),
        (_class("DistilBertBackbone"), "another architecture. Received: keras_hub>DistilBertBackbone"),
        (_config(position_embedding="rotary"), "unknown keys, .*: position_embedding"),
        (_config(dtype=_QUANTIZED), "quantized presets cannot be read. Received: DTypePolicyMap"),
        (_config(num_heads=3), "`hidden_dim` must be a multiple of `num_heads`"),
        (_config(num_layers=2), "`backbone` must equal config.json"),
        (_config(hidden_dim="8"), "`hidden_dim` must be int"),
        (_config(num_layers=10**9), "`num_layers` must be at most 1000. Received: 1000000000"),
        (_task(dropout=float("nan")), r"task.json: `dropout` must be a number in .0, 1."),
        (lambda directory: (directory / "config.json").write_text("[" * 200_000), "nested at most 100 levels"),
        (lambda directory: (directory / "task.json").write_text("[" * 200_000), "nested at most 100 levels"),
        (_metadata({"initializer_range": -1.0}), "metadata.json: `initializer_range` must be a positive number"),
        (_metadata({"initializer_range": float("inf")}), "metadata.json: .*must be a finite number"),
        (_weights(external_link), "`layers/dense/vars/1` must be .* stored in this file. Received: a link to `x` in"),
        (
            _weights(external_link, "task.weights.h5"),
            "task.weights.h5: `layers/dense/vars/1` must be .* stored in this file",
        ),
        (add_file_with_external_link, "other.h5: `layers/dense/vars/1` must be .* stored in this file"),
        (_tokenizer(strip_accents=True), "`strip_accents` must be false"),
        (_tokenizer(suffix_indicator="@@"), "`suffix_indicator` must be '##'. Received: '@@'"),
        (_tokenizer(split=False), "`split` must be True. Received: False"),
        (_tokenizer(merges="x"), "unknown keys, .*: merges"),
        (_weights(lambda file: file.pop(_KERNEL)), "missing: bert/encoder/layer_0/attention/self/query/kernel"),
        (_weights(_replaced("layers/dense_1/vars/0", np.zeros(3, "float32"))), "unknown: layers/dense_1/vars/0"),
        (_weights(_replaced("layers/dense/vars/1", np.zeros(7, "float32"))), "layers/dense/vars/1: must have shape .8"),
        (_weights(_replaced(_KERNEL, np.zeros((8, 2, 4), "int8"))), "quantized weights cannot be read. Received: int8"),
        (_weights(lambda file: file.pop("layers/dense"), "task.weights.h5"), "missing: output_weights .3, 8."),
        (lambda directory: (directory / "task.weights.h5").unlink(), "task.weights.h5, are missing"),
        (lambda directory: (directory / "task.json").unlink(), "`task.json` must name the class of task.weights.h5"),
        (lambda directory: (directory / "rank4.lora.h5").touch(), "LoRA adapters must be merged first"),
        (lambda directory: (directory / "config.json").write_text("{"), "config.json: not a readable JSON file"),
        (_truncated, "model.weights.h5: not a readable HDF5 file"),
    ],
)
def test_invalid_presets_are_named_and_refused(damage: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    directory = copied("classifier", tmp_path)
    damage(directory)
    with pytest.raises(ConversionError, match=message):
        checkpoint.read(directory, Options())


def test_head_of_another_size_is_refused(tmp_path: Path) -> None:
    directory = copied("backbone", tmp_path)
    _config(num_heads=4)(directory)
    with pytest.raises(ConversionError, match="must have shape .8, 8. by the configuration. Received: .8, 2, 4."):
        checkpoint.read(directory, Options())


def test_float64_is_refused(tmp_path: Path) -> None:
    directory = copied("backbone", tmp_path)
    _weights(_replaced("layers/dense/vars/1", np.zeros(8)))(directory)
    with pytest.raises(ConversionError, match="Received: float64"):
        checkpoint.read(directory, Options())


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [({"/layers/dense/vars": "../model.weights.h5"}, "files beside it"), ({}, "must map every weight to a file")],
)
def test_index_with_files_in_other_directories_is_refused(
    weight_map: dict[str, str], message: str, tmp_path: Path
) -> None:
    directory = copied("backbone", tmp_path)
    (directory / "model.weights.h5").rename(tmp_path / "model.weights.h5")
    (directory / "model.weights.json").write_text(json.dumps({"weight_map": weight_map}), "utf-8")
    with pytest.raises(ConversionError, match=message):
        checkpoint.read(directory, Options())

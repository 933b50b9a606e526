"""Exports in bfloat16 and with weights in int8."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export.metadata import MODEL_CARD, signature_shapes
from bert_tf.export.precision import load_in_precision
from bert_tf.export.saved_model import export_preset
from bert_tf.export.signatures import signatures_of
from bert_tf.export.verify.comparison import Case
from bert_tf.export.verify.golden_outputs import differences, record
from bert_tf.export.verify.sample_requests import comparison_samples
from bert_tf.export.verify.tolerances import relative_tolerance
from bert_tf.layers.inference import arrange_for_inference
from bert_tf.models import Preset, load_preset
from tests.support.export.presets import KINDS, VOCABULARY

IDS = np.random.default_rng(0).integers(0, len(VOCABULARY), (3, 9)).astype(np.int32)
INPUTS = {
    "token_ids": IDS,
    "segment_ids": IDS % 2,
    "padding_mask": (np.arange(9) < [[9], [4], [6]]).astype(np.int32),
    "mask_positions": np.array([[1, 3], [2, 0], [0, 5]], np.int32),
}
INPUTS_OF_TEXTS = {name: values for name, values in INPUTS.items() if name != "mask_positions"}


def rounded(path: str, values: np.ndarray) -> np.ndarray:
    """Rounds weights to int8: 127 steps to the largest of each output or token."""
    name = path.rpartition("/")[2]
    if name not in ("kernel", "embeddings"):
        return values
    inputs = 2 if "attention_output" in path else 1
    axes = tuple(range(inputs)) if name == "kernel" else (1,)
    largest = np.abs(values).max(axis=axes, keepdims=True)
    return np.round(values / largest * 127) / 127 * largest


@pytest.mark.parametrize("kind", [pytest.param("pretrainer", marks=pytest.mark.slow), "classifier"])
def test_int8_export_equals_the_model_with_rounded_weights(kind: str, presets: dict[str, Path]) -> None:
    model, quantized = load_preset(presets[kind]).model, load_in_precision(presets[kind], "int8").model
    inputs = {name: INPUTS[name] for name in model.input}
    before = model(inputs, training=False)
    for weight in model.weights:
        weight.assign(rounded(weight.path, weight.numpy()))
    expected, found = model(inputs, training=False), quantized(inputs, training=False)
    assert tf.nest.flatten(before)[0].shape == tf.nest.flatten(found)[0].shape
    for was, wanted, given in zip(*map(tf.nest.flatten, (before, expected, found)), strict=True):
        np.testing.assert_allclose(given, wanted, atol=1e-4)
        assert np.abs(np.asarray(was) - wanted).max() > 1e-3


def test_int8_export_stores_all_large_weights_as_int8(presets: dict[str, Path]) -> None:
    weights = load_in_precision(presets["pretrainer"], "int8").model.weights
    others = {weight.path.rpartition("/")[2] for weight in weights if weight.dtype != "int8"}
    names = {"bias", "gamma", "beta", "output_bias", "kernel_scale", "embeddings_scale"}
    assert others == names | {"position_embedding", "segment_embedding"}
    assert sum(weight.dtype == "int8" for weight in weights) == 1 + 2 * 6 + 3


@pytest.mark.parametrize("kind", [k if k == "backbone" else pytest.param(k, marks=pytest.mark.slow) for k in KINDS])
def test_signatures_have_the_types_of_float32(kind: str, presets: dict[str, Path]) -> None:
    specs = []
    for precision in ("float32", "bfloat16", "int8"):
        signatures = signatures_of(load_in_precision(presets[kind], precision))
        samples = comparison_samples(signatures)
        endpoint = signatures.endpoints["ids"]
        answer = endpoint.function(*(tf.constant(samples[str(spec.name)], spec.dtype) for spec in endpoint.inputs))
        specs.append({name: (tensor.dtype, tensor.shape) for name, tensor in answer.items()})
    assert specs[0] == specs[1] == specs[2]
    floats = {weight.dtype for weight in load_in_precision(presets[kind], "bfloat16").model.weights}
    assert "bfloat16" in floats


@pytest.mark.parametrize(("precision", "near"), [("float32", 1e-5), ("int8", 1e-5), ("bfloat16", 2**-5)])
def test_layers_are_arranged_for_inference(precision: str, near: float, presets: dict[str, Path]) -> None:
    as_trained, arranged = (
        load_in_precision(presets["classifier"], precision, arranged=arranged).model for arranged in (False, True)
    )
    found, expected = (np.asarray(model(INPUTS_OF_TEXTS), np.float32) for model in (arranged, as_trained))
    np.testing.assert_allclose(found, expected, rtol=near, atol=near)
    assert len(arranged.weights) < len(as_trained.weights)


def test_the_exported_graph_is_arranged(exported: Callable[[str], Path], presets: dict[str, Path]) -> None:
    variables = tf.train.list_variables(str(exported("classifier") / "variables" / "variables"))
    shapes = [tuple(shape) for _, shape in variables]
    arranged = load_in_precision(presets["classifier"], "float32", arranged=True)
    merged = {tuple(weight.shape) for weight in arranged.model.weights if "projections/kernel" in weight.path}
    assert [shapes.count(shape) for shape in merged] == [arranged.config.num_layers]


def test_arranged_model_is_compared_with_the_trained_one(
    presets: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(model: Any) -> None:
        arrange_for_inference(model)
        model.weights[0].assign(model.weights[0] * 1.01)

    monkeypatch.setattr("bert_tf.export.precision.arrange_for_inference", wrong)
    with pytest.raises(RuntimeError, match="arranged for inference must equal those of the preset"):
        export_preset(presets["classifier"], tmp_path / "model")
    assert not list((tmp_path / "model").glob("[!.]*"))


def test_differences_cover_numbers_and_other_outputs() -> None:
    def case(numbers: Any, labels: Any, scores: Any) -> list[Case]:
        outputs = {"x": np.float32(numbers), "l": np.array(labels, object), "n": np.float32(scores)}
        return [Case("s", {}, outputs, {"x": np.array([0, 1.0]), "l": np.array(0.0), "n": np.array(0.0)})]

    found = differences(case([1, 2], [b"a"], [1]) * 2, case([1, 2.5], [b"a"], [1]) + case([1, 2], [b"b"], [1, 2]))
    assert found == {"s": {"max_abs_difference": 0.5, "other": ["l", "n"]}}


def test_another_precision_is_refused(presets: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`precision` must be one of float32, bfloat16, int8. Received: 'float16'"):
        export_preset(presets["backbone"], tmp_path / "m", precision="float16")
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_model_card_states_the_difference_from_float32(
    precision: str, presets: dict[str, Path], tmp_path: Path, quick_verification: None
) -> None:
    folder = export_preset(presets["pretrainer"], tmp_path, precision=precision)
    card = json.loads((folder / MODEL_CARD).read_text(encoding="utf-8"))
    assert card["precision"] == precision
    assert card["tolerance"] == relative_tolerance(precision, load_preset(presets["pretrainer"]).config)
    as_exported, as_trained, reference = (
        answers(presets["pretrainer"], *how) for how in ((precision, True), (precision, False), ("float32", False))
    )
    assert card["difference_to_float32"].keys() == card["signatures"].keys()
    assert card["difference_to_float32"] == differences(as_exported, reference)
    sizes = {
        case.signature: max(np.abs(values).max() for values in case.outputs.values() if values.dtype == np.float32)
        for case in reference
        if len(next(iter(case.outputs.values())))
    }
    for name, expected in differences(as_trained, reference).items():
        found = card["difference_to_float32"][name]
        near = 2 * card["tolerance"] * float(sizes[name])
        assert found["max_abs_difference"] == pytest.approx(expected["max_abs_difference"], abs=near)
        assert found["max_abs_difference"] > 1e-3
    assert signature_shapes(folder)["serving_default"]["outputs"]["scores"] == "float [-1, -1, 5]"
    dtypes = {dtype for _, dtype in stored_dtypes(folder)}
    assert tf.as_dtype(precision) in dtypes


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "near"), [("int8", 1e-5), ("bfloat16", 2**-5)])
def test_arranged_layers_keep_the_scores_of_tokens(precision: str, near: float, presets: dict[str, Path]) -> None:
    found, expected = (
        scores_of_tokens(load_in_precision(presets["pretrainer"], precision, arranged=arranged))
        for arranged in (True, False)
    )
    np.testing.assert_allclose(found, expected, rtol=near, atol=near)
    assert np.ptp(expected, axis=1).min() > 1


def scores_of_tokens(preset: Preset) -> np.ndarray:
    """Returns the logarithms of the scores of the vocabulary's tokens [3, V], for three masks."""
    signatures = signatures_of(preset, top_k=len(VOCABULARY))
    answer = signatures.endpoints["serving_default"].function(tf.constant(["cat [MASK] dog", "[MASK] tree [MASK]"]))
    tokens, scores = (answer[name].numpy().reshape(-1, len(VOCABULARY)) for name in ("tokens", "scores"))
    masks = [dict(zip(*mask, strict=True)) for mask in zip(tokens, scores, strict=True) if all(mask[0])]
    assert len(masks) == 3
    return np.log([[mask[token.encode()] for token in VOCABULARY.tokens] for mask in masks])


def answers(preset: Path, precision: str, arranged: bool) -> list[Case]:
    return record(signatures_of(load_in_precision(preset, precision, arranged=arranged)), precision)


def stored_dtypes(folder: Path) -> list[tuple[str, tf.DType]]:
    reader = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
    return list(reader.get_variable_to_dtype_map().items())

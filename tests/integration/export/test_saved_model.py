from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig, ConfigError
from bert_tf.export import saved_model
from bert_tf.export.metadata import read_meta_graph, signature_defs
from bert_tf.export.precision import load_in_precision
from bert_tf.export.saved_model import export_preset
from bert_tf.export.verify.golden_outputs import record
from bert_tf.export.verify.tf_serving import RELEASES
from bert_tf.export.warmup import read_warmup, request_of
from bert_tf.models import BertBackbone, BertTextClassifier, load_preset, save_preset
from tests.support.export.presets import KINDS, LABELS, MAX_LENGTH, TASKS, VOCABULARY, WORDS

Exported = Callable[[str], Path]


def ids_of(*texts: str) -> list[int]:
    """Word pieces of whole lower-case words, by hand."""
    ids = [VOCABULARY.cls_id]
    for text in texts:
        ids += [VOCABULARY.id_of(word) for word in text.split()] + [VOCABULARY.sep_id]
    return ids


def model_inputs(*rows: tuple[str, ...]) -> dict[str, np.ndarray]:
    """[CLS] a [SEP] (b [SEP]), padded to the longest row, by hand."""
    ids = [ids_of(*row) for row in rows]
    length = max(map(len, ids))
    token_ids = np.zeros((len(rows), length), np.int32)
    segment_ids, padding_mask = np.zeros_like(token_ids), np.zeros_like(token_ids)
    for i, row in enumerate(ids):
        token_ids[i, : len(row)] = row
        padding_mask[i, : len(row)] = 1
        segment_ids[i, len(ids_of(rows[i][0])) : len(row)] = 1
    return {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": padding_mask}


def softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def call(folder: Path, signature: str = "serving_default", **inputs: Any) -> dict[str, np.ndarray]:
    function = tf.saved_model.load(str(folder)).signatures[signature]
    specs = function.structured_input_signature[1]
    outputs = function(**{name: tf.constant(value, specs[name].dtype) for name, value in inputs.items()})
    return {name: tensor.numpy() for name, tensor in outputs.items()}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "classifier" else pytest.mark.slow) for kind in KINDS]
)
def test_version_folder_has_all_files(kind: str, presets: dict[str, Path], exported: Exported) -> None:
    folder = exported(kind)
    assert folder.name == "1"
    assert [entry.name for entry in folder.parent.iterdir()] == ["1"]
    assert (folder / "assets.extra" / "vocab.txt").read_bytes() == (presets[kind] / "vocab.txt").read_bytes()
    card = json.loads((folder / "assets.extra" / "model_card.json").read_text(encoding="utf-8"))
    assert card["kind"] == load_preset(presets[kind]).kind
    assert card["parameters"] == load_preset(presets[kind]).model.count_params()
    assert card["task"] == TASKS.get(kind, {}).get("task") and card["exported"].endswith("+00:00")
    assert card["labels"] == TASKS.get(kind, {}).get("labels")
    # Another test process may have exported the model from its own preset.
    assert Path(card["source_preset"]).name == presets[kind].name
    assert card["max_sequence_length"] == MAX_LENGTH
    assert card["info"] == {"steps": 7}
    assert card["precision"] == "float32" and "difference_to_float32" not in card and "evaluation" not in card
    assert "FastWordpieceTokenizeWithOffsets" in card["text_operations"]
    assert card["tf_serving"] == list(RELEASES)
    signatures = tf.saved_model.load(str(folder)).signatures
    requests = [request_of(log)[0] for log in read_warmup(folder)]
    assert set(requests) == set(signatures) and card["warmup_requests"] == len(requests) == len(signatures)
    assert set(card["signatures"]) == set(signatures) == set(card["max_abs_difference"])
    assert all(0 <= difference < 1e-5 for difference in card["max_abs_difference"].values())
    texts = {"pair_classifier": ["text", "text_pair"], "spans": ["context", "question"], "choices": ["choices", "text"]}
    assert list(card["signatures"]["serving_default"]["inputs"]) == texts.get(kind, ["text"])
    methods = {name: definition["method_name"] for name, definition in signature_defs(folder).items()}
    served = {"classify": "tensorflow/serving/classify", "regress": "tensorflow/serving/regress"}
    assert {name: methods[name] for name in signatures} == {
        name: served.get(name, "tensorflow/serving/predict") for name in signatures
    }
    further = {"pretrainer": {"embed", "layers"}, "backbone": {"layers"}, "entities": {"words"}}
    further |= {
        "classifier": {"classify"},
        "modern": {"classify"},
        "pair_classifier": {"classify"},
        "regression": {"regress"},
    }
    assert set(signatures) == {"serving_default", "ids", "serve_examples"} | further.get(kind, set())


def test_every_weight_is_stored_once(presets: dict[str, Path], exported: Exported) -> None:
    reader = tf.train.load_checkpoint(str(exported("classifier") / "variables" / "variables"))
    types, shapes = reader.get_variable_to_dtype_map(), reader.get_variable_to_shape_map()
    stored = sorted(tuple(shapes[name]) for name, dtype in types.items() if dtype == tf.float32)
    arranged = load_in_precision(presets["classifier"], "float32", arranged=True).model
    assert stored == sorted(tuple(weight.shape) for weight in arranged.weights)
    # The kernels of such a small model are not padded.
    assert arranged.count_params() == load_preset(presets["classifier"]).model.count_params()


@pytest.mark.parametrize("kind, times", [("classifier", 1), ("backbone", 1), ("pretrainer", 2)])
def test_all_signatures_call_one_encoder(kind: str, times: int, presets: dict[str, Path], exported: Exported) -> None:
    functions = read_meta_graph(exported(kind)).graph_def.library.function
    products = sum(node.op == "BatchMatMulV2" for function in functions for node in function.node_def)
    # Two in each layer. A masked language model also has a signature with the encoder only.
    assert products == times * 2 * load_preset(presets[kind]).config.num_layers
    assert not [function.signature.name for function in functions if "grad" in function.signature.name]


@pytest.mark.smoke
def test_classifier_signature_equals_the_model_on_token_ids(presets: dict[str, Path], exported: Exported) -> None:
    rows = [("the cat sat on a mat",), ("dog",), ("a big red house",)]
    inputs = model_inputs(*rows)
    logits = np.asarray(load_preset(presets["classifier"]).model(inputs, training=False))
    answer = call(exported("classifier"), text=[row[0].upper() for row in rows])
    np.testing.assert_allclose(answer["probabilities"], softmax(logits), atol=1e-5)
    assert [label.decode() for label in answer["label"]] == [LABELS[i] for i in logits.argmax(axis=-1)]
    by_ids = call(exported("classifier"), "ids", **inputs)
    np.testing.assert_allclose(by_ids["logits"], logits, atol=1e-5)
    np.testing.assert_allclose(by_ids["probabilities"], softmax(logits), atol=1e-5)


def test_pairs_get_segments_and_depend_on_their_order(presets: dict[str, Path], exported: Exported) -> None:
    rows = [("the cat sat", "a dog ran to the house"), ("red", "big")]
    logits = np.asarray(load_preset(presets["pair_classifier"]).model(model_inputs(*rows), training=False))
    first, second = zip(*rows, strict=True)
    answer = call(exported("pair_classifier"), text=first, text_pair=second)
    np.testing.assert_allclose(answer["probabilities"], softmax(logits), atol=1e-5)
    swapped = call(exported("pair_classifier"), text=second, text_pair=first)
    assert np.abs(swapped["probabilities"] - answer["probabilities"]).max() > 1e-3


def test_fill_mask_returns_every_mask_in_order(presets: dict[str, Path], exported: Exported) -> None:
    texts = ["the [MASK] sat on a [MASK]", "[MASK] dog", "no mask"]
    answer = call(exported("pretrainer"), text=texts[:2] + ["the dog"])
    assert answer["tokens"].shape == answer["scores"].shape == (3, 2, 5)
    inputs = model_inputs((texts[0],), (texts[1],), ("the dog",))
    inputs["mask_positions"] = np.array([[2, 6], [1, 0], [0, 0]], np.int32)
    model = load_preset(presets["pretrainer"]).model
    probabilities = softmax(np.asarray(model(inputs, training=False)["mlm_logits"]))
    for row, mask in ((0, 0), (0, 1), (1, 0)):
        best = np.argsort(-probabilities[row, mask])[:5]
        assert [token.decode() for token in answer["tokens"][row, mask]] == [VOCABULARY.tokens[i] for i in best]
        np.testing.assert_allclose(answer["scores"][row, mask], probabilities[row, mask, best], atol=1e-5)
    for row, mask in ((1, 1), (2, 0), (2, 1)):
        assert (answer["tokens"][row, mask] == b"").all()
        assert (answer["scores"][row, mask] == 0).all()


@pytest.mark.parametrize(("kind", "signature"), [("backbone", "serving_default"), ("pretrainer", "embed")])
def test_embeddings_are_the_pooled_output_and_the_mean_over_tokens(
    kind: str, signature: str, presets: dict[str, Path], exported: Exported
) -> None:
    rows = [("the cat sat on a mat",), ("dog",)]
    inputs = model_inputs(*rows)
    model = load_preset(presets[kind]).model
    outputs = getattr(model, "backbone", model)(inputs, training=False)
    sequence = np.asarray(outputs["sequence_output"])
    mean = [sequence[i, : inputs["padding_mask"][i].sum()].mean(axis=0) for i in range(2)]
    answer = call(exported(kind), signature, text=[row[0] for row in rows])
    np.testing.assert_allclose(answer["pooled_output"], outputs["pooled_output"], atol=1e-5)
    np.testing.assert_allclose(answer["mean_output"], mean, atol=1e-5)


def test_outputs_do_not_depend_on_other_rows_of_the_batch(exported: Exported) -> None:
    long, short = " ".join(WORDS), "the cat"
    together = call(exported("classifier"), text=[short, long])["probabilities"]
    np.testing.assert_allclose(call(exported("classifier"), text=[short])["probabilities"], together[:1], atol=1e-5)


def test_long_text_is_truncated_with_its_masks(exported: Exported) -> None:
    kept = " ".join((WORDS * 4)[: MAX_LENGTH - 2])
    answer = call(exported("pretrainer"), "embed", text=[kept, f"{kept} cat dog"])
    np.testing.assert_allclose(answer["pooled_output"][0], answer["pooled_output"][1], atol=1e-5)
    assert call(exported("pretrainer"), text=[f"{kept} [MASK]"])["tokens"].shape == (1, 0, 5)


def test_next_free_version_is_used_and_stale_staging_is_removed(
    presets: dict[str, Path], tmp_path: Path, quick_verification: None
) -> None:
    for name in ("2", "7", ".staging-8", ".staging-3"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").write_bytes(b"half")
    with pytest.raises(ValueError, match="version 7 exists already"):
        export_preset(presets["backbone"], tmp_path, version=7)
    assert export_preset(presets["backbone"], tmp_path, max_sequence_length=9) == tmp_path / "8"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["2", "7", "8"]
    assert (tmp_path / "7" / "saved_model.pb").read_bytes() == b"half"
    with pytest.raises(tf.errors.InvalidArgumentError, match="second dimension of token_ids must lie in 1..9"):
        call(tmp_path / "8", "ids", token_ids=[[1] * 10], segment_ids=[[0] * 10], padding_mask=[[1] * 10])


def test_model_with_other_outputs_is_not_exported(
    presets: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def perturbed(*args: Any) -> Any:
        cases = record(*args)
        cases[0].outputs["probabilities"][1, 0] += 1e-3
        return cases

    monkeypatch.setattr(saved_model, "record", perturbed)
    with pytest.raises(RuntimeError, match="`serving_default`, output `probabilities`: differs by 0.00"):
        export_preset(presets["classifier"], tmp_path / "m")
    assert list((tmp_path / "m").iterdir()) == []


@pytest.mark.smoke
@pytest.mark.parametrize("broken", ["_write", "_verified", "save_json"])
def test_an_interrupted_export_leaves_nothing(
    broken: str, presets: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any) -> None:
        staging = next(arg for arg in args if isinstance(arg, Path))
        staging.mkdir(exist_ok=True)
        raise KeyboardInterrupt

    def written(signatures: Any, staging: Path) -> None:
        (staging / "assets.extra").mkdir(parents=True)

    monkeypatch.setattr(saved_model, "_write", written)
    monkeypatch.setattr(saved_model, "signature_shapes", lambda staging: {})
    monkeypatch.setattr(saved_model, "text_operations", lambda staging: [])
    monkeypatch.setattr(saved_model, "serving_releases", lambda staging, required: [])
    monkeypatch.setattr(saved_model, "record", lambda *args: [])
    monkeypatch.setattr(saved_model, "_verified", lambda staging: {})
    monkeypatch.setattr(saved_model, broken, interrupted)
    with pytest.raises(KeyboardInterrupt):
        export_preset(presets["backbone"], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_two_exports_do_not_write_to_one_directory(presets: dict[str, Path], tmp_path: Path) -> None:
    other = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(RuntimeError, match="another process is writing an export to"):
        export_preset(presets["backbone"], tmp_path)
    os.close(other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"version": 0}, "`version` must be at least 1. Received: 0"),
        ({"top_k": 0}, "`top_k` must lie in 1.."),
        ({"top_k": 1000}, "Received: 1000"),
        ({"max_sequence_length": 7}, "`max_sequence_length` must be an integer in 8..24"),
        ({"max_sequence_length": 25}, "Received: 25"),
    ],
)
def test_options_out_of_range_are_refused(
    options: dict[str, int], message: str, presets: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        export_preset(presets["pretrainer"], tmp_path / "m", **options)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (None, "`labels` must name the model's 3 classes. Received: None"),
        ({"labels": ["a", "b"]}, "Received: ['a', 'b']"),
        ({"labels": [1, 2, 3]}, "Received: [1, 2, 3]"),
        ({"labels": LABELS, "text_columns": 3}, "`text_columns` must be 1 or 2. Received: 3"),
        ({"labels": LABELS, "max_sequence_length": "24"}, "Received: '24'"),
    ],
)
def test_mismatched_task_is_refused(
    task: dict[str, Any] | None, message: str, presets: dict[str, Path], tmp_path: Path
) -> None:
    preset = load_preset(presets["classifier"])
    save_preset(preset.model, tmp_path / "p", preset.vocabulary, True, task)
    with pytest.raises(ConfigError, match=re.escape(message)):
        export_preset(tmp_path / "p", tmp_path / "m")


def test_directory_with_other_files_is_refused(presets: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"contain only versions. Received: config.json, "):
        export_preset(presets["backbone"], presets["backbone"])
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="must be a directory"):
        export_preset(presets["backbone"], tmp_path / "file")
    with pytest.raises(ConfigError, match="nowhere"):
        export_preset(tmp_path / "nowhere", tmp_path / "m")


@pytest.mark.parametrize("body", ["bert", pytest.param("modern", marks=pytest.mark.slow)])
def test_long_rows_are_computed_in_parts(body: str, tmp_path: Path) -> None:
    """Rows of 600 tokens are blocks in the first layer, and windows in the second one of `modern`."""
    config = BertConfig(
        vocabulary_size=len(VOCABULARY), hidden_dim=16, num_layers=2, num_heads=2, intermediate_dim=32,
        max_sequence_length=600, initializer_range=0.3, pooler=False,
    ).with_changes(body=body)  # fmt: skip
    model = BertTextClassifier(BertBackbone(config), len(LABELS), pooling="mean")
    save_preset(model, tmp_path / "preset", VOCABULARY, True, TASKS["classifier"])
    folder = export_preset(tmp_path / "preset", tmp_path / "saved", max_sequence_length=600)
    texts = [" ".join((WORDS * 60)[:count]) for count in (1, 300, 598)]
    found = call(folder, text=texts)["probabilities"]
    for layer in model._flatten_layers():
        if hasattr(layer, "pattern"):
            layer.pattern = replace(layer.pattern, max_length=1)
    expected = softmax(np.asarray(model(model_inputs(*((text,) for text in texts)))))
    np.testing.assert_allclose(found, expected, atol=1e-5)

"""Tests the parts of all conversions: tensors, inputs, vocabularies and the comparison."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_tf.conversion import ConversionError
from bert_tf.conversion.checkpoint import fitted, read_vocabulary
from bert_tf.conversion.formats.releases import read_config
from bert_tf.conversion.tensors import Heads, Tensor, check_tensors, expected_shapes, heads_among
from bert_tf.conversion.verify.outputs import Answers
from bert_tf.conversion.verify.parity import compare
from bert_tf.conversion.verify.probe_inputs import fixed_inputs
from bert_tf.text.vocabulary import Vocabulary
from tests.support.conversion.checkpoint_samples import CONFIG, VOCABULARY, made_checkpoint, random_arrays


def test_shapes_equal_those_of_the_original() -> None:
    shapes = expected_shapes(CONFIG, Heads(masked_lm=True, next_sentence=True))
    assert len(shapes) == 5 + 2 * 16 + 2 + 5 + 2
    assert shapes["bert/encoder/layer_1/intermediate/dense/kernel"] == (8, 12)
    assert shapes["bert/encoder/layer_1/output/dense/kernel"] == (12, 8)
    assert shapes["cls/seq_relationship/output_weights"] == (2, 8)
    assert "bert/pooler/dense/kernel" not in expected_shapes(replace(CONFIG, pooler=False), Heads())
    task = expected_shapes(CONFIG, Heads(task="question_answering"))
    assert task["cls/squad/output_weights"] == (2, 8) and task["cls/squad/output_bias"] == (2,)


@pytest.mark.parametrize(
    "heads",
    [
        Heads(),
        Heads(masked_lm=True, next_sentence=True),
        Heads(masked_lm=True),
        Heads(task="sequence_classification", num_labels=3),
        Heads(task="token_classification", num_labels=5),
        Heads(task="question_answering", num_labels=2),
        Heads(task="multiple_choice", num_labels=1),
    ],
)
def test_heads_are_recognized_by_their_tensors(heads: Heads) -> None:
    shapes = expected_shapes(CONFIG, heads)
    assert heads_among(shapes, shapes.__getitem__) == heads


def test_output_weights_of_two_tasks_are_refused() -> None:
    names = {"output_weights": (3, 8), "cls/squad/output_weights": (2, 8)}
    with pytest.raises(ConversionError, match="of one task. Received: sequence_classification, question_answering"):
        heads_among(names, names.__getitem__)


def test_every_invalid_tensor_is_named() -> None:
    tensors = dict(made_checkpoint(random_arrays(Heads()), Heads()).tensors)
    del tensors["bert/pooler/dense/bias"]
    tensors["x"] = Tensor("theirs/x", (1,), lambda: np.zeros(1))
    tensors["bert/embeddings/LayerNorm/beta"] = Tensor("theirs/beta", (9,), lambda: np.zeros(9))
    with pytest.raises(ConversionError) as error:
        check_tensors(tensors, CONFIG, Heads(), "file.bin")
    for part in (
        "file.bin: tensors do not match",
        "missing: bert/pooler/dense/bias (8,)",
        "unknown: theirs/x",
        "theirs/beta: must have shape (8,) by the configuration. Received: (9,)",
    ):
        assert part in str(error.value)


def test_probe_inputs_are_deterministic_and_cover_all_cases() -> None:
    inputs, again = fixed_inputs(CONFIG), fixed_inputs(CONFIG)
    for name, value in inputs.items():
        assert value.dtype == np.int32 and value.tobytes() == again[name].tobytes()
    mask, segments = inputs["padding_mask"], inputs["segment_ids"]
    assert mask.sum(axis=1).tolist() == [12, 7, 6, 9]
    assert (np.diff(mask, axis=1) <= 0).all()
    assert segments.max(axis=1).tolist() == [1, 0, 0, 1] and not (segments & ~mask & 1).any()
    assert (inputs["token_ids"] < 20).all() and not inputs["token_ids"][mask == 0].any()
    assert np.take_along_axis(mask, inputs["mask_positions"], axis=1).all()
    assert not fixed_inputs(replace(CONFIG, num_segments=1))["segment_ids"].any()
    assert fixed_inputs(replace(CONFIG, max_sequence_length=2048))["token_ids"].shape == (4, 512)


def test_a_short_vocabulary_is_padded(caplog: pytest.LogCaptureFixture) -> None:
    assert fitted(VOCABULARY, 20, "v") is VOCABULARY
    assert fitted(replace(VOCABULARY, tokens=(*VOCABULARY.tokens, "", " ")), 20, "v") == VOCABULARY
    with pytest.raises(ConversionError, match="at most as many word pieces .* 19. Received: 20. .*--vocabulary"):
        fitted(VOCABULARY, 19, "v", padded=True)
    padded = fitted(VOCABULARY, 22, "v", padded=True)
    assert not caplog.text
    assert fitted(VOCABULARY, 22, "v") == padded
    assert "v: has 20 pieces for 22 rows" in caplog.text
    assert padded.tokens[20:] == ("[padding20]", "[padding21]")
    assert padded.without_padding() == VOCABULARY
    assert VOCABULARY.without_padding() is VOCABULARY
    padded_vocabulary = Vocabulary((*VOCABULARY.tokens, "[padding7]"))
    assert padded_vocabulary.without_padding() is padded_vocabulary


def test_invalid_vocabulary_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"[PAD]\n\xff\nx\n")
    with pytest.raises(ConversionError, match="vocab.txt: line 2: "):
        read_vocabulary(tmp_path / "vocab.txt")


def test_comparison_ignores_padding_positions() -> None:
    inputs = fixed_inputs(CONFIG)
    arrays = random_arrays(Heads())
    checkpoint = made_checkpoint(arrays, Heads())
    sequence = np.random.default_rng(1).normal(size=(4, 12, 8)).astype(np.float32)
    other = sequence + np.where(inputs["padding_mask"][..., np.newaxis] == 0, np.float32(9), np.float32(0))
    other[0, 0, 0] += 1e-3
    both = {"sequence_output": sequence, "nsp_logits": np.zeros((4, 2), np.float32)}
    parity = compare(
        (checkpoint, Answers("a", both)), (checkpoint, Answers("b", {"sequence_output": other})), inputs, ["x"]
    )
    assert set(parity.differences) == {"sequence_output"}
    assert parity.max_abs_difference == pytest.approx(1e-3, rel=1e-3)
    assert parity.faults == ["sequence_output differs by 0.001, more than 1e-04"]
    assert (parity.lost, parity.tensors, parity.computed_by) == (("x",), len(arrays), ("a", "b"))


@pytest.mark.parametrize(("value", "fault"), [(np.float32(np.nan), "differs by nan"), (np.float32(1e-5), None)])
def test_nan_is_a_fault(value: np.float32, fault: str | None) -> None:
    checkpoint = made_checkpoint(random_arrays(Heads()), Heads())
    one = Answers("a", {"pooled_output": np.zeros((4, 8), np.float32)})
    other = Answers("b", {"pooled_output": np.full((4, 8), value)})
    faults = compare((checkpoint, one), (checkpoint, other), fixed_inputs(CONFIG), []).faults
    assert (fault in faults[0]) if fault else faults == []


def test_changed_bits_are_a_fault_unless_the_target_stores_fewer() -> None:
    arrays = random_arrays(Heads())
    altered = arrays | {"bert/pooler/dense/bias": np.nextafter(arrays["bert/pooler/dense/bias"], np.float32(9))}
    answered = Answers("a", {"pooled_output": np.zeros((4, 8), np.float32)})
    one, other = made_checkpoint(arrays, Heads()), made_checkpoint(altered, Heads())
    parity = compare((one, answered), (other, answered), fixed_inputs(CONFIG), [])
    assert list(parity.unequal_tensors) == ["bert/pooler/dense/bias"]
    assert parity.faults and parity.faults[0].startswith("tensor bert/pooler/dense/bias differs by ")
    halves = {name: array.astype(np.float16).astype(np.float32) for name, array in arrays.items()}
    half = replace(made_checkpoint(halves, Heads()), dtype="float16")
    rounded = compare((one, answered), (half, answered), fixed_inputs(CONFIG), [])
    assert rounded.rounded and rounded.faults == []
    assert rounded.report(one, half)["tolerance"] is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_hidden_layers": 10**9}, "`num_layers` must be at most 1000. Received: 1000000000"),
        ({"initializer_range": float("inf")}, "`initializer_range` must be a finite number"),
        ({"attention_probs_dropout_prob": float("nan")}, "`attention_dropout` must be a finite number"),
    ],
)
def test_original_configuration_out_of_range_is_refused(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "bert_config.json"
    path.write_text(json.dumps({"vocab_size": 20} | fields))
    with pytest.raises(ConversionError, match=message):
        read_config(path)


def test_a_deeply_nested_configuration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bert_config.json").write_text('{"vocab_size": ' + "[" * 200_000)
    with pytest.raises(ConversionError, match="bert_config.json: .*nested at most 100 levels"):
        read_config(tmp_path / "bert_config.json")


def test_nonfinite_tensor_is_named_and_refused() -> None:
    arrays = random_arrays(Heads())
    arrays["bert/pooler/dense/bias"][1] = np.nan
    checkpoint = made_checkpoint(arrays, Heads())
    with pytest.raises(ConversionError, match="weight `bert/pooler/dense/bias` must hold finite numbers"):
        checkpoint.array("bert/pooler/dense/bias")

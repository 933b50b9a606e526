"""Tests the core of all conversions: canonical tensors, the numpy reference, the comparison, and preset round trips."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest

from bert_tf.cli import main
from bert_tf.config import BertConfig
from bert_tf.conversion import ConversionError, Options, convert
from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.formats import preset
from bert_tf.conversion.formats.registry import form, read_checkpoint
from bert_tf.conversion.tensors import Heads
from bert_tf.conversion.verify.outputs import Peers, answers, peer_command
from bert_tf.conversion.verify.probe_inputs import fixed_inputs
from bert_tf.conversion.verify.reference import reference_outputs
from bert_tf.models import (
    BertBackbone,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanPredictor,
    BertTextClassifier,
    BertTokenClassifier,
    load_preset,
    save_preset,
)
from tests.support.conversion.checkpoint_samples import CONFIG, VOCABULARY, made_checkpoint, random_arrays

BUILD: dict[str, Callable[[BertConfig], keras.Model]] = {
    "backbone": BertBackbone,
    "pretrainer": lambda config: BertPretrainer(BertBackbone(config)),
    "masked_lm": lambda config: BertPretrainer(BertBackbone(config), next_sentence=False),
    "next_sentence": lambda config: BertPretrainer(BertBackbone(config), masked_lm=False),
    "classifier": lambda config: BertTextClassifier(BertBackbone(config), 3),
    "tokens": lambda config: BertTokenClassifier(BertBackbone(config), 4),
    "spans": lambda config: BertSpanPredictor(BertBackbone(config)),
    "choices": lambda config: BertMultipleChoice(BertBackbone(config)),
}
WITHOUT_POOLER = ("backbone", "masked_lm", "tokens", "spans")


def saved_preset(directory: Path, kind: str, config: BertConfig = CONFIG) -> Path:
    model = BUILD[kind](config)
    random = np.random.default_rng(3)
    model.set_weights([0.5 * random.normal(size=weight.shape) for weight in model.get_weights()])
    labels = {"classifier": 3, "tokens": 4}.get(kind)
    task = {"labels": list("abcd"[:labels])} if labels else None
    save_preset(model, directory, VOCABULARY, True, task, {"step": 17})
    return directory


def assert_reference(directory: Path) -> None:
    checkpoint = read_checkpoint(directory, "preset")
    inputs = fixed_inputs(checkpoint.config)
    expected, received = reference_outputs(checkpoint, inputs), answers(checkpoint, inputs, Peers({})).outputs
    assert set(expected) == set(received)
    present = inputs["padding_mask"] != 0
    for name, value in expected.items():
        of_tokens = value.ndim == 3 and value.shape[:2] == present.shape
        assert value.shape == received[name].shape, name
        gap = np.abs(value - received[name])
        assert gap[present].max() < 1e-5 if of_tokens else gap.max() < 1e-5, name


@pytest.mark.parametrize("kind", BUILD)
def test_reference_equals_the_model(kind: str, tmp_path: Path) -> None:
    assert_reference(saved_preset(tmp_path / "preset", kind))


@pytest.mark.parametrize(
    "fields",
    [
        {"activation": "gelu"},
        {"activation": "relu"},
        {"activation": "tanh", "layer_norm_epsilon": 0.1},
        {"attention": "left_to_right"},
        {"num_segments": 1},
        {"mlm_activation": "relu", "mlm_layer_norm_epsilon": 0.1},
    ],
)
def test_reference_equals_the_model_of_every_architecture(fields: dict[str, Any], tmp_path: Path) -> None:
    assert_reference(saved_preset(tmp_path / "preset", "pretrainer", replace(CONFIG, **fields)))


@pytest.mark.parametrize("kind", WITHOUT_POOLER)
def test_reference_equals_the_model_without_pooler(kind: str, tmp_path: Path) -> None:
    assert_reference(saved_preset(tmp_path / "preset", kind, replace(CONFIG, pooler=False)))


@pytest.mark.parametrize("field", ["mlm_activation", "mlm_layer_norm_epsilon"])
def test_masked_lm_head_inherits_settings_of_the_encoder(field: str, tmp_path: Path) -> None:
    value = {"mlm_activation": "gelu_approximate", "mlm_layer_norm_epsilon": 1e-12}[field]
    outputs = []
    for config in (CONFIG, replace(CONFIG, **{field: value})):
        checkpoint = read_checkpoint(saved_preset(tmp_path / str(len(outputs)), "masked_lm", config), "preset")
        outputs.append(reference_outputs(checkpoint, fixed_inputs(config))["mlm_logits"])
    np.testing.assert_array_equal(*outputs)


@pytest.mark.parametrize("kind", BUILD)
def test_round_trip_of_a_preset_is_bit_identical(kind: str, tmp_path: Path) -> None:
    source = saved_preset(tmp_path / "source", kind)
    conversion = convert(source, tmp_path / "target", "preset", source_form="preset")
    assert conversion.parity.max_abs_difference == 0.0 and conversion.parity.lost == ()
    one, other = load_preset(source), load_preset(tmp_path / "target")
    assert (one.kind, one.config, one.vocabulary, one.lowercase) == (
        other.kind,
        other.config,
        other.vocabulary,
        other.lowercase,
    )
    for weight, again in zip(one.model.weights, other.model.weights, strict=True):
        assert weight.path == again.path
        assert np.asarray(weight).tobytes() == np.asarray(again).tobytes(), weight.path
    target = conversion.target
    assert (target.step, target.labels) == (17, {"classifier": ("a", "b", "c"), "tokens": tuple("abcd")}.get(kind))
    report = json.loads((tmp_path / "target" / "parity.json").read_text("utf-8"))
    assert report["tensors"] == report["tensors_bit_equal"] == len(conversion.source.tensors)


def _altering(change: Callable[[h5py.File], Any]) -> Callable[..., list[str]]:
    write = preset.write

    def written(checkpoint: Checkpoint, directory: Path, options: Options) -> list[str]:
        lost = write(checkpoint, directory, options)
        with h5py.File(directory / "model.weights.h5", "a") as file:
            change(file)
        # A fault of the conversion itself would have its own digest.
        config = json.loads((directory / "config.json").read_text("utf-8"))
        (directory / "config.json").write_text(json.dumps(config | {"weights_sha256": ""}), "utf-8")
        return lost

    return written


def _shifted(path: str, by: float) -> Callable[[h5py.File], Any]:
    def change(file: h5py.File) -> None:
        file[path][...] = file[path][()] + np.float32(by)

    return change


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("mlm_logits/output_bias", "mlm_logits differs by 0.5, more than 1e-04"),
        ("layer_2/self_attention_layer/key/bias", "tensor bert/encoder/layer_1/attention/self/key/bias differs by 0.5"),
    ],
)
def test_changed_tensor_fails_the_conversion(
    path: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = saved_preset(tmp_path / "source", "pretrainer")
    monkeypatch.setattr(preset, "write", _altering(_shifted(path, 0.5)))
    with pytest.raises(ConversionError, match="outputs .* differ .*nothing was written") as error:
        convert(source, tmp_path / "target", "preset", source_form="preset")
    assert message in str(error.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["source"]


def test_unreadable_target_fails_the_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = saved_preset(tmp_path / "source", "backbone")
    monkeypatch.setattr(preset, "write", _altering(lambda file: file.pop("pooler/bias")))
    with pytest.raises(ConversionError, match="missing: bert/pooler/dense/bias"):
        convert(source, tmp_path / "target", "preset", source_form="preset")
    assert [entry.name for entry in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize("occupied", ["file", "directory"])
def test_target_with_other_files_is_refused(occupied: str, tmp_path: Path) -> None:
    source, target = saved_preset(tmp_path / "source", "backbone"), tmp_path / "target"
    held = target if occupied == "file" else target / "notes.txt"
    held.parent.mkdir(exist_ok=True)
    held.write_text("mine", "utf-8")
    with pytest.raises(ConversionError, match="must be missing or an empty directory"):
        convert(source, target, "preset", source_form="preset")
    assert held.read_text("utf-8") == "mine"


def test_a_complete_conversion_is_recognised(tmp_path: Path) -> None:
    source = saved_preset(tmp_path / "source", "backbone")
    convert(source, tmp_path / "target", "preset", source_form="preset")
    with pytest.raises(ConversionError, match="target: holds a complete conversion"):
        convert(source, tmp_path / "target", "preset", source_form="preset")


def test_an_empty_target_is_filled(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    convert(saved_preset(tmp_path / "source", "backbone"), tmp_path / "target", "preset", source_form="preset")
    assert load_preset(tmp_path / "target").config == CONFIG


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vocabulary": None, "lowercase": True}, "vocabulary is unknown.* --vocabulary vocab.txt"),
        ({"vocabulary": VOCABULARY, "lowercase": None}, "casing is unknown.* --lowercase"),
    ],
)
def test_a_preset_needs_vocabulary_and_casing(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=message):
        preset.write(made_checkpoint(random_arrays(Heads()), Heads(), **fields), tmp_path, Options())


def test_preset_with_pretraining_and_task_heads_is_refused(tmp_path: Path) -> None:
    heads = Heads(masked_lm=True, task="sequence_classification", num_labels=2)
    checkpoint = made_checkpoint(random_arrays(heads), heads, vocabulary=VOCABULARY, lowercase=True)
    with pytest.raises(ConversionError, match="of a task. Received: masked_lm, sequence_classification"):
        preset.write(checkpoint, tmp_path, Options())


def test_source_of_a_conversion_is_recorded(tmp_path: Path) -> None:
    heads = Heads(task="sequence_classification", num_labels=3)
    source = made_checkpoint(
        random_arrays(heads),
        heads,
        vocabulary=VOCABULARY,
        lowercase=False,
        dtype="bfloat16",
        labels=("x", "y", "z"),
        step=9,
        classifier_dropout=0.25,
        left_out=("global_step",),
        info={"name": "ours"},
    )
    preset.write(source, tmp_path / "preset", Options(text_columns=2))
    again = preset.read(tmp_path / "preset", Options())
    assert (again.dtype, again.labels, again.step, again.info) == ("bfloat16", ("x", "y", "z"), 9, {"name": "ours"})
    assert (again.classifier_dropout, again.lowercase, again.heads) == (0.25, False, heads)
    loaded = load_preset(tmp_path / "preset")
    assert loaded.task == {"task": "sequence_classification", "labels": ["x", "y", "z"], "text_columns": 2}
    assert loaded.info["conversion"]["left_out"] == ["global_step"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:900]), "not a readable HDF5 file"),
        (lambda path: path.unlink(), "`model.weights.h5` is missing"),
        (lambda path: (path.parent / "config.json").write_text("{}"), "config.json"),
    ],
)
def test_a_damaged_preset_is_refused(damage: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    source = saved_preset(tmp_path / "source", "backbone")
    damage(source / "model.weights.h5")
    with pytest.raises(ConversionError, match=message):
        convert(source, tmp_path / "target", "preset", source_form="preset")
    assert not (tmp_path / "target").exists()


def test_unknown_format_is_refused() -> None:
    with pytest.raises(ConversionError, match="must be one of preset, .*Received: 'onnx'"):
        form("onnx")


def test_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="no such file or directory"):
        read_checkpoint(tmp_path / "no" / "where", "preset")


def test_peer_command_requires_its_program(tmp_path: Path) -> None:
    python = tmp_path / "python"
    command = peer_command("huggingface", Peers({"huggingface": python}))
    assert command is not None and command[0] == str(python) and command[1].endswith("huggingface.py")
    assert peer_command("google_tf1", Peers({})) is None
    original = peer_command("google_tf1", Peers({}, tmp_path))
    assert original is not None and original[2] == str(tmp_path)


def test_reference_replaces_a_missing_peer_program() -> None:
    checkpoint = made_checkpoint(random_arrays(Heads()), Heads())
    found = answers(checkpoint, fixed_inputs(CONFIG), Peers({}))
    assert found.by == "numpy" and set(found.outputs) == {"sequence_output", "pooled_output"}


def test_command_reports_the_differences_of_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = saved_preset(tmp_path / "source", "tokens"), tmp_path / "target"
    assert main(["convert", "--source", "preset", str(source), "--target", "preset", str(target)]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert any(line.startswith("task_logits") and "differs by at most 0 " in line for line in lines)
    summary = json.loads(last)
    assert summary["max_abs_difference"] == 0.0 and summary["heads"] == ["token_classification"]
    assert summary["output"] == str(target) and summary["heads_lost"] == []


def test_the_command_fails_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = saved_preset(tmp_path / "source", "tokens"), tmp_path / "target"
    (source / "model.weights.h5").unlink()
    assert main(["convert", "--source", "preset", str(source), "--target", "preset", str(target)]) != 0
    assert "`model.weights.h5` is missing" in capsys.readouterr().err
    assert not target.exists()

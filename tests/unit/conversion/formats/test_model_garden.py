from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.conversion import ConversionError, Options, convert
from bert_tf.conversion.formats import google_tf1
from bert_tf.conversion.formats.model_garden import checkpoint as model_garden
from bert_tf.conversion.formats.model_garden.objects import build_objects, holder
from bert_tf.conversion.formats.registry import recognize
from bert_tf.conversion.tensors import Heads, Tensor, expected_shapes
from bert_tf.conversion.verify.outputs import Peers
from bert_tf.conversion.verify.probe_inputs import fixed_inputs
from bert_tf.conversion.verify.reference import reference_outputs
from tests.support.paths import TESTDATA

DATA = TESTDATA
KINDS = {
    "encoder": [],
    "pretrainer": ["masked_lm", "next_sentence"],
    "legacy": ["masked_lm", "next_sentence"],
    "classifier": ["sequence_classification"],
    "tokens": ["token_classification"],
    "spans": ["question_answering"],
}
ALL = pytest.mark.parametrize("kind", KINDS)


def golden(kind: str) -> Path:
    return DATA / f"model_garden_{kind}"


def written(target: Path, objects: dict, config: dict | None = None) -> Path:
    """Returns a checkpoint of the given objects, with the description of the recorded checkpoints."""
    target.mkdir()
    for name in ("bert_config.json", "vocab.txt"):
        shutil.copy(golden("encoder") / name, target / name)
    description = json.loads((target / "bert_config.json").read_text()) | (config or {})
    (target / "bert_config.json").write_text(json.dumps(description))
    tf.train.Checkpoint(**objects).write(str(target / "bert_model.ckpt"))
    return target


def encoder_objects() -> dict:
    objects, _ = build_objects(model_garden.read(golden("encoder"), Options()))
    return objects


def without(module: tf.Module, *names: str) -> tf.Module:
    children = {name: getattr(module, name) for name in module._trackable_children() if not name.startswith(names)}
    return holder(**children)


def same_bits(one, other) -> bool:
    names = list(expected_shapes(one.config, one.heads))
    return names == list(other.tensors) and all(
        one.array(name).tobytes() == other.array(name).tobytes() for name in names
    )


def assert_same_answers(checkpoint, recorded) -> None:
    inputs = fixed_inputs(checkpoint.config)
    computed, seen = reference_outputs(checkpoint, inputs), inputs["padding_mask"] != 0
    assert sorted(recorded) == sorted(computed)
    for name, expected in recorded.items():
        received = computed[name]
        if expected.shape[:2] == seen.shape:
            expected, received = expected[seen], received[seen]
        np.testing.assert_allclose(received, expected, rtol=0, atol=1e-5, err_msg=name)


@ALL
def test_outputs_equal_those_of_the_model_garden(kind):
    checkpoint = model_garden.read(golden(kind), Options())
    assert checkpoint.heads.names() == KINDS[kind]
    assert (checkpoint.lowercase, checkpoint.dtype, checkpoint.config.activation) == (
        True, "float32", "gelu_approximate")  # fmt: skip
    with np.load(golden(kind) / "outputs.npz") as recorded:
        assert_same_answers(checkpoint, dict(recorded))


def test_optimizer_slots_and_unused_poolers_are_left_out():
    checkpoint = model_garden.read(golden("pretrainer"), Options())
    assert checkpoint.step == 7
    slots = [name for name in checkpoint.left_out if ".OPTIMIZER_SLOT" in name]
    poolers = [name for name in checkpoint.left_out if "_pooler_layer" in name and name not in slots]
    assert len(slots) >= 2 * len(checkpoint.tensors) and len(poolers) == 2
    assert "next_sentence..pooler_dense" in checkpoint.tensors["bert/pooler/dense/kernel"].name


@pytest.mark.parametrize("path", ["", "bert_model.ckpt-1", "bert_model.ckpt-1.index"])
def test_object_based_and_name_based_checkpoints_are_distinguished(path):
    assert recognize(golden("encoder") / path) == "model_garden"
    assert not google_tf1.recognizes(golden("encoder") / path)
    assert not model_garden.recognizes(DATA / "google_tf1_pretrained")
    with pytest.raises(ConversionError, match="the format `model_garden`"):
        google_tf1.read(golden("encoder") / path, Options())
    with pytest.raises(ConversionError, match="the format `google_tf1`"):
        model_garden.read(DATA / "google_tf1_pretrained", Options())


@ALL
def test_round_trip_through_the_original_changes_nothing(kind, tmp_path):
    convert(golden(kind), tmp_path / "tf1", "google_tf1", source_form="model_garden")
    convert(tmp_path / "tf1", tmp_path / "back", "model_garden", source_form="google_tf1")
    source, back = (model_garden.read(path, Options()) for path in (golden(kind), tmp_path / "back"))
    assert same_bits(source, back)
    for field in ("config", "heads", "lowercase", "step", "vocabulary", "info"):
        assert getattr(source, field) == getattr(back, field), field
    # The encoder's copy of the pooler in the head for next sentence prediction.
    twin = 2 if source.heads.next_sentence else 0
    assert len([name for name in back.left_out if not name.startswith("global_step")]) == twin


def test_round_trip_of_a_run_of_the_original(tmp_path):
    source = DATA / "google_tf1_pretrained"
    conversion = convert(source, tmp_path / "garden", "model_garden", source_form="google_tf1")
    assert conversion.parity.max_abs_difference < 1e-5 and not conversion.parity.lost
    convert(tmp_path / "garden", tmp_path / "back", "google_tf1", source_form="model_garden")
    one, other = (google_tf1.read(path, Options()) for path in (source, tmp_path / "back"))
    assert same_bits(one, other) and one.step == other.step
    assert (tmp_path / "back" / "vocab.txt").read_bytes() == (source / "vocab.txt").read_bytes()
    report = json.loads((tmp_path / "garden" / "parity.json").read_text())
    assert "bert/pooler/dense/kernel/adam_m" in report["left_out"]


def test_round_trip_of_a_preset(tmp_path):
    convert(golden("pretrainer"), tmp_path / "preset", "preset", source_form="model_garden")
    back = convert(tmp_path / "preset", tmp_path / "back", "model_garden", source_form="preset")
    assert same_bits(model_garden.read(golden("pretrainer"), Options()), back.target)


def test_keys_equal_those_of_the_releases(tmp_path):
    model_garden.write(model_garden.read(golden("encoder"), Options()), tmp_path, Options())
    keys = {name for name, _ in tf.train.list_variables(str(tmp_path / "bert_model.ckpt"))}
    released = {name for name, _ in tf.train.list_variables(str(golden("encoder") / "bert_model.ckpt-1"))}
    assert {key.replace("encoder/", "model/", 1) for key in keys} == released - {
        "save_counter/.ATTRIBUTES/VARIABLE_VALUE"
    }


@pytest.mark.parametrize("layout", ["names", "places", "root", "older"])
def test_layouts_of_encoders(layout, tmp_path):
    objects = encoder_objects()
    encoder = objects["model"]
    if layout == "names":
        objects = {"model": without(encoder, "layer_with_weights-")}
    elif layout == "places":
        objects = {"model": without(encoder, "_")}
    elif layout == "root":
        objects = {name: getattr(encoder, name) for name in encoder._trackable_children()}
    else:
        for layer in encoder._transformer_layers:
            layer._attention_output_dense = layer._attention_layer._output_dense
            layer._attention_layer = without(layer._attention_layer, "_output_dense")
        objects = {"model": without(encoder, "_")}
    checkpoint = model_garden.read(written(tmp_path / layout, objects), Options())
    assert same_bits(model_garden.read(golden("encoder"), Options()), checkpoint)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda objects: {"model": holder(kernel=tf.Variable([1.0]))}, "must hold a BertEncoder .* Received: "),
        (lambda objects: {"model": without(objects["model"], "_pooler", "layer")}, "must hold a BertEncoder"),
        (lambda objects: {**objects, "other": encoder_objects()["encoder"]}, "must hold a BertEncoder"),
        (lambda objects: {**objects, "head": holder(kernel=tf.Variable([1.0]))}, "Received: head/kernel"),
        (
            lambda objects: {"encoder": objects["encoder"], "projection": tf.Variable([1.0])},
            "Received: projection",
        ),
        (lambda objects: {**objects, "masked_lm": holder(bias=tf.Variable(tf.zeros(22)))}, "missing: cls/predictions"),
        (
            lambda objects: {**objects, "classifier": holder(kernel=tf.Variable(tf.zeros((12, 2))))},
            "missing: cls/token",
        ),
        (
            lambda objects: {**objects, "classifier": holder(kernel=tf.Variable(tf.zeros((11, 2))))},
            r"must have shape \(2, 12\)",
        ),
    ],
)
def test_other_models_are_refused(change, message, tmp_path):
    with pytest.raises(ConversionError, match=message):
        model_garden.read(written(tmp_path / "bad", change(encoder_objects())), Options())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_hidden_layers": 3}, "missing: bert/encoder/layer_2"),
        ({"num_hidden_layers": 1}, "unknown: .*layer_with_weights-5"),
        ({"hidden_size": 24}, r"must have shape \(22, 24\)"),
        ({"embedding_size": 6}, "`embedding_size` must equal `hidden_size`"),
        ({"norm_first": True}, "unknown keys, .*: `norm_first`"),
    ],
)
def test_contradictory_configurations_are_refused(config, message, tmp_path):
    with pytest.raises(ConversionError, match=message):
        model_garden.read(written(tmp_path / "bad", encoder_objects(), config), Options())


@pytest.mark.parametrize(
    ("name", "length", "message"),
    [
        ("bert_model.ckpt.data-00000-of-00001", 4000, "tensor `.*` is damaged"),
        ("bert_model.ckpt.data-00000-of-00001", None, "Missing: bert_model.ckpt.data-00000-of-00001"),
        ("bert_model.ckpt.index", 300, "not a readable TensorFlow checkpoint"),
    ],
)
def test_damaged_files_are_refused_and_leave_nothing(name, length, message, tmp_path):
    directory = written(tmp_path / "bad", encoder_objects())
    content = (directory / name).read_bytes()
    (directory / name).unlink() if length is None else (directory / name).write_bytes(content[:length])
    with pytest.raises(ConversionError, match=message):
        convert(directory, tmp_path / "tf1", "google_tf1", source_form="model_garden")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad"]


def test_vocabulary_of_another_size_is_refused(tmp_path):
    directory = written(tmp_path / "bad", encoder_objects())
    (directory / "vocab.txt").write_text((directory / "vocab.txt").read_text() + "more\n")
    with pytest.raises(ConversionError, match="as many word pieces as the token embedding has rows"):
        model_garden.read(directory, Options())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"activation": "gelu"}, "`activation` must be one of"),
        ({"layer_norm_epsilon": 1e-6}, "`layer_norm_epsilon` must be 1e-12"),
        ({"attention": "left_to_right"}, "`attention` must be bidirectional"),
        ({"pooler": False}, "`pooler` must be True"),
    ],
)
def test_features_unsupported_by_the_model_garden_are_not_written(changes, message, tmp_path):
    checkpoint = model_garden.read(golden("encoder"), Options())
    checkpoint = replace(checkpoint, config=replace(checkpoint.config, **changes))
    with pytest.raises(ConversionError, match=message):
        model_garden.write(checkpoint, tmp_path, Options())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("heads", "lost", "kept"),
    [
        (Heads(task="multiple_choice"), ["multiple_choice"], []),
        (Heads(next_sentence=True), ["next_sentence"], []),
        (
            Heads(masked_lm=True, next_sentence=True, task="question_answering"),
            ["next_sentence"],
            ["masked_lm", "question_answering"],
        ),
    ],
)
def test_unsupported_heads_are_named(heads, lost, kept, tmp_path):
    checkpoint = model_garden.read(golden("encoder"), Options())
    more = {
        name: Tensor(name, shape, lambda shape=shape: np.ones(shape, np.float32))
        for name, shape in expected_shapes(checkpoint.config, heads).items()
        if name not in checkpoint.tensors
    }
    checkpoint = replace(checkpoint, heads=heads, tensors={**checkpoint.tensors, **more})
    assert model_garden.write(checkpoint, tmp_path, Options()) == lost
    assert model_garden.read(tmp_path, Options()).heads.names() == kept


@pytest.fixture
def peer() -> Path:
    if "BERT_TF_PEER_MODEL_GARDEN" not in os.environ:
        pytest.skip("needs BERT_TF_PEER_MODEL_GARDEN, an interpreter with tf-models-official")
    return Path(os.environ["BERT_TF_PEER_MODEL_GARDEN"])


@pytest.mark.parametrize("kind", [name for name in KINDS if name != "legacy"])
def test_model_garden_reads_a_written_checkpoint(peer, kind, tmp_path):
    peers = Peers({"model_garden": peer})
    convert(golden(kind), tmp_path / "tf1", "google_tf1", source_form="model_garden")
    conversion = convert(tmp_path / "tf1", tmp_path / "back", "model_garden", source_form="google_tf1", peers=peers)
    assert "tf-models-official" in conversion.parity.computed_by[1]
    assert conversion.parity.max_abs_difference < 1e-5

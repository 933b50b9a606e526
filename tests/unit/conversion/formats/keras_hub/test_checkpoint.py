"""Tests keras-hub presets: reading them like keras-hub, and writing presets that keras-hub opens."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bert_tf.conversion import ConversionError, Options, convert
from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.formats import preset
from bert_tf.conversion.formats.keras_hub import checkpoint as keras_hub
from bert_tf.conversion.tensors import Heads, Tensor, expected_shapes
from bert_tf.conversion.verify import programs
from bert_tf.conversion.verify.probe_inputs import fixed_inputs
from bert_tf.conversion.verify.reference import reference_outputs
from tests.support.conversion.keras_hub_samples import DATA, VOCABULARY, copied, cut_vocabulary, edit, golden

KINDS = {
    "backbone": Heads(),
    "masked_lm": Heads(masked_lm=True),
    "classifier": Heads(task="sequence_classification", num_labels=3),
}


@pytest.fixture(scope="module")
def peer() -> Any:
    path = Path(programs.__file__).parent / "keras_hub.py"
    spec = importlib.util.spec_from_file_location("keras_hub_peer", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written(checkpoint: Checkpoint, directory: Path, options: Options | None = None) -> tuple[Path, list[str]]:
    directory.mkdir()
    return directory, keras_hub.write(checkpoint, directory, options or Options())


def assert_close(received: dict[str, np.ndarray], kind: str, tolerance: float = 1e-5) -> None:
    present = fixed_inputs(golden(kind).config)["padding_mask"] != 0
    with np.load(DATA / f"keras_hub_{kind}" / "outputs.npz") as file:
        assert set(file.files) == set(received)
        for name in file.files:
            of_tokens = name == "sequence_output"
            expected, found = file[name], received[name]
            gap = np.abs(expected[present] - found[present] if of_tokens else expected - found).max()
            assert gap <= tolerance, name


def assert_bit_equal(one: Checkpoint, other: Checkpoint) -> None:
    assert set(one.tensors) == set(other.tensors)
    for name in one.tensors:
        assert one.array(name).tobytes() == other.array(name).tobytes(), name


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_equal_those_of_keras_hub(kind: str) -> None:
    checkpoint = golden(kind)
    assert checkpoint.heads == KINDS[kind]
    assert_close(reference_outputs(checkpoint, fixed_inputs(checkpoint.config)), kind)


def test_metadata_of_a_preset() -> None:
    masked_lm, classifier = golden("masked_lm"), golden("classifier")
    assert (masked_lm.lowercase, classifier.lowercase) == (True, False)
    assert masked_lm.vocabulary is not None
    assert masked_lm.vocabulary.tokens[:6] == ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a")
    assert masked_lm.left_out == ("optimizer/vars/0", "optimizer/vars/1")
    assert masked_lm.config.mlm_head == ("gelu", 1e-5)
    assert classifier.config.mlm_head == ("gelu_approximate", 1e-12)
    assert (classifier.classifier_dropout, classifier.config.dropout) == (0.3, 0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_matching_format_recognizes_a_preset(kind: str) -> None:
    directory = DATA / f"keras_hub_{kind}"
    assert keras_hub.recognizes(directory) and not preset.recognizes(directory)


@pytest.mark.parametrize("kind", KINDS)
def test_keras_hub_loads_a_written_preset(kind: str, tmp_path: Path, peer: Any) -> None:
    checkpoint = golden(kind)
    directory, lost = written(checkpoint, tmp_path / "new")
    assert lost == []
    assert (directory / VOCABULARY).read_bytes() == (DATA / f"keras_hub_{kind}" / VOCABULARY).read_bytes()
    assert_close(peer.outputs(peer.loaded(directory), fixed_inputs(checkpoint.config)), kind)
    again = keras_hub.read(directory, Options())
    assert (again.config, again.heads, again.lowercase) == (checkpoint.config, checkpoint.heads, checkpoint.lowercase)
    assert_bit_equal(checkpoint, again)


@pytest.mark.integration
def test_written_preset_predicts_texts_like_its_source(tmp_path: Path, peer: Any) -> None:
    directory, _ = written(golden("classifier"), tmp_path / "new")
    source = peer.opened(DATA / "keras_hub_classifier").predict(["AbBa Cc", "ABE"], verbose=0)
    received = peer.opened(directory).predict(["AbBa Cc", "ABE"], verbose=0)
    assert np.abs(source - received).max() < 1e-6


@pytest.mark.parametrize(("dtype", "largest"), [("bfloat16", 0.2), ("float16", 0.02)])
def test_half_precision_round_trip(dtype: str, largest: float, tmp_path: Path, peer: Any) -> None:
    checkpoint = golden("masked_lm")
    directory, _ = written(checkpoint, tmp_path / "half", Options(dtype=dtype))
    half = keras_hub.read(directory, Options())
    assert half.dtype == dtype
    assert_close(peer.outputs(peer.loaded(directory), fixed_inputs(checkpoint.config)), "masked_lm", largest)
    again, _ = written(half, tmp_path / "again")
    assert_bit_equal(half, keras_hub.read(again, Options()))
    policy = json.loads((again / "config.json").read_text("utf-8"))["config"]["dtype"]
    assert policy["config"]["name"] == dtype


def test_shards_are_exchanged_with_keras_hub(tmp_path: Path, peer: Any) -> None:
    checkpoint = golden("backbone")
    directory, _ = written(checkpoint, tmp_path / "ours", Options(shard_bytes=2000))
    files = sorted(directory.glob("*.h5"))
    assert len(files) > 3 and files[0].name == "model_00000.weights.h5"
    model = peer.loaded(directory)
    assert_close(peer.outputs(model, fixed_inputs(checkpoint.config)), "backbone")
    model.save_to_preset(tmp_path / "theirs", max_shard_size=2000 / 2**30)
    assert len(list((tmp_path / "theirs").glob("*.h5"))) > 3
    theirs = keras_hub.read(tmp_path / "theirs", Options())
    assert_bit_equal(checkpoint, theirs)
    assert theirs.vocabulary is None and theirs.lowercase is None


def test_half_precision_of_keras_hub_is_read(tmp_path: Path, peer: Any) -> None:
    model = peer.keras_hub.models.BertBackbone(9, 1, 2, 4, 8, max_sequence_length=4, dtype="bfloat16")
    model.save_to_preset(tmp_path / "half")
    checkpoint = keras_hub.read(tmp_path / "half", Options())
    assert checkpoint.dtype == "bfloat16"
    table = np.asarray(model.token_embedding.embeddings).astype(np.float32)
    assert checkpoint.array("bert/embeddings/word_embeddings").tobytes() == table.tobytes()


def test_a_preset_of_keras_nlp_is_read(tmp_path: Path) -> None:
    directory = copied("classifier", tmp_path)
    for name in ("config.json", "task.json", "tokenizer.json", "preprocessor.json"):
        text = (directory / name).read_text("utf-8").replace("keras_hub", "keras_nlp")
        (directory / name).write_text(text.replace("BertTextClassifier", "BertClassifier"), "utf-8")
    edit(directory / "config.json", lambda m: (m.update(assets=[], weights="x"), m["config"].pop("dtype")))
    for name in ("model.weights.h5", "task.weights.h5"):
        with h5py.File(directory / name, "a") as file:
            file.move("layers", "_layer_checkpoint_dependencies")
    assert_bit_equal(golden("classifier"), keras_hub.read(directory, Options()))


def test_text_embedder_is_read_as_its_encoder(tmp_path: Path, peer: Any) -> None:
    backbone = peer.keras_hub.models.BertBackbone.from_preset(str(DATA / "keras_hub_backbone"))
    peer.keras_hub.models.BertTextEmbedder(backbone, pooling_mode="cls").save_to_preset(tmp_path / "embedder")
    checkpoint = keras_hub.read(tmp_path / "embedder", Options())
    assert checkpoint.heads == Heads()
    assert checkpoint.left_out == ("task.json: BertTextEmbedder {'normalize': True, 'pooling_mode': 'cls'}",)


def test_round_trip_of_labels_and_steps(tmp_path: Path) -> None:
    checkpoint = replace(golden("classifier"), labels=("a", "b", "c"), step=7)
    checkpoint = replace(checkpoint, config=replace(checkpoint.config, initializer_range=0.5))
    again = keras_hub.read(written(checkpoint, tmp_path / "new")[0], Options())
    assert (again.labels, again.step, again.config) == (("a", "b", "c"), 7, checkpoint.config)


def _pretrained(heads: Heads, **fields: Any) -> Checkpoint:
    source = golden("backbone")
    config = replace(source.config, **fields)
    random = np.random.default_rng(0)
    arrays = {name: random.normal(size=shape) for name, shape in expected_shapes(config, heads).items()}
    tensors = {
        name: Tensor(name, array.shape, lambda array=array: array)  # type: ignore[misc]
        for name, array in arrays.items()
    }
    return replace(source, config=config, heads=heads, tensors=tensors)


@pytest.mark.parametrize(
    ("heads", "fields", "lost"),
    [
        (Heads(masked_lm=True, next_sentence=True), {}, ["masked_lm", "next_sentence"]),
        (
            Heads(masked_lm=True, next_sentence=True),
            {"mlm_activation": "gelu", "mlm_layer_norm_epsilon": 1e-5},
            ["next_sentence"],
        ),
        (Heads(masked_lm=True), {"mlm_activation": "gelu"}, ["masked_lm"]),
        (Heads(task="token_classification", num_labels=4), {}, ["token_classification"]),
        (Heads(task="question_answering"), {}, ["question_answering"]),
        (Heads(task="multiple_choice"), {}, ["multiple_choice"]),
    ],
)
def test_unsupported_heads_are_listed_as_lost(
    heads: Heads, fields: dict[str, Any], lost: list[str], tmp_path: Path
) -> None:
    checkpoint = _pretrained(heads, **fields)
    directory, found = written(checkpoint, tmp_path / "new")
    assert found == lost
    again = keras_hub.read(directory, Options())
    assert again.heads.names() == [name for name in heads.names() if name not in lost]
    for name in again.tensors:
        assert again.array(name).tobytes() == checkpoint.array(name).tobytes()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"activation": "gelu"}, "`activation` must be 'gelu_approximate'. Received: 'gelu'"),
        ({"layer_norm_epsilon": 1e-5}, "`layer_norm_epsilon` must be 1e-12. Received: 1e-05"),
        ({"attention": "left_to_right"}, "`attention` must be 'bidirectional'. Received: 'left_to_right'"),
        ({"pooler": False}, "`pooler` must be True. Received: False"),
        ({"attention_dropout": 0.0}, "`attention_dropout` must equal `dropout`, 0.2. Received: 0.0"),
    ],
)
def test_encoder_unsupported_by_keras_hub_is_refused(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="BertBackbone cannot represent this encoder") as error:
        written(_pretrained(Heads(), **fields), tmp_path / "new")
    assert message in str(error.value)


def test_round_trip_of_padded_embedding_rows(tmp_path: Path) -> None:
    directory = copied("classifier", tmp_path)
    cut_vocabulary(directory)
    options = Options(padded_vocabulary=True)
    again, _ = written(keras_hub.read(directory, options), tmp_path / "new", options)
    assert (again / VOCABULARY).read_bytes() == (directory / VOCABULARY).read_bytes()


def test_peer_program_fails_if_weights_are_not_loaded(tmp_path: Path, peer: Any) -> None:
    directory = copied("masked_lm", tmp_path)
    (directory / "task.weights.h5").unlink()
    with pytest.raises(SystemExit, match="task.weights.h5 is missing"):
        peer.loaded(directory)


def test_weight_that_keeps_its_initial_value_is_detected(monkeypatch: pytest.MonkeyPatch, peer: Any) -> None:
    build = peer.keras_hub.models.BertBackbone
    monkeypatch.setattr(peer, "opened", lambda directory: build(9, 1, 2, 4, 8, max_sequence_length=4))
    with pytest.raises(SystemExit, match="not loaded: token_embedding/embeddings"):
        peer.loaded(Path("anywhere"))


def test_custom_head_is_refused_by_other_formats(tmp_path: Path) -> None:
    source = DATA / "keras_hub_masked_lm"
    with pytest.raises(ConversionError, match="gelu_approximate and 1e-12, in google_tf1. Received: gelu and 1e-05"):
        convert(source, tmp_path / "new", "google_tf1", source_form="keras_hub")
    assert not (tmp_path / "new").exists()

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
from bert_tf.conversion.formats.registry import read_checkpoint, recognize
from bert_tf.conversion.formats.tf_checkpoint import TensorFiles, write_tensors
from bert_tf.conversion.tensors import expected_shapes
from bert_tf.conversion.verify.outputs import Peers, answers
from bert_tf.conversion.verify.probe_inputs import fixed_inputs
from bert_tf.conversion.verify.reference import reference_outputs
from bert_tf.text.vocabulary import Vocabulary
from tests.support.paths import TESTDATA

DATA = TESTDATA
RUN, CASED, SQUAD = (DATA / f"google_tf1_{name}" for name in ("pretrained", "multi_cased", "squad_v1"))
ALL = pytest.mark.parametrize("directory", [RUN, CASED, SQUAD], ids=lambda path: path.name)


def arrays_of(directory: Path) -> dict[str, np.ndarray]:
    checkpoint = google_tf1.read(directory, Options())
    return {name: checkpoint.array(name) for name in checkpoint.tensors}


def rewritten(target: Path, *, drop=(), add=None, config=None, source: Path = CASED) -> Path:
    """Returns a copy of a checkpoint with tensors dropped or added, and with a changed configuration."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.ckpt*", "checkpoint"))
    arrays = {name: array for name, array in arrays_of(source).items() if not name.startswith(tuple(drop) or " ")}
    write_tensors(target / "bert_model.ckpt", (arrays | (add or {})).items())
    description = json.loads((target / "bert_config.json").read_text())
    description |= config or {}
    (target / "bert_config.json").write_text(
        json.dumps({key: value for key, value in description.items() if value is not ...})
    )
    return target


def same_bits(one, other) -> bool:
    names = list(expected_shapes(one.config, one.heads))
    return names == list(other.tensors) and all(
        one.array(name).tobytes() == other.array(name).tobytes() for name in names
    )


@ALL
def test_outputs_equal_those_of_the_original(directory):
    checkpoint = google_tf1.read(directory, Options())
    inputs = fixed_inputs(checkpoint.config)
    computed, seen = reference_outputs(checkpoint, inputs), inputs["padding_mask"] != 0
    with np.load(directory / "outputs.npz") as recorded:
        assert sorted(recorded.files) == sorted(computed)
        for name in recorded.files:
            expected, received = recorded[name], computed[name]
            if expected.shape[:2] == seen.shape:
                expected, received = expected[seen], received[seen]
            np.testing.assert_allclose(received, expected, rtol=0, atol=1e-5, err_msg=name)


def test_pretraining_checkpoint_is_read():
    checkpoint = google_tf1.read(RUN, Options())
    assert checkpoint.path == RUN / "model.ckpt-3"
    assert (checkpoint.step, checkpoint.dtype, checkpoint.lowercase) == (3, "float32", True)
    assert checkpoint.heads.names() == ["masked_lm", "next_sentence"]
    assert checkpoint.config.activation == "gelu_approximate" and checkpoint.config.layer_norm_epsilon == 1e-12
    slots = {f"{name}/{slot}" for name in checkpoint.tensors for slot in ("adam_m", "adam_v")}
    assert set(checkpoint.left_out) == slots | {"global_step"}


def test_task_heads_are_read():
    classifier, spans = google_tf1.read(CASED, Options()), google_tf1.read(SQUAD, Options())
    assert (classifier.heads.task, classifier.heads.num_labels) == ("sequence_classification", 3)
    assert classifier.config.activation == "relu" and classifier.lowercase is False
    assert (spans.heads.task, spans.config.attention_dropout) == ("question_answering", 0.2)


@pytest.mark.parametrize(
    "path",
    [RUN, RUN / "model.ckpt-3", RUN / "model.ckpt-3.index", RUN / "model.ckpt-3.data-00000-of-00001", SQUAD,
     SQUAD / "bert_model.ckpt", CASED],
    ids=lambda path: path.name,
)  # fmt: skip
def test_directories_prefixes_and_files_are_recognized(path):
    assert google_tf1.recognizes(path) and recognize(path) == "google_tf1"
    assert google_tf1.read(path, Options()).parameters() > 2000


def test_other_files_are_not_recognized(tmp_path):
    (tmp_path / "bert_model.ckpt").write_bytes(b"PK" + bytes(100))
    assert not google_tf1.recognizes(tmp_path) and not google_tf1.recognizes(tmp_path / "bert_model.ckpt")
    with pytest.raises(ConversionError, match="Received: none"):
        google_tf1.read(tmp_path, Options())


def test_directory_is_read_only_if_it_has_one_checkpoint(tmp_path):
    rewritten(tmp_path / "one")
    for file in (tmp_path / "one").glob("bert_model.ckpt*"):
        file.rename(file.with_name(file.name.replace("bert_model.ckpt", "biobert.ckpt-7")))
    assert google_tf1.read(tmp_path / "one", Options()).path.name == "biobert.ckpt-7"
    for file in (tmp_path / "one").glob("biobert.ckpt*"):
        shutil.copy(file, file.with_name(file.name.replace("-7", "-8")))
    assert not google_tf1.recognizes(tmp_path / "one")
    with pytest.raises(ConversionError, match=r"several, biobert.ckpt-7.index, biobert.ckpt-8.index: name one"):
        google_tf1.read(tmp_path / "one", Options())


@ALL
def test_round_trip_through_a_preset_changes_nothing(directory, tmp_path):
    first = convert(directory, tmp_path / "preset", "preset")
    second = convert(tmp_path / "preset", tmp_path / "back", "google_tf1", source_form="preset")
    assert first.parity.max_abs_difference < 1e-5 and not second.parity.unequal_tensors
    source, back = google_tf1.read(directory, Options()), google_tf1.read(tmp_path / "back", Options())
    assert same_bits(source, back)
    for field in ("config", "heads", "lowercase", "step", "info", "dtype", "vocabulary"):
        assert getattr(source, field) == getattr(back, field), field
    assert (tmp_path / "back" / "vocab.txt").read_bytes() == (directory / "vocab.txt").read_bytes()
    described = [json.loads((path / "bert_config.json").read_text()) for path in (directory, tmp_path / "back")]
    assert described[0] == described[1]
    report = json.loads((tmp_path / "preset" / "parity.json").read_text())
    assert len(report["left_out"]) == len(source.left_out)


def test_written_checkpoint_has_the_layout_of_tensorflow_1(tmp_path):
    checkpoint = google_tf1.read(RUN, Options())
    assert google_tf1.write(checkpoint, tmp_path, Options()) == []
    expected = {name: list(shape) for name, shape in expected_shapes(checkpoint.config, checkpoint.heads).items()}
    prefix = str(tmp_path / "bert_model.ckpt")
    assert dict(tf.train.list_variables(prefix)) == expected | {"global_step": []}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("bert/pooler/dense/kernel", (12, 12), use_resource=False)
        tf.compat.v1.train.init_from_checkpoint(prefix, {variable.op.name: variable.op.name})
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run(variable).tobytes() == checkpoint.array("bert/pooler/dense/kernel").tobytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "bert_config.json", "bert_model.ckpt.data-00000-of-00001", "bert_model.ckpt.index", "vocab.txt"]  # fmt: skip


def test_an_encoder_without_pooler_is_read_and_not_written(tmp_path):
    checkpoint = google_tf1.read(rewritten(tmp_path / "a", drop=["bert/pooler", "output_"]), Options())
    assert not checkpoint.config.pooler and "bert/pooler/dense/kernel" not in checkpoint.tensors
    assert set(reference_outputs(checkpoint, fixed_inputs(checkpoint.config))) == {"sequence_output"}
    with pytest.raises(ConversionError, match="`pooler` must be True"):
        google_tf1.write(checkpoint, tmp_path, Options())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_tensors_of_fewer_bits_are_read_exactly(dtype, tmp_path):
    arrays = {name: tf.cast(array, dtype).numpy() for name, array in arrays_of(CASED).items()}
    checkpoint = google_tf1.read(rewritten(tmp_path / "low", add=arrays), Options())
    assert checkpoint.dtype == dtype
    name = "bert/embeddings/word_embeddings"
    assert np.array_equal(checkpoint.array(name), arrays[name].astype(np.float32))


@pytest.mark.parametrize(
    ("name", "capital", "lowercase", "expected"),
    [
        ("uncased_L-12_H-768_A-12", True, None, True),
        ("wwm_uncased_L-24_H-1024_A-16", True, None, True),
        ("wwm_cased_L-24_H-1024_A-16", False, None, False),
        ("multi_cased_L-12_H-768_A-12", False, None, False),
        ("multilingual_L-12_H-768_A-12", True, None, True),
        ("chinese_L-12_H-768_A-12", True, None, True),
        ("showcased", False, None, True),
        ("other", True, None, False),
        ("other", False, None, True),
        ("uncased", True, False, False),
    ],
)
def test_casing(name, capital, lowercase, expected, tmp_path):
    source = CASED if capital else RUN
    checkpoint = google_tf1.read(rewritten(tmp_path / name, source=source), Options(lowercase=lowercase))
    assert checkpoint.lowercase is expected


@pytest.mark.parametrize("lowercase", [True, False])
def test_casing_is_written_if_pieces_do_not_show_it(lowercase, tmp_path):
    source = google_tf1.read(CASED if lowercase else RUN, Options(lowercase=lowercase))
    google_tf1.write(source, tmp_path, Options())
    assert google_tf1.read(tmp_path, Options()).lowercase is lowercase


def test_short_vocabulary_is_padded_and_written_unpadded(tmp_path, caplog):
    directory = rewritten(tmp_path / "padded")
    vocabulary = (directory / "vocab.txt").read_text().splitlines()
    (directory / "vocab.txt").write_text("\n".join(vocabulary[:-2]) + "\n")
    checkpoint = google_tf1.read(directory, Options(padded_vocabulary=True))
    assert not caplog.text
    assert google_tf1.read(directory, Options()).vocabulary == checkpoint.vocabulary
    assert "22 pieces for 24 rows" in caplog.text
    assert checkpoint.vocabulary.tokens[-1] == "[padding23]"
    convert(directory, tmp_path / "out", "google_tf1", options=Options(padded_vocabulary=True))
    assert (tmp_path / "out" / "vocab.txt").read_bytes() == (directory / "vocab.txt").read_bytes()


def test_vocabulary_may_be_an_option_or_missing(tmp_path):
    directory = rewritten(tmp_path / "bare")
    (directory / "vocab.txt").unlink()
    checkpoint = google_tf1.read(directory, Options())
    assert checkpoint.vocabulary is None and checkpoint.lowercase is None
    given = google_tf1.read(directory, Options(vocabulary=CASED / "vocab.txt"))
    assert isinstance(given.vocabulary, Vocabulary)
    google_tf1.write(checkpoint, tmp_path, Options())
    assert not (tmp_path / "vocab.txt").exists()
    with pytest.raises(ConversionError, match="--vocabulary"):
        convert(directory, tmp_path / "preset", "preset")
    assert not (tmp_path / "preset").exists()


KERNEL = "bert/encoder/layer_1/output/dense/kernel"
SMALL = np.zeros(2, np.float32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"drop": [KERNEL]}, rf"missing: {KERNEL} \(20, 12\)"),
        ({"drop": ["bert/pooler/dense/bias"]}, "missing: bert/pooler/dense/bias"),
        ({"add": {"bert/encoder/layer_2/extra": SMALL}}, "unknown: bert/encoder/layer_2/extra"),
        ({"add": {KERNEL: np.zeros((20, 11), np.float32)}}, r"must have shape \(20, 12\).* Received: \(20, 11\)"),
        ({"add": {KERNEL: np.zeros((20, 12), np.int32)}}, "must have dtype .* Received: int32"),
        ({"add": {"cls/squad/output_weights": np.zeros((2, 12), np.float32)}}, "output weights of one task"),
        ({"add": {"bert/encoder/transformer/group_0/inner_group_0/a": SMALL}}, "those of ALBERT, such as"),
        ({"add": {"electra/embeddings/word_embeddings": SMALL}}, "those of ELECTRA"),
        ({"add": {"bert/encoder/layer_0/bottleneck/input/dense/kernel": SMALL}}, "those of MobileBERT"),
        ({"add": {"roberta/embeddings/LayerNorm/beta": SMALL}}, "those of RoBERTa"),
        ({"config": {"num_hidden_layers": 3}}, "missing: bert/encoder/layer_2/attention"),
        ({"config": {"type_vocab_size": ...}}, r"must have shape \(16, 12\)"),
        ({"config": {"vocab_size": 30}}, r"must have shape \(30, 12\)"),
        ({"config": {"vocab_size": ...}}, "`vocab_size` must be"),
        ({"config": {"num_attention_heads": 5}}, "`hidden_dim` must be a multiple"),
        ({"config": {"hidden_act": "swish"}}, "`hidden_act` must be one of gelu, relu, tanh. Received: 'swish'"),
        ({"config": {"hidden_act": None}}, "`hidden_act` must be one of .* Received: None"),
        ({"config": {"rotary": True}}, "unknown keys, .*: `rotary`"),
        ({"config": {"embedding_size": 4}}, "`embedding_size` must equal `hidden_size`"),
        ({"config": {"num_hidden_groups": 1}}, "one of ALBERT, by `num_hidden_groups`"),
        ({"config": {"use_bottleneck_attention": True}}, "one of MobileBERT"),
        ({"config": {"directionality": "unidi"}}, "`directionality` must be 'bidi'. Received: 'unidi'"),
        ({"config": {"layer_norm_eps": 1e-5}}, "`layer_norm_eps` must be 1e-12"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value[:40],
)
def test_other_models_are_refused(change, message, tmp_path):
    with pytest.raises(ConversionError, match=message):
        google_tf1.read(rewritten(tmp_path / "bad", **change), Options())


def test_vocabulary_of_another_size_is_refused(tmp_path):
    directory = rewritten(tmp_path / "bad")
    with (directory / "vocab.txt").open("a") as file:
        file.write("more\n")
    with pytest.raises(ConversionError, match=r"as many word pieces as the token embedding has rows, 24. Received: 25"):
        google_tf1.read(directory, Options())


@pytest.mark.parametrize(
    ("name", "length", "message"),
    [
        ("bert_model.ckpt.data-00000-of-00001", 6000, "tensor `.*` is damaged"),
        ("bert_model.ckpt.data-00000-of-00001", 0, "tensor `.*` is damaged"),
        ("bert_model.ckpt.data-00000-of-00001", None, "Missing: bert_model.ckpt.data-00000-of-00001"),
        ("bert_model.ckpt.index", 500, "not a readable TensorFlow checkpoint"),
        ("bert_config.json", None, "bert_config.json: no such file"),
        ("bert_config.json", 40, "not a readable JSON file"),
    ],
)
def test_damaged_files_are_refused_and_leave_nothing(name, length, message, tmp_path):
    directory = rewritten(tmp_path / "bad")
    content = (directory / name).read_bytes()
    (directory / name).unlink() if length is None else (directory / name).write_bytes(content[:length])
    with pytest.raises(ConversionError, match=message):
        convert(directory, tmp_path / "preset", "preset", source_form="google_tf1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad"]


def test_flipped_bits_are_refused(tmp_path):
    directory = rewritten(tmp_path / "bad")
    file = directory / "bert_model.ckpt.data-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[5000] ^= 1
    file.write_bytes(content)
    with pytest.raises(ConversionError, match=r"is damaged: .*[Cc]hecksum"):
        convert(directory, tmp_path / "preset", "preset")
    assert not (tmp_path / "preset").exists()


def test_one_missing_file_of_several_is_named(tmp_path):
    for name in ("m.ckpt.index", "m.ckpt.data-00000-of-00002"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ConversionError, match="Missing: m.ckpt.data-00001-of-00002"):
        TensorFiles(tmp_path / "m.ckpt")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"activation": "gelu"}, "`activation` must be one of gelu_approximate, relu, tanh. Received: gelu"),
        ({"layer_norm_epsilon": 1e-6}, "`layer_norm_epsilon` must be 1e-12. Received: 1e-06"),
        ({"attention": "left_to_right"}, "`attention` must be bidirectional"),
    ],
)
def test_features_unsupported_by_the_original_are_not_written(changes, message, tmp_path):
    checkpoint = google_tf1.read(RUN, Options())
    checkpoint = replace(checkpoint, config=replace(checkpoint.config, **changes))
    with pytest.raises(ConversionError, match=message):
        google_tf1.write(checkpoint, tmp_path, Options())
    assert not list(tmp_path.iterdir())


def test_another_number_format_is_not_written(tmp_path):
    with pytest.raises(ConversionError, match="float32 only.* Received: bfloat16"):
        google_tf1.write(google_tf1.read(RUN, Options()), tmp_path, Options(dtype="bfloat16"))


def test_format_fixture(shared_data, tmp_path):
    source = shared_data / "checkpoints" / "tiny_tf1_bert"
    conversion = convert(source, tmp_path / "out", "google_tf1")
    assert same_bits(conversion.source, read_checkpoint(tmp_path / "out"))
    assert (conversion.source.step, len(conversion.source.left_out)) == (20, 93)


@pytest.fixture
def original() -> Path:
    if "BERT_TF_ORIGINAL" not in os.environ:
        pytest.skip("needs BERT_TF_ORIGINAL, a checkout of google-research/bert")
    return Path(os.environ["BERT_TF_ORIGINAL"])


@ALL
def test_original_reads_a_written_checkpoint(original, directory, tmp_path):
    peers = Peers({}, original)
    convert(directory, tmp_path / "preset", "preset", peers=peers)
    back = convert(tmp_path / "preset", tmp_path / "back", "google_tf1", peers=peers)
    assert "google-research/bert" in back.parity.computed_by[1] and back.parity.max_abs_difference < 1e-5


def test_original_reads_task_heads_and_encoders_without_pooler(original, tmp_path):
    for drop, add in (
        (["output_"], {f"cls/token/output_{name}": np.ones(shape, np.float32) * 0.1
                       for name, shape in (("weights", (4, 12)), ("bias", (4,)))}),
        (["output_", "bert/pooler"], {}),
    ):  # fmt: skip
        directory = rewritten(tmp_path / f"changed{len(drop)}", drop=drop, add=add)
        checkpoint = google_tf1.read(directory, Options())
        inputs = fixed_inputs(checkpoint.config)
        live, computed = answers(checkpoint, inputs, Peers({}, original)), reference_outputs(checkpoint, inputs)
        assert sorted(live.outputs) == sorted(computed)
        for name, expected in live.outputs.items():
            np.testing.assert_allclose(computed[name][1:2, :7], expected[1:2, :7], atol=1e-5)


def test_original_refuses_a_checkpoint_with_a_missing_tensor(original, tmp_path):
    checkpoint = replace(
        google_tf1.read(CASED, Options()), path=rewritten(tmp_path / "bad", drop=[KERNEL]) / "bert_model.ckpt"
    )
    with pytest.raises(ConversionError, match=f"no values for .*{KERNEL}"):
        answers(checkpoint, fixed_inputs(checkpoint.config), Peers({}, original))

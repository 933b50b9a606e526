"""Features on disk are complete or absent, never computed twice, and never confused with others."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bert_tf.config import ConfigError
from bert_tf.encoding.texts import TextExample
from bert_tf.models import BertBackbone
from bert_tf.tasks.features import cache
from bert_tf.tasks.features.cache import FeatureFolder, extract
from bert_tf.tasks.features.embed import embed_file, encode_lines
from bert_tf.tasks.features.rows import encoder_fingerprint, token_extraction
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.text.tokenizer import BertTokenizer
from tests.support.tasks.feature_samples import CONFIG, VOCABULARY, write_preset

TEXTS = ["a b c", "d", "e f g h i j k l m n o p a b c d e f g", "b b", "n m l k", "p"]


@pytest.fixture(scope="module")
def backbone():
    import keras

    keras.utils.set_random_seed(0)
    return BertBackbone(CONFIG)


@pytest.fixture(scope="module")
def rows():
    lines = [TextExample(f"texts.txt: line {number}", (text,)) for number, text in enumerate(TEXTS, start=1)]
    return encode_lines(lines, BertTokenizer(VOCABULARY), 16)[0]


@pytest.fixture(scope="module")
def expected(backbone, rows):
    """Returns the features of each row computed alone, without padding."""
    model = backbone.features(["layer_1", "layer_4"])
    outputs = [model(rows.inputs(np.array([number]))) for number in range(len(rows))]
    lengths = rows.lengths
    return {
        name: np.concatenate([np.asarray(o[name])[0, :n] for o, n in zip(outputs, lengths, strict=True)])
        for name in ("layer_1", "layer_4")
    }


def counting(extraction, monkeypatch, most=None):
    """Counts the batches that are computed, of at most 16 tokens each; raises after `most`."""
    calls = []
    monkeypatch.setattr(cache, "most_tokens", lambda config, longest: 16)
    build = extraction.build

    class Backend:
        def compile_predict(self, model):
            def call(inputs):
                if len(calls) == most:
                    raise KeyboardInterrupt
                calls.append(len(inputs["token_ids"]))
                return {name: np.asarray(values) for name, values in model(inputs).items()}

            return call

    monkeypatch.setattr(cache, "current_backend", Backend)
    return calls, cache.Extraction(build, extraction.widths, extraction.by_token, extraction.encoder, extraction.config)


def test_features_do_not_depend_on_other_rows(backbone, rows, expected, tmp_path):
    folder = extract(token_extraction(backbone, ["layer_1", "layer_4"]), rows, tmp_path / "features")
    assert len(folder) == len(rows)
    np.testing.assert_array_equal(folder.token_ids, rows.token_ids)
    for name, values in expected.items():
        assert folder[name].dtype == np.float16 and isinstance(folder[name], np.memmap)
        np.testing.assert_allclose(folder[name], values, atol=2e-3, rtol=2e-3)
    begin, end = rows.row_splits[1:3]
    np.testing.assert_array_equal(FeatureFolder(tmp_path / "features").row(1)["layer_4"], folder["layer_4"][begin:end])
    assert sorted(path.name for path in folder.directory.iterdir()) == [
        "layer_1.npy", "layer_4.npy", "manifest.json", "row_splits.npy", "token_ids.npy"
    ]  # fmt: skip


def test_nothing_is_computed_twice(backbone, rows, tmp_path, monkeypatch):
    calls, extraction = counting(token_extraction(backbone, ["layer_1"]), monkeypatch)
    extract(extraction, rows, tmp_path)
    first = len(calls)
    extract(extraction, rows, tmp_path)
    assert len(calls) == first > 2
    built = []
    more = token_extraction(backbone, ["layer_1", "layer_4"])
    build = more.build
    _, more = counting(cache.Extraction(
        lambda names: built.append(list(names)) or build(names), more.widths, True, more.encoder, more.config
    ), monkeypatch)  # fmt: skip
    assert set(extract(more, rows, tmp_path).manifest.features) == {"layer_1", "layer_4"}
    assert built == [["layer_4"]]


def test_features_that_another_run_writes_are_awaited(backbone, rows, tmp_path, monkeypatch):
    """Runs of an experiment share a directory of features."""
    calls, extraction = counting(token_extraction(backbone, ["layer_1"]), monkeypatch)
    with ThreadPoolExecutor(2) as pool:
        folders = list(pool.map(lambda _: extract(extraction, rows, tmp_path / "features"), range(2)))
    assert [set(folder.manifest.features) for folder in folders] == [{"layer_1"}] * 2
    assert sum(calls) == len(rows)


@pytest.mark.parametrize("most", [0, 1, 3])
def test_interrupted_extraction_resumes(backbone, rows, expected, tmp_path, monkeypatch, most):
    calls, extraction = counting(token_extraction(backbone, ["layer_1", "layer_4"]), monkeypatch, most)
    with pytest.raises(KeyboardInterrupt):
        extract(extraction, rows, tmp_path)
    with pytest.raises(ConfigError, match=r"holds no features, .* no manifest\.json"):
        FeatureFolder(tmp_path)
    assert not list(tmp_path.glob("layer_*"))
    done = sum(calls)
    calls, extraction = counting(token_extraction(backbone, ["layer_1", "layer_4"]), monkeypatch)
    folder = extract(extraction, rows, tmp_path)
    assert sum(calls) == len(rows) - done
    for name, values in expected.items():
        np.testing.assert_allclose(folder[name], values, atol=2e-3, rtol=2e-3)
    assert not (tmp_path / ".partial").exists()


def test_killed_extraction_repeats_batches_after_the_last_record(backbone, rows, expected, tmp_path, monkeypatch):
    calls, extraction = counting(token_extraction(backbone, ["layer_4"]), monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt):
        extract(extraction, rows, tmp_path)
    note = tmp_path / ".partial" / "progress.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"done": calls[0]}))
    again, extraction = counting(token_extraction(backbone, ["layer_4"]), monkeypatch)
    folder = extract(extraction, rows, tmp_path)
    assert sum(again) == len(rows) - calls[0]
    np.testing.assert_allclose(folder["layer_4"], expected["layer_4"], atol=2e-3, rtol=2e-3)


def test_interrupted_extraction_of_another_encoder_is_refused(backbone, rows, tmp_path, monkeypatch):
    _, extraction = counting(token_extraction(backbone, ["layer_4"]), monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt):
        extract(extraction, rows, tmp_path)
    calls, extraction = counting(token_extraction(BertBackbone(CONFIG), ["layer_4"]), monkeypatch)
    extract(extraction, rows, tmp_path)
    assert sum(calls) == len(rows)


def test_features_of_another_encoder_or_text_are_refused(backbone, rows, tmp_path):
    extract(token_extraction(backbone, ["layer_1"]), rows, tmp_path)
    lines = [TextExample("other", ("a a",))]
    others = encode_lines(lines, BertTokenizer(VOCABULARY), 16)[0]
    for encoder, texts in ((backbone, others), (BertBackbone(CONFIG), rows)):
        with pytest.raises(ConfigError, match="holds features of another encoder or other texts"):
            extract(token_extraction(encoder, ["layer_1"]), texts, tmp_path)


def test_folder_with_other_files_is_refused(backbone, rows, tmp_path):
    (tmp_path / "thesis.txt").write_text("ten years")
    with pytest.raises(ConfigError, match=r"must be new, empty or hold features.*thesis\.txt"):
        extract(token_extraction(backbone, ["layer_1"]), rows, tmp_path)


def test_full_disk_is_detected_before_computing(backbone, rows, tmp_path, monkeypatch):
    calls, extraction = counting(token_extraction(backbone, ["layer_1"]), monkeypatch)
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ConfigError, match=f"need {2 * 16 * len(rows.token_ids):,} bytes .* Received: 100 free"):
        extract(extraction, rows, tmp_path)
    assert not calls


@pytest.mark.parametrize("damage", ["cut", "other"])
def test_a_damaged_array_is_named(backbone, rows, tmp_path, damage):
    folder = extract(token_extraction(backbone, ["layer_1"]), rows, tmp_path)
    path = tmp_path / "layer_1.npy"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-10])
    else:
        np.save(path, np.zeros((2, 3)))
    with pytest.raises(ConfigError, match=r"layer_1\.npy: (not a readable array|must be float16 .* Received: float64)"):
        folder["layer_1"]


def test_values_out_of_range_of_float16_are_refused(rows, tmp_path):
    encoder = BertBackbone(CONFIG)
    # The scale of the last layer's outputs.
    gamma = next(w for w in encoder.weights if w.path == "layer_4/feedforward_layer_norm/gamma")
    gamma.assign(np.full(gamma.shape, 1e6))
    with pytest.raises(ValueError, match=r"`layer_4` of row \d+ must be numbers within 65504"):
        extract(token_extraction(encoder, ["layer_4"]), rows, tmp_path)


def test_fingerprint_covers_weights_except_the_pooler(backbone):
    from dataclasses import replace

    other = BertBackbone(replace(CONFIG, pooler=False, dropout=0.0))
    weights = {weight.path: weight for weight in backbone.weights}
    for weight in other.weights:
        weight.assign(weights[weight.path])
    assert encoder_fingerprint(other) == encoder_fingerprint(backbone)
    other.weights[0].assign(other.weights[0] + 1e-3)
    assert encoder_fingerprint(other) != encoder_fingerprint(backbone)


def test_a_file_of_texts(tmp_path):
    preset = write_preset(tmp_path)
    text = tmp_path / "texts.txt"
    text.write_bytes(("\ufeff" + "\r\n".join([*TEXTS[:2], "", *TEXTS[2:]]) + "\r\n").encode())
    with pytest.raises(ValueError, match=r"texts\.txt: line 3: a text must not be empty"):
        embed_file(preset, text, ["last"], tmp_path / "features")
    input_errors = InputErrors(skip=True)
    limits = {"max_sequence_length": 8, "input_errors": input_errors}
    embedded = embed_file(preset, text, ["last", "layer_2"], tmp_path / "features", **limits)
    folder = embedded.folder
    assert (embedded.examples, len(input_errors)) == (len(TEXTS), 1)
    assert set(folder.manifest.features) == {"layer_4", "layer_2"}
    index = folder.index
    assert len(index) == len(folder) > len(TEXTS)
    kept = {}
    for number, line in enumerate(index):
        assert folder.row(number)["layer_4"].shape == (len(line["tokens"]), CONFIG.hidden_dim)
        kept.setdefault(line["example"], []).extend(line["tokens"][slice(*line["keep"])])
    assert [" ".join(kept[number]) for number in range(len(TEXTS))] == TEXTS
    assert index[-1]["place"].endswith("texts.txt: line 7")

"""Encoders with a byte-level BPE: conversion, fine-tuning, prediction, vectors, `fit`, export and serving by ids."""

from __future__ import annotations

import json
import shutil
import urllib.request
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.cli import main
from bert_tf.export.inference import Predictor
from bert_tf.models import load_backbone, load_preset
from bert_tf.tasks.predictor import TaskPredictor
from bert_tf.text.byte_pair_vocabulary import byte_pair_vocabulary
from bert_tf.text.byte_pairs import BytePairTokenizer, tokenizer_of
from tests.support.serving.server_process import running
from tests.support.text.byte_pair_samples import SENTENCES, tokenizer_json

GOOD, DULL = "a good film", "a dull film"
ROWS = 448


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder of ModernBERT's body as a preset, and as a directory of transformers; more rows than tokens."""
    folder = tmp_path_factory.mktemp("byte_pairs")
    keras.utils.set_random_seed(1)
    config = bert_tf.BertConfig(
        body="modern", vocabulary_size=ROWS, hidden_dim=16, num_layers=2, num_heads=2, intermediate_dim=32,
        max_sequence_length=64, num_segments=0, pooler=False,
    )  # fmt: skip
    vocabulary = byte_pair_vocabulary(tokenizer_json()).padded(ROWS)
    model = bert_tf.BertPretrainer(bert_tf.BertBackbone(config), next_sentence=False)
    bert_tf.save_preset(model, folder / "encoder", vocabulary, lowercase=False)
    call("convert", "--source", "preset", folder / "encoder", "--target", "huggingface", folder / "hf")
    return folder


def call(*argv: object) -> None:
    assert main([str(argument) for argument in argv]) == 0


def result_of(capsys: pytest.CaptureFixture[str], *argv: object) -> dict[str, Any]:
    capsys.readouterr()
    call(*argv)
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def finetuned(home: Path, task: str, name: str, content: str, *flags: str) -> Path:
    """Fine-tunes the directory of transformers, without `convert` before, on a file that is also the held-out one."""
    (home / task).mkdir()
    for part in ("train", "dev"):
        (home / task / f"{part}{name}").write_text(content, encoding="utf-8")
    files = ["--data", home / task]
    if task != "classify":
        files = ["--train", home / task / f"train{name}", "--dev", home / task / f"dev{name}"]
    call("finetune", task, "--preset", home / "hf", *files, "--output", home / task / "run",
         *flags, "--set", "training.epochs=1", "training.batch_size=4")  # fmt: skip
    return home / task / "run"


@pytest.fixture(scope="module")
def classifier(home: Path) -> Path:
    table = "\n".join(["label\ttext", *(f"{label}\t{text}" for label, text in (("1", GOOD), ("0", DULL)) * 8)]) + "\n"
    return finetuned(home, "classify", ".tsv", table)


def test_a_preset_keeps_the_tokenizer(home: Path) -> None:
    assert sorted(path.name for path in (home / "encoder").iterdir()) == [
        "config.json", "model.weights.h5", "tokenizer.json",
    ]  # fmt: skip
    preset = load_preset(home / "encoder")
    tokenizer = tokenizer_of(preset.vocabulary, preset.lowercase)
    assert isinstance(tokenizer, BytePairTokenizer)
    assert len(preset.vocabulary) == ROWS
    assert tokenizer.detokenize(tokenizer.tokenize([SENTENCES[2]]).values) == SENTENCES[2]


def test_directories_of_transformers_go_in_and_out(home: Path, tmp_path: Path) -> None:
    assert (home / "hf/tokenizer.json").read_text() == tokenizer_json()
    assert not (home / "hf/vocab.txt").exists()
    call("convert", "--source", "huggingface", home / "hf", "--target", "preset", tmp_path / "back")
    first, second = (load_preset(path) for path in (home / "encoder", tmp_path / "back"))
    assert first.vocabulary == second.vocabulary
    for one, other in zip(first.model.get_weights(), second.model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    call("convert", "--source", "preset", tmp_path / "back", "--target", "huggingface", tmp_path / "hf")
    assert (tmp_path / "hf/model.safetensors").read_bytes() == (home / "hf/model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("tokenizer_config.json", {"cls_token": "<s>"}, "`cls_token` must be [CLS]. Received: '<s>'"),
        ("special_tokens_map.json", {"mask_token": "<mask>"}, "`mask_token` must be [MASK]"),
        ("tokenizer.json", {"model": None}, "`model` must be"),
    ],
)
def test_other_special_tokens_are_refused(
    file: str, change: dict[str, Any], message: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(home / "hf", tmp_path / "hf")
    path = tmp_path / "hf" / file
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    arguments = ["convert", "--source", "huggingface", tmp_path / "hf", "--target", "preset", tmp_path / "preset"]
    assert main([str(argument) for argument in arguments]) == 1
    assert message in capsys.readouterr().err


def test_formats_of_word_pieces_are_refused(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = bert_tf.BertConfig(vocabulary_size=ROWS, hidden_dim=8, num_layers=1, num_heads=1, intermediate_dim=8)
    vocabulary = load_preset(home / "encoder").vocabulary
    bert_tf.save_preset(bert_tf.BertBackbone(config), tmp_path / "bert", vocabulary, lowercase=False)
    for form in ("keras_hub", "google_tf1", "model_garden"):
        arguments = ["convert", "--source", "preset", tmp_path / "bert", "--target", form, tmp_path / form]
        assert main([str(argument) for argument in arguments]) != 0
        assert f"{form} holds word pieces only. Received: a byte-level BPE." in capsys.readouterr().err
        assert not (tmp_path / form).exists()


def test_a_classifier_predicts_texts_and_pairs(classifier: Path) -> None:
    predictor = TaskPredictor(classifier)
    found = predictor.predict([GOOD, DULL])
    vocabulary = load_preset(classifier).vocabulary
    rows = tokenizer_of(vocabulary, False)([GOOD])
    ids = np.array([[vocabulary.cls_id, *rows.to_list()[0], vocabulary.sep_id]], np.int32)
    logits = load_preset(classifier).model({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1})
    expected = keras.ops.convert_to_numpy(keras.ops.softmax(logits))[0]
    np.testing.assert_allclose(list(found[0]["probabilities"].values()), expected, atol=1e-6)


def test_entities_are_words_of_a_sentence(home: Path) -> None:
    sentences = "Anna B-PER\nfährt O\nnach O\nKöln B-LOC\n. O\n\n" * 8
    output = finetuned(home, "ner", ".txt", sentences)
    found = TaskPredictor(output).predict([["Anna", "fährt", "nach", "Köln"]])
    assert found[0]["words"] == ["Anna", "fährt", "nach", "Köln"]


def test_answers_are_parts_of_the_context(home: Path) -> None:
    context = "Über die Brücke gehen 3 Männer."
    question = {"id": "1", "question": "Wer?", "answers": [{"text": "3 Männer", "answer_start": context.index("3")}]}
    articles = {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": [question]}]}]}
    output = finetuned(home, "squad1", ".json", json.dumps(articles), "--max_query_length", "8")
    answer = TaskPredictor(output).predict(("Wer?", context))
    assert answer["answer"] == context[answer["start"] : answer["end"]] == answer["answer"].strip()
    for context in ("ab     cd", "a  b", " \n x"):
        candidates = TaskPredictor(output).predict(("Wer?", context), top_k=20)["n_best"]
        texts = [candidate["answer"] for candidate in candidates]
        assert all(text and text == text.strip() for text in texts), texts
    assert TaskPredictor(output).predict(("Wer?", "   "))["answer"] == ""


def test_texts_become_vectors_and_files_of_features(home: Path, tmp_path: Path) -> None:
    vectors = bert_tf.embed(SENTENCES, home / "hf")
    assert vectors.shape == (len(SENTENCES), 16) and np.isfinite(vectors).all()
    lines = tmp_path / "lines.txt"
    lines.write_text(f"{GOOD}\n{SENTENCES[3]}\n", encoding="utf-8")
    call("features", "--preset", home / "hf", "--input", lines, "--layers", "last", "--output", tmp_path / "features")
    index = (tmp_path / "features/index.jsonl").read_text(encoding="utf-8").splitlines()
    tokens = json.loads(index[0])["tokens"]
    assert "".join(tokens) == f"[CLS]{GOOD}[SEP]"


def test_choices_are_ranked_and_numbers_predicted(home: Path) -> None:
    header = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
    rows = "".join(f"{n},v,{n},The film was,The film,was,gold,good,dull,great,old,{n % 4}\n" for n in range(8))
    output = finetuned(home, "swag", ".csv", f"{header}\n{rows}", "--frozen_layers", "1")
    assert TaskPredictor(output).predict(("The film was", ["good", "dull", "great", "old"]))["choice"] in range(4)


def test_masks_are_filled(home: Path) -> None:
    (row,) = Predictor(home / "encoder", top_k=2)(["the [MASK] was good"])
    assert len(row["masks"]) == 1


def test_a_model_on_texts_is_compiled_and_fitted(home: Path) -> None:
    model = bert_tf.BertTextClassifier.from_preset(home / "hf", num_classes=2)
    model.compile()
    history = model.fit([GOOD, DULL] * 4, ["good", "dull"] * 4, epochs=1, batch_size=4, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert model.predict([GOOD], verbose=0).shape == (1, 2)


def test_an_export_takes_ids_and_names_the_tokenizer(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version = Path(result_of(capsys, "export", "--preset", classifier, "--output", tmp_path / "saved")["output"])
    card = json.loads((version / "assets.extra/model_card.json").read_text())
    assert card["tokenizer"] == {"file": "assets.extra/tokenizer.json", "in_graph": False}
    assert list(card["signatures"]) == ["ids", "serving_default"] and card["text_operations"] == []
    assert (version / card["tokenizer"]["file"]).read_text() == tokenizer_json()
    preset = load_preset(classifier)
    tokens = tokenizer_of(preset.vocabulary, False)([GOOD]).to_list()[0]
    ids = [preset.vocabulary.cls_id, *tokens, preset.vocabulary.sep_id]
    inputs = {"token_ids": [ids], "segment_ids": [[0] * len(ids)], "padding_mask": [[1] * len(ids)]}
    loaded = tf.saved_model.load(str(version)).signatures["ids"]
    logits = loaded(**{name: tf.constant(rows, tf.int32) for name, rows in inputs.items()})
    expected = TaskPredictor(classifier).predict([GOOD])[0]["probabilities"]
    np.testing.assert_allclose(tf.nn.softmax(logits["logits"])[0], list(expected.values()), atol=1e-5)
    with running("--model", str(tmp_path / "saved")) as server:
        url = f"{server.url}/v1/models/saved:predict"
        body = json.dumps({"inputs": inputs}).encode()
        with urllib.request.urlopen(urllib.request.Request(url, body)) as response:
            served = json.load(response)["outputs"]
    np.testing.assert_allclose(served["logits"], logits["logits"], atol=1e-5)


def test_word_pieces_are_needed_for_new_data(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES))
    arguments = ["--input", tmp_path / "text.txt", "--vocabulary", home / "hf/tokenizer.json"]
    assert main([str(each) for each in ("data", *arguments, "--output", tmp_path / "data")]) != 0
    assert "tokenizer.json: must hold one word piece per line. Received: JSON." in capsys.readouterr().err


def test_the_encoder_is_the_same_in_every_door(home: Path) -> None:
    ids = np.array([[1, 2, 3, 4]], np.int32)
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
    first, second = (load_backbone(home / name).model(inputs)["sequence_output"] for name in ("encoder", "hf"))
    np.testing.assert_array_equal(first, second)

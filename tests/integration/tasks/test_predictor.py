"""Predictions of texts equal those of files and of exported graphs, in every form of inputs."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bert_tf
from bert_tf.cli import main
from bert_tf.config import ConfigError
from bert_tf.export.inference import Predictor
from bert_tf.export.signatures import signatures_of
from bert_tf.models import load_preset

TEXTS = ["the cat sat on a mat", "a big dog", "the red house . the dog ran", "cats"]
PAIRS = ["the dog", "red cats ran to a house", "on", "a cat"]
LONG = " ".join(["the red cat sat on a big mat ."] * 6)
CHOICES = [["a cat", "a dog", "the red house"], ["on", "to", "and"], ["ran", "sat", "mat ."], ["e", "the", "big"]]


@pytest.fixture(scope="module")
def predictors(presets: dict[str, Path]) -> dict[str, bert_tf.TaskPredictor]:
    kinds = ("classifier", "pair_classifier", "regression", "spans", "entities", "choices")
    return {kind: bert_tf.TaskPredictor(presets[kind]) for kind in kinds}


def test_labels_are_those_of_files_and_exports(predictors: Any, presets: Any, tmp_path: Path) -> None:
    predicted = predictors["classifier"].predict(TEXTS)
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    assert predictors["classifier"].predict_file(path, tmp_path / "out.jsonl") == 4
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [{name: row[name] for name in ("label", "probabilities")} for row in rows] == predicted
    for row, served in zip(predicted, Predictor(presets["classifier"])(TEXTS), strict=True):
        assert row["label"] == served["label"]
        assert row["probabilities"] == pytest.approx(served["probabilities"], abs=1e-5)
    assert json.loads(json.dumps(predicted)) == predicted


def test_one_text_has_one_prediction(predictors: Any) -> None:
    predictor = predictors["classifier"]
    assert predictor("a big dog") == predictor.predict(["a big dog"])[0]
    assert predictors["spans"].predict((TEXTS[0], LONG))["end"] == predictors["spans"]([(TEXTS[0], LONG)])[0]["end"]
    assert predictors["choices"].predict({"text": TEXTS[0], "choices": CHOICES[0]})["choice"] in (0, 1, 2)
    assert (
        predictor.predict([]) == predictors["pair_classifier"].predict([]) == predictors["entities"].predict([]) == []
    )


def test_pairs_may_have_any_form(predictors: Any) -> None:
    predictor = predictors["pair_classifier"]
    predictor.task = bert_tf.task_class("classify")(text_names=("text_a", "text_b"), labels=predictor.task.labels)
    expected = predictor.predict((TEXTS, PAIRS))
    rows = list(zip(TEXTS, PAIRS, strict=True))
    forms = [
        {"label": [0] * 4, "text_b": PAIRS, "text_a": TEXTS},
        {"premise": TEXTS, "hypothesis": np.array(PAIRS)},
        rows,
        np.array(rows),
        iter(rows),
        [{"a": a, "b": b} for a, b in rows],
    ]
    for form in forms:
        assert predictor.predict(form) == expected
    assert predictor.predict(rows[0]) == predictor.predict(rows[:1])[0]
    with pytest.raises(ConfigError, match=r"2 column\(s\): text_a, text_b. Received: 1"):
        predictor.predict(TEXTS)
    with pytest.raises(ConfigError, match=r"same length. Received: \[4, 1\]"):
        predictor.predict((TEXTS, ["a"]))


def test_numbers_of_long_texts_are_means_of_windows(predictors: Any, presets: Any) -> None:
    numbers = [row["number"] for row in predictors["regression"].predict([*TEXTS, LONG])]
    served = [row["number"] for row in Predictor(presets["regression"])([*TEXTS, LONG])]
    assert numbers == pytest.approx(served, abs=1e-5)


def test_entities_of_texts_and_of_words(predictors: Any, presets: Any) -> None:
    texts = [*TEXTS, "", LONG, 'The "cat, (the\u00a0dog) É']
    predicted = predictors["entities"].predict(texts)
    served = Predictor(presets["entities"])(texts)
    assert sum(len(row["entities"]) for row in predicted) > 5
    for text, row, other in zip(texts, predicted, served, strict=True):
        assert [{**entity, "score": 0} for entity in row["entities"]] == [
            {**entity, "score": 0} for entity in other["entities"]
        ]
        for entity, twin in zip(row["entities"], other["entities"], strict=True):
            assert text[entity["start"] : entity["end"]] == entity["entity"]
            assert entity["score"] == pytest.approx(twin["score"], abs=1e-5)
    assert predicted[-1]["words"] == ["The", '"', "cat", ",", "(", "the", "dog", ")", "É"]
    words = [text.split() for text in TEXTS]
    assert predictors["entities"].predict(words) == predicted[:4]
    for row in ([3], 3, ["a", 3]):
        with pytest.raises(ConfigError, match="lists of words. Received: 3 in row 1"):
            predictors["entities"].predict([["a"], row])


def test_tags_are_those_of_the_file(predictors: Any, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("\n\n".join("\n".join(text.split()) for text in TEXTS) + "\n")
    predictors["entities"].predict_file(tmp_path / "in.txt", tmp_path / "out.txt")
    tags = [line.split()[-1] for line in (tmp_path / "out.txt").read_text().splitlines() if line]
    assert tags == [tag for row in predictors["entities"].predict(TEXTS) for tag in row["tags"]]


def test_answers_are_those_of_files_and_exports(predictors: Any, presets: Any, tmp_path: Path) -> None:
    contexts = [*TEXTS, LONG, "mat"]
    questions = ["the cat"] * 3 + ["a house", "on", "to"]
    predicted = predictors["spans"].predict((questions, contexts), top_k=3)
    served = Predictor(presets["spans"])(questions, contexts)
    for row, other in zip(predicted, served, strict=True):
        assert {name: row[name] for name in ("answer", "start", "end")} == {
            name: other[name] for name in ("answer", "start", "end")
        }
        assert row["probability"] == pytest.approx(other["probability"], abs=1e-5)
        assert row["null_odds"] == pytest.approx(other["null_odds"], abs=1e-4)
        assert [best["answer"] for best in row["n_best"]] == [best["answer"] for best in other["n_best"][:3]]
        none = [best["probability"] for best in other["n_best"] if not best["answer"]]
        assert [row["no_answer_probability"]] == pytest.approx(none, abs=1e-5)
    records = [{"question": q, "context": c} for q, c in zip(questions, contexts, strict=True)]
    paragraphs = [
        {"context": row["context"], "qas": [{"id": str(number), "question": row["question"]}]}
        for number, row in enumerate(records)
    ]
    (tmp_path / "in.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    predictors["spans"].predict_file(tmp_path / "in.json", tmp_path / "out.json")
    odds = json.loads((tmp_path / "out.null_odds.json").read_text())
    assert list(odds.values()) == [row["null_odds"] for row in predicted]
    assert list(json.loads((tmp_path / "out.json").read_text()).values()) == [row["answer"] for row in predicted]
    assert predictors["spans"].predict(records) == predictors["spans"].predict((questions, contexts))


def test_choices_are_those_of_files_and_exports(predictors: Any, presets: Any, tmp_path: Path) -> None:
    predicted = predictors["choices"].predict((TEXTS, CHOICES))
    signatures = signatures_of(load_preset(presets["choices"]))
    served = {name: values.numpy() for name, values in signatures.answer_once_traced(TEXTS, CHOICES).items()}
    assert [row["choice"] for row in predicted] == served["choice"].tolist()
    np.testing.assert_allclose([row["probabilities"] for row in predicted], served["probabilities"], atol=1e-5)
    with (tmp_path / "in.csv").open("w") as file:
        writer = csv.writer(file)
        writer.writerow(["sent1", "sent2", "ending0", "ending1", "ending2"])
        writer.writerows([text, "and", *row] for text, row in zip(TEXTS, CHOICES, strict=True))
    predictors["choices"].predict_file(tmp_path / "in.csv", tmp_path / "out.csv")
    columns = {f"ending{number}": [row[number] for row in CHOICES] for number in range(3)}
    again = predictors["choices"].predict({"sent1": TEXTS, "sent2": ["and"] * 4} | columns)
    lines = (tmp_path / "out.probabilities.jsonl").read_text().splitlines()
    assert [row["probabilities"] for row in again] == [json.loads(line)["probabilities"] for line in lines]
    with pytest.raises(ConfigError, match="3 choices. Received: 1 in row 1"):
        predictors["choices"].predict((TEXTS[:2], [CHOICES[0], ["a"]]))


def test_top_k_and_batch_size(predictors: Any) -> None:
    every = predictors["classifier"].predict(TEXTS)
    best = predictors["classifier"].predict(TEXTS, top_k=2, batch_size=1)
    for row, whole in zip(best, every, strict=True):
        assert next(iter(row["probabilities"])) == row["label"] == whole["label"]
        assert list(row["probabilities"].values()) == pytest.approx(sorted(whole["probabilities"].values())[:0:-1])
    with pytest.raises(ConfigError, match="`top_k` is for"):
        predictors["entities"].predict(TEXTS, top_k=2)
    with pytest.raises(ConfigError, match="`batch_size` must be at least 1. Received: 0"):
        predictors["classifier"].predict(TEXTS, batch_size=0)


def test_missing_texts_are_named(predictors: Any) -> None:
    with pytest.raises(ConfigError, match="`text` must hold strings. Received: None in row 1"):
        predictors["classifier"].predict(["a", None])


@pytest.mark.parametrize("kind", ["classifier", "regression", "spans", "choices", "entities"])
def test_an_ensemble_averages(kind: str, presets: Any, predictors: Any, tmp_path: Path) -> None:
    """The second preset has other weights, and a cased vocabulary in another order."""
    preset = load_preset(presets[kind])
    for weight in preset.model.trainable_weights[-2:]:
        weight.assign(-0.5 * weight)
    task = preset.task if kind != "classifier" else preset.task | {"labels": preset.task["labels"][::-1]}
    vocabulary = bert_tf.Vocabulary((*preset.vocabulary.tokens[:5], *preset.vocabulary.tokens[:4:-1]))
    bert_tf.save_preset(preset.model, tmp_path / "other", vocabulary, False, task=task)
    x = {"spans": (PAIRS, TEXTS), "choices": (TEXTS, CHOICES)}.get(kind, TEXTS)
    one, other = predictors[kind].predict(x), bert_tf.TaskPredictor(tmp_path / "other").predict(x)
    assert one != other
    mean = bert_tf.Ensemble([presets[kind], tmp_path / "other"]).predict(x)
    for averaged, a, b in zip(mean, one, other, strict=True):
        if kind == "regression":
            assert averaged["number"] == pytest.approx((a["number"] + b["number"]) / 2)
        elif kind == "spans":
            assert averaged["null_odds"] == pytest.approx((a["null_odds"] + b["null_odds"]) / 2)
        elif kind == "choices":
            np.testing.assert_allclose(averaged["probabilities"], np.mean([a["probabilities"], b["probabilities"]], 0))
        elif kind == "entities":
            assert averaged["words"] == a["words"] == b["words"]
            # Tags that both models predict are those of the ensemble.
            triples = zip(averaged["tags"], a["tags"], b["tags"], strict=True)
            assert all(tag == first for tag, first, second in triples if first == second)
        else:
            expected = {name: (a["probabilities"][name] + b["probabilities"][name]) / 2 for name in a["probabilities"]}
            assert averaged["probabilities"] == pytest.approx(expected)
            assert averaged["label"] == max(expected, key=expected.__getitem__)


def test_an_ensemble_predicts_files_on_the_command_line(presets: Any, predictors: Any, tmp_path: Path, capsys) -> None:
    (tmp_path / "in.txt").write_text("\n\n".join("\n".join(text.split()) for text in TEXTS) + "\n")
    predictors["entities"].predict_file(tmp_path / "in.txt", tmp_path / "one.txt")
    entities = str(presets["entities"])
    files = ["--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "all.txt")]
    assert main(["predict", "--preset", entities, "--ensemble", entities, entities, *files]) == 0
    assert (tmp_path / "all.txt").read_text() == (tmp_path / "one.txt").read_text()
    assert main(["predict", "--preset", entities, "--ensemble", str(presets["regression"]), *files]) == 1
    assert "an ensemble must be of one task, here `ner`" in capsys.readouterr().err


def test_an_ensemble_needs_a_list_of_presets(presets: Any) -> None:
    for none in ([], str(presets["classifier"])):
        with pytest.raises(ConfigError, match="a list of one or more presets"):
            bert_tf.Ensemble(none)

"""Task models trained on texts with `fit`: each learns a tiny task, and is the same after saving and loading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.config import ConfigError
from bert_tf.models.presets import encoder_of
from tests.support.preprocessing.text_presets import LABELS, NUMBERS, TEXTS, write_preset

WORDS = [["the", "films"], ["a", "good", "story"], ["dull", "film", "is", "fine"]] * 8
TAGS = [["O", "B-X"], ["O", "O", "B-X"], ["O", "B-X", "O", "O"]] * 8
QUESTIONS = ["the film", "a story"] * 12
CONTEXTS = ["good film is fine the story", "dull story was great a film the"] * 12
ANSWERS = ["good", "great"] * 12
STEMS, ENDINGS = ["the film is", "a story was"] * 12, [["good", "dull"], ["bad", "fine"]] * 12
SENTENCES = ["the good film is fine", "a dull story was great the film"] * 16


@pytest.fixture(scope="module")
def preset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_preset(tmp_path_factory.mktemp("text_models") / "preset")


def classifier(preset: Path, **arguments: Any) -> bert_tf.BertTextClassifier:
    keras.utils.set_random_seed(1)
    return bert_tf.BertTextClassifier.from_preset(preset, **({"num_classes": 2} | arguments))


def learned(history: keras.callbacks.History) -> bool:
    losses = history.history["loss"]
    return losses[-1] < 0.5 * losses[0]


def same(one: Any, other: Any, x: Any) -> bool:
    pairs = zip(*map(keras.tree.flatten, (one.predict(x, verbose=0), other.predict(x, verbose=0))), strict=True)
    return all(np.allclose(a, b, atol=1e-6) for a, b in pairs)


def check_saved(model: Any, x: Any, folder: Path) -> Any:
    """Checks that the model is the same as `.keras` file and as preset; returns the latter."""
    model.save(folder / "model.keras")
    loaded = keras.saving.load_model(folder / "model.keras")
    assert same(loaded, model, x)
    assert loaded.preprocessor.get_config() == model.preprocessor.get_config()
    model.save_to_preset(folder / "preset")
    again = type(model).from_preset(folder / "preset")
    assert same(again, model, x)
    return again


def test_classifier_learns_label_names(preset: Path, tmp_path: Path) -> None:
    model = classifier(preset)
    model.compile(learning_rate=1e-2)
    history = model.fit(TEXTS, LABELS, batch_size=4, epochs=10, validation_split=0.25, verbose=0)
    assert learned(history) and history.history["val_accuracy"][-1] == 1.0
    assert model.predict_labels(TEXTS[:4]) == LABELS[:4]
    assert float(model.optimizer.learning_rate) == 0.0, "the schedule ends with the last step"
    again = check_saved(model, TEXTS, tmp_path)
    assert again.preprocessor.labels == ("neg", "pos") and again.predict_labels(TEXTS[:2]) == LABELS[:2]
    predictor = bert_tf.TaskPredictor(tmp_path / "preset")
    assert predictor.task.name == "classify"
    assert [row["label"] for row in predictor.predict(TEXTS[:4])] == LABELS[:4]
    assert sorted(predictor.predict(TEXTS[0])["probabilities"]) == ["neg", "pos"]
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.evaluate(TEXTS, LABELS, verbose=0, return_dict=True)["accuracy"] == 1.0
    assert loaded.fit(TEXTS, LABELS, verbose=0).history["loss"][0] < 0.5


def test_a_classifier_at_chance_says_what_to_do(preset: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = classifier(preset)
    # The same text has both labels.
    labels = ["good", "bad"] * 8
    with caplog.at_level("WARNING", "bert_tf"):
        model.compile(learning_rate=1.0e-9)
        model.fit(["a film"] * 16, labels, batch_size=8, verbose=0)
    message = caplog.records[-1].getMessage()
    assert message.startswith("near chance: accuracy") and "Next: train longer than 2 steps (`epochs=117`)" in message
    assert "compile(learning_rate=" in message


def test_texts_equal_ids_in_every_form(preset: Path) -> None:
    model = classifier(preset)
    ids, numbers = model.preprocessor(TEXTS), np.array(NUMBERS)
    expected = model.predict(ids, verbose=0)
    np.testing.assert_array_equal(model.predict(TEXTS, verbose=0), expected)
    np.testing.assert_array_equal(model.predict(np.array(TEXTS), verbose=0), expected)
    np.testing.assert_array_equal(
        model.predict(tf.data.Dataset.from_tensor_slices(TEXTS).batch(32), verbose=0), expected
    )
    np.testing.assert_array_equal(model.predict_on_batch(TEXTS), model.predict_on_batch(ids))
    for x in (TEXTS, tf.constant(TEXTS), np.array(TEXTS)):
        np.testing.assert_allclose(model(x), expected, atol=1e-6)
    loss = model.evaluate(ids, numbers, verbose=0)
    assert model.evaluate(TEXTS, numbers, verbose=0) == loss
    assert model.evaluate(TEXTS, np.eye(2)[numbers], verbose=0) == pytest.approx(loss, abs=1e-6)
    assert model.evaluate(tf.data.Dataset.from_tensor_slices((TEXTS, numbers)).batch(32), verbose=0) == loss
    assert model.test_on_batch(TEXTS, numbers) == pytest.approx(loss, abs=1e-6)
    weights = np.array([1.0, 0.0] * 16)
    assert model.evaluate(TEXTS, numbers, sample_weight=weights, verbose=0)[0] == pytest.approx(
        model.evaluate(TEXTS[::2], numbers[::2], verbose=0)[0], abs=1e-6
    )


def test_numbers_as_labels_are_names_in_the_preset(preset: Path, tmp_path: Path) -> None:
    model = classifier(preset)
    model.fit(TEXTS, NUMBERS, batch_size=8, verbose=0)
    model.save_to_preset(tmp_path / "preset")
    again = classifier(tmp_path / "preset")
    assert again.predict_labels(TEXTS) == model.predict_labels(TEXTS)
    predicted = bert_tf.TaskPredictor(tmp_path / "preset").predict(TEXTS)
    assert [int(row["label"]) for row in predicted] == model.predict_labels(TEXTS)


def test_a_new_head_has_new_labels(preset: Path, tmp_path: Path) -> None:
    model = classifier(preset)
    model.fit(TEXTS[:4], LABELS[:4], verbose=0)
    model.save_to_preset(tmp_path / "preset")
    other = classifier(tmp_path / "preset", num_classes=3)
    other.fit(TEXTS[:3], ["a", "b", "c"], verbose=0)
    assert other.preprocessor.labels == ("a", "b", "c")


def test_fit_accepts_datasets_callbacks_and_custom_optimizers(preset: Path) -> None:
    model = classifier(preset)
    seen: list[int] = []
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch))
    model.compile(keras.optimizers.Adam(1e-2))
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, NUMBERS)).shuffle(32).batch(8)
    history = model.fit(dataset, epochs=6, validation_data=(TEXTS, NUMBERS), callbacks=[callback], verbose=0)
    assert learned(history) and seen == [0, 1, 2, 3, 4, 5] and type(model.optimizer) is keras.optimizers.Adam
    with pytest.raises(ConfigError, match="for the default optimizer. Received: an optimizer"):
        model.compile("adam", learning_rate=1e-3)


def test_regression_on_pairs(preset: Path, tmp_path: Path) -> None:
    model = classifier(preset, num_classes=1)
    model.compile(learning_rate=1e-2)
    x = {"first": TEXTS, "second": TEXTS}
    history = model.fit(x, [4.0, 1.0, 3.0, 2.0] * 8, batch_size=8, epochs=6, verbose=0)
    assert learned(history) and "mean_absolute_error" in history.history
    assert check_saved(model, (TEXTS, TEXTS), tmp_path).predict_labels((TEXTS[:1], TEXTS[:1]))[0] > 2.0
    assert bert_tf.BertTextPreprocessor.from_preset(tmp_path / "preset").num_texts == 2
    predictor = bert_tf.TaskPredictor(tmp_path / "preset")
    assert predictor.task.text_names == ("text_a", "text_b")
    # `bert-tf finetune classify --regression` trains on standardized numbers.
    saved = bert_tf.load_preset(tmp_path / "preset")
    task = saved.task | {"mean": 5.0, "deviation": 0.5}
    bert_tf.save_preset(saved.model, tmp_path / "standardized", saved.vocabulary, True, task=task)
    expected = [row["number"] for row in bert_tf.TaskPredictor(tmp_path / "standardized").predict((TEXTS, TEXTS))]
    model = bert_tf.BertTextClassifier.from_preset(tmp_path / "standardized")
    assert model.predict_labels((TEXTS, TEXTS)) == pytest.approx(expected, abs=1e-5)


def test_ids_only_without_preprocessor(preset: Path) -> None:
    model = classifier(preset, preprocessor=None)
    ids = bert_tf.BertTextPreprocessor.from_preset(preset)(TEXTS)
    assert model.fit(ids, np.array(NUMBERS), verbose=0).history["loss"][0] > 0
    for x in (TEXTS, np.array(TEXTS), (TEXTS, TEXTS)):
        for method in (model.predict, model):
            with pytest.raises(ConfigError, match="without `preprocessor` takes a dictionary.*Received: texts"):
                method(x)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a", "b", "c", "d"] * 8, "labels must have 2 names. Received: a, b, c, d. Pass `num_classes=4`"),
        ([2, 0, 1, 0] * 8, "from 0 to 1 for `num_classes` of 2. Received: 0 to 2"),
        (None, "`y`, the labels, are required"),
        (NUMBERS[:3], "one entry for each of 32 texts"),
    ],
)
def test_wrong_labels_are_refused(preset: Path, y: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        classifier(preset).fit(TEXTS, y, verbose=0)


def test_words(preset: Path, tmp_path: Path) -> None:
    model = bert_tf.BertTokenClassifier.from_preset(preset, num_classes=2)
    model.compile(learning_rate=1e-2)
    assert learned(model.fit(WORDS, TAGS, batch_size=8, epochs=6, validation_data=(WORDS, TAGS), verbose=0))
    assert model.predict_labels(WORDS[:3]) == TAGS[:3]
    dataset = tf.data.Dataset.from_tensor_slices((tf.ragged.constant(WORDS), tf.ragged.constant(TAGS))).batch(24)
    expected = model.evaluate(WORDS, TAGS, verbose=0)
    assert model.evaluate(dataset, verbose=0) == pytest.approx(expected, abs=1e-5)
    again = check_saved(model, WORDS, tmp_path)
    assert again.predict_labels(WORDS[:3]) == TAGS[:3]
    predicted = bert_tf.TaskPredictor(tmp_path / "preset").predict(WORDS[:3])
    assert [row["tags"] for row in predicted] == TAGS[:3]
    assert [entity["entity"] for row in predicted for entity in row["entities"]] == ["films", "story", "film"]


def test_spans(preset: Path, tmp_path: Path) -> None:
    model = bert_tf.BertSpanPredictor.from_preset(preset)
    model.compile(learning_rate=1e-2)
    x = QUESTIONS, CONTEXTS
    assert learned(model.fit(x, ANSWERS, batch_size=8, epochs=8, verbose=0))
    assert model.predict_answers(x) == ANSWERS
    dataset = tf.data.Dataset.from_tensor_slices((x, ANSWERS)).batch(24)
    assert model.evaluate(dataset, verbose=0) == pytest.approx(model.evaluate(x, ANSWERS, verbose=0), abs=1e-5)
    assert check_saved(model, x, tmp_path).predict_answers(x) == ANSWERS
    predicted = bert_tf.TaskPredictor(tmp_path / "preset").predict(x)
    assert [row["answer"] for row in predicted] == ANSWERS
    assert [context[row["start"] : row["end"]] for row, context in zip(predicted, CONTEXTS, strict=True)] == ANSWERS
    with pytest.raises(ConfigError, match="may have no answer. Received: `no_answer` is False"):
        model.calibrate(x, ANSWERS)


def test_the_threshold_of_no_answer_is_calibrated(preset: Path, tmp_path: Path) -> None:
    model = bert_tf.BertSpanPredictor.from_preset(preset)
    answers = ["good", ""] * 12
    model.compile(learning_rate=1e-2)
    model.fit((QUESTIONS, CONTEXTS), answers, batch_size=8, epochs=6, verbose=0)
    assert model.predict_answers((QUESTIONS, CONTEXTS)) == answers
    # Of no question is the answer kept, so that the best threshold is below the smallest null odds.
    threshold = model.calibrate((QUESTIONS, CONTEXTS), [""] * 24)
    assert model.predict_answers((QUESTIONS, CONTEXTS)) == [""] * 24
    assert check_saved(model, (QUESTIONS, CONTEXTS), tmp_path).preprocessor.null_threshold == threshold
    predictor = bert_tf.TaskPredictor(tmp_path / "preset")
    odds = [row["null_odds"] for row in predictor.predict((QUESTIONS, CONTEXTS))]
    assert min(odds) > threshold == predictor.task.threshold
    assert threshold < model.calibrate((QUESTIONS, CONTEXTS), answers) < max(odds)
    assert model.predict_answers((QUESTIONS, CONTEXTS)) == answers


def test_padding_is_excluded_from_spans(preset: Path) -> None:
    model = bert_tf.BertSpanPredictor.from_preset(preset)
    x, y, _ = model.preprocessor.batch_of((QUESTIONS[:1], CONTEXTS[:1]), ANSWERS[:1])
    wider = {name: np.pad(values, ((0, 0), (0, 9))) for name, values in x.items()}
    assert model.evaluate(wider, y, verbose=0) == pytest.approx(model.evaluate(x, y, verbose=0), abs=1e-5)


def test_choices(preset: Path, tmp_path: Path) -> None:
    model = bert_tf.BertMultipleChoice.from_preset(preset)
    model.compile(learning_rate=1e-2)
    assert learned(model.fit((STEMS, ENDINGS), [0, 1] * 12, batch_size=8, epochs=8, verbose=0))
    assert model.predict_labels((STEMS, ENDINGS)) == [0, 1] * 12
    check_saved(model, (STEMS, ENDINGS), tmp_path)
    predicted = bert_tf.TaskPredictor(tmp_path / "preset").predict((STEMS, ENDINGS))
    assert [row["choice"] for row in predicted] == [0, 1] * 12


def test_masked_lm(preset: Path, tmp_path: Path) -> None:
    model = bert_tf.BertMaskedLM.from_preset(preset)
    logits = bert_tf.load_preset(preset).model(model.preprocessor(["the [MASK]"]))["mlm_logits"]
    np.testing.assert_allclose(model.predict(["the [MASK]"], verbose=0), logits, atol=1e-6)
    model.compile(learning_rate=1e-2)
    history = model.fit(SENTENCES, batch_size=8, epochs=10, validation_data=(SENTENCES,), verbose=0).history
    assert history["val_loss"][-1] < 0.6 * history["val_loss"][0]
    assert model.fit(tf.data.Dataset.from_tensor_slices(SENTENCES).batch(8), verbose=0).history["loss"][0] < 2.0
    ((best, *_),) = model.fill_mask(["a [MASK] story was great the film"])[0]
    assert best[0] in ("dull", "good")
    with pytest.raises(ConfigError, match=r"contain \[MASK\]. Received: row 1"):
        model.fill_mask(["a [MASK]", "a"])
    check_saved(model, ["a [MASK] story"], tmp_path)
    saved = bert_tf.load_preset(tmp_path / "preset")
    assert (saved.kind, saved.model.next_sentence) == ("BertPretrainer", False)


@pytest.mark.parametrize("training", [False, True])
def test_only_training_draws_other_masks_in_each_epoch(preset: Path, training: bool) -> None:
    model = bert_tf.BertMaskedLM.from_preset(preset)
    texts = tf.data.Dataset.from_tensor_slices(SENTENCES).batch(8)
    dataset = model.preprocessor.dataset(texts, shuffle=training, model=model)
    first, second = ([inputs["mask_positions"].numpy().tolist() for inputs, *_ in dataset] for _ in range(2))
    assert (first != second) == training


def test_lora_changes_only_its_matrices(preset: Path, tmp_path: Path) -> None:
    model = classifier(preset)
    before = {weight.path: keras.ops.convert_to_numpy(weight) for weight in model.weights}
    model.enable_lora(2)
    model.compile(learning_rate=3e-2)
    losses = model.fit(TEXTS, LABELS, batch_size=8, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    changed = {w.path for w in model.weights if w.path not in before or not np.array_equal(before[w.path], w)}
    low_rank = {path for path in changed if "lora_kernel" in path}
    assert len(low_rank) == 2 * 2 * 2 and changed - low_rank == {"logits/kernel", "logits/bias"}
    logits = model.predict(TEXTS, verbose=0)
    again = check_saved(model, TEXTS, tmp_path)
    assert {weight.path for weight in again.weights} == set(before)
    model.merge_lora()
    np.testing.assert_allclose(model.predict(TEXTS, verbose=0), logits, atol=1e-6)
    with pytest.raises(ConfigError, match="query, key, value, attention_output. Received: .*'pooler'"):
        classifier(preset).enable_lora(2, targets=("pooler",))
    with pytest.raises(ValueError, match="without LoRA"):
        model.enable_lora(2)


def test_frozen_layers_and_layer_decay(preset: Path) -> None:
    model = classifier(preset, frozen_layers=1, layer_decay=0.5)
    paths = {variable.path for variable in model.trainable_variables}
    assert not any(path.startswith(("embeddings", "layer_1/")) for path in paths)
    assert any(path.startswith("layer_2/") for path in paths)
    model.fit(TEXTS, LABELS, verbose=0)
    rates = dict(zip((v.path for v in model.trainable_variables), model.optimizer.rate_scales, strict=True))
    assert rates["logits/kernel"] == 1.0 and rates["layer_2/feedforward_output_dense/bias"] == 0.5
    with pytest.raises(ConfigError, match="from 0 to 2. Received: 3"):
        model.freeze_layers(3)


def test_matching_head_of_a_preset_is_kept(preset: Path, tmp_path: Path) -> None:
    model = classifier(preset)
    model.save_to_preset(tmp_path / "preset")
    kernel = keras.ops.convert_to_numpy(model.get_layer("logits").kernel)
    kept = bert_tf.BertTextClassifier.from_preset(tmp_path / "preset", num_classes=2, dropout=0.3)
    assert kept.dropout == 0.3
    np.testing.assert_array_equal(kept.get_layer("logits").kernel, kernel)
    other = bert_tf.BertTextClassifier.from_preset(tmp_path / "preset", num_classes=3)
    assert other.get_layer("logits").kernel.shape == (32, 3)
    table = encoder_of(model).token_embedding.embeddings
    np.testing.assert_array_equal(encoder_of(other).token_embedding.embeddings, table)
    words = bert_tf.BertTokenClassifier.from_preset(tmp_path / "preset", num_classes=4)
    assert not encoder_of(words).config.pooler


def test_mixed_precision(preset: Path) -> None:
    model = classifier(preset, dtype="mixed_float16")
    model.compile(learning_rate=1e-2)
    history = model.fit(TEXTS, LABELS, batch_size=8, epochs=6, verbose=0).history
    assert history["loss"][-1] < history["loss"][0] and hasattr(model.optimizer, "inner_optimizer")


def test_texts_in_an_exported_graph(preset: Path, tmp_path: Path) -> None:
    model = classifier(preset)

    class Served(tf.Module):
        def __init__(self) -> None:
            self.model = model

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def __call__(self, texts: tf.Tensor) -> tf.Tensor:
            return self.model(self.model.preprocessor(texts))

    tf.saved_model.save(Served(), tmp_path / "module")
    expected = model.predict(TEXTS, verbose=0)
    loaded = tf.saved_model.load(tmp_path / "module")
    served = loaded(tf.constant(TEXTS))
    np.testing.assert_allclose(served, expected, atol=1e-5)
    inputs = keras.Input((), dtype="string")
    with_texts = keras.Model(inputs, model(model.preprocessor(inputs)))
    with_texts.export(tmp_path / "model", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "model")
    served = loaded.serve(tf.constant(TEXTS))
    np.testing.assert_allclose(served, expected, atol=1e-5)


def test_a_further_fit_continues_the_optimizer(preset: Path) -> None:
    model = classifier(preset)
    model.fit(TEXTS[:16], LABELS[:16], batch_size=4, epochs=2, verbose=0)
    optimizer, moments = model.optimizer, model.optimizer.variables[2].numpy()
    assert (int(optimizer.iterations), float(optimizer.learning_rate)) == (8, 0.0)
    model.fit(TEXTS[:16], LABELS[:16], batch_size=4, verbose=0)
    assert model.optimizer is optimizer and np.abs(moments).max() > 0
    assert int(optimizer.iterations) == 12
    assert optimizer.get_config()["learning_rate"]["config"]["total_steps"] == 12
    model.compile()
    assert int(model.optimizer.iterations) == 0


def test_no_texts_have_no_predictions(preset: Path) -> None:
    assert classifier(preset).predict_labels([]) == []
    assert bert_tf.BertSpanPredictor.from_preset(preset).predict_answers(([], [])) == []
    assert bert_tf.BertTokenClassifier.from_preset(preset, num_classes=2).predict_labels([]) == []


def test_a_given_preprocessor_keeps_no_task_of_another_head(preset: Path, tmp_path: Path) -> None:
    model = bert_tf.BertTextClassifier.from_preset(preset, num_classes=1)
    model.save_to_preset(tmp_path / "numbers", info={"steps": 7})
    task = json.loads((tmp_path / "numbers" / "task.json").read_text())
    (tmp_path / "numbers" / "task.json").write_text(json.dumps(task | {"mean": 50.0, "deviation": 20.0}))
    given = bert_tf.BertTextPreprocessor.from_preset(tmp_path / "numbers", sequence_length=16)
    other = bert_tf.BertTextClassifier.from_preset(tmp_path / "numbers", num_classes=2, preprocessor=given)
    other.save_to_preset(tmp_path / "labels")
    again = bert_tf.BertTextClassifier.from_preset(tmp_path / "labels")
    np.testing.assert_array_equal(again.predict(TEXTS[:4], verbose=0), other.predict(TEXTS[:4], verbose=0))
    saved = json.loads((tmp_path / "labels" / "task.json").read_text())
    assert saved["task"] == "classify" and saved["max_sequence_length"] == 16 and "mean" not in saved
    assert "steps" not in json.loads((tmp_path / "labels" / "config.json").read_text())["info"]


def test_labels_of_a_dataset(preset: Path) -> None:
    model = classifier(preset)
    expected = model.predict_labels(TEXTS[:10])
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS[:10], [0] * 10))
    assert model.predict_labels(dataset.batch(4)) == expected
    named = tf.data.Dataset.from_tensor_slices((TEXTS[:10], ["pos"] * 10))
    assert model.predict_labels(named.batch(4)) == expected, "names of labels are no second text"
    assert model.preprocessor.num_texts == 1
    assert model.predict_labels(dataset.map(lambda text, _: text).batch(3)) == expected


def test_questions_that_must_have_an_answer_are_no_longer_of_squad2(preset: Path, tmp_path: Path) -> None:
    model = bert_tf.BertSpanPredictor.from_preset(preset, preprocessor=span_preprocessor(preset, no_answer=True))
    model.save_to_preset(tmp_path / "first")
    other = bert_tf.BertSpanPredictor.from_preset(tmp_path / "first")
    other.preprocessor.no_answer = False
    other.save_to_preset(tmp_path / "second")
    assert bert_tf.TaskPredictor(tmp_path / "second").predict((QUESTIONS[:1], CONTEXTS[:1]))[0]["answer"]


def span_preprocessor(preset: Path, **arguments: Any) -> bert_tf.BertSpanPreprocessor:
    return bert_tf.BertSpanPreprocessor.from_preset(preset, **arguments)


def test_another_number_of_choices_becomes_that_of_the_task(preset: Path, tmp_path: Path) -> None:
    model = bert_tf.BertMultipleChoice.from_preset(preset)
    model.save_to_preset(tmp_path / "preset")
    task = json.loads((tmp_path / "preset" / "task.json").read_text())
    (tmp_path / "preset" / "task.json").write_text(json.dumps(task | {"choices": 4}))
    model = bert_tf.BertMultipleChoice.from_preset(tmp_path / "preset")
    model.fit((STEMS, ENDINGS), [0] * len(STEMS), verbose=0)
    assert len(model.predict_labels((STEMS, ENDINGS))) == len(STEMS)
    model.save_to_preset(tmp_path / "again")
    assert json.loads((tmp_path / "again" / "task.json").read_text())["choices"] == 2

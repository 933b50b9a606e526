"""The graph returns the same answers as the task in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig, ConfigError
from bert_tf.encoding import spans
from bert_tf.encoding.spans import SquadExample
from bert_tf.export.inference import Predictor
from bert_tf.export.kinds.spans import SpanSignatures
from bert_tf.models import BertBackbone, BertSpanPredictor, load_preset, save_preset
from bert_tf.tasks.predictor import TaskPredictor
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

WORDS = (
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "dog",
    "ran",
    "to",
    "big",
    "red",
    "house",
    "é",
    "ß",
    "猫",
    ".",
    ",",
    "?",
)
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS, "##s", "##ed", "e"))
LENGTH = 24


def saved(directory: Path, **task: Any) -> Path:
    keras.utils.set_random_seed(3)
    config = BertConfig(
        vocabulary_size=len(VOCABULARY), hidden_dim=16, num_layers=1, num_heads=2, intermediate_dim=32,
        max_sequence_length=LENGTH, initializer_range=0.7, pooler=False,
    )  # fmt: skip
    description = {"task": "squad1", "max_sequence_length": LENGTH, "doc_stride": 6, "max_query_length": 8,
                   "max_answer_length": 5, "n_best": 4}  # fmt: skip
    save_preset(BertSpanPredictor(BertBackbone(config)), directory, VOCABULARY, True, description | task)
    return directory


def drawn(count: int, seed: int) -> list[tuple[str, str]]:
    """Questions, and contexts from empty to many windows, with accents, ideographs and unknown words."""
    generator = np.random.default_rng(seed)
    sizes = [0, 1, 12, 13, 14, 19, 20, 21, 26, *generator.integers(0, 90, count)]
    rows = []
    for size in sizes:
        pieces = generator.choice([*WORDS, "cats", "E\u0301te\u0301", "zebra", "\U0001f600", "\ufffd"], size)
        text = "".join(word + generator.choice([" ", "  ", "\n", ""]) for word in pieces)
        rows.append((" ".join(generator.choice(WORDS, generator.integers(0, 12))), text))
    return rows


@pytest.mark.parametrize(
    "task",
    [
        {},
        pytest.param({"n_best": 1}, marks=pytest.mark.slow),
        pytest.param({"task": "squad2", "null_threshold": 0.0}, marks=pytest.mark.slow),
        {"task": "squad2", "null_threshold": -1.5, "n_best": 1},
        pytest.param({"task": "squad2", "null_threshold": 9.0, "max_answer_length": 40}, marks=pytest.mark.slow),
    ],
)
def test_answers_equal_those_of_the_task(task: dict[str, Any], tmp_path: Path) -> None:
    preset = saved(tmp_path / "preset", **task)
    rows = drawn(30, seed=1)
    examples = [SquadExample("f", str(n), question, context, ()) for n, (question, context) in enumerate(rows)]
    expected = TaskPredictor(preset).predict_examples(examples)
    found = Predictor(preset)(*zip(*rows, strict=True))
    for (_, context), answer, served in zip(rows, expected, found, strict=True):
        assert served["answer"] == answer.text
        assert served["start"] == answer.start
        assert served["end"] == (answer.start + len(answer.text) if answer.text else -1)
        assert not served["answer"] or context[served["start"] : served["end"]] == served["answer"]
        assert [(c["answer"], c["start"]) for c in served["n_best"]] == [(c.text, c.start) for c in answer.candidates]
        probabilities = [candidate["probability"] for candidate in served["n_best"]]
        np.testing.assert_allclose(probabilities, [c.probability for c in answer.candidates], atol=1e-5)
        if task.get("task") == "squad2":
            np.testing.assert_allclose(served["null_odds"], answer.null_odds, atol=1e-4)
        else:
            assert "null_odds" not in served


@pytest.mark.parametrize(("length", "stride", "most_query"), [(24, 6, 8), (24, 100, 8), (12, 1, 8), (40, 7, 0)])
def test_windows_equal_those_of_training(length: int, stride: int, most_query: int) -> None:
    generator = np.random.default_rng(length)
    contexts = np.concatenate([np.arange(45), generator.integers(0, 300, 60)])
    queries = generator.integers(0, most_query + 1, len(contexts))
    rows = [("the " * query, "cat " * context) for query, context in zip(queries, contexts, strict=True)]
    examples = [SquadExample("f", "", question, context) for question, context in rows]
    tokenizer = BertTokenizer(VOCABULARY)
    expected = spans.make_windows(examples, tokenizer, length, stride, max(most_query, 1), labelled=False)
    scored = spans.scored_tokens(expected, len(rows))
    sizes = tf.constant(queries, tf.int64), tf.constant(contexts, tf.int64)
    counts = spans.window_counts(*sizes, length, stride)
    windows = spans.cut_in_graph(counts, *sizes, length, stride)
    np.testing.assert_array_equal(windows.of, expected.examples)
    np.testing.assert_array_equal(windows.held, expected.held)
    found = spans.scored_in_graph(windows, *sizes)
    np.testing.assert_array_equal(expected.row_splits[found.rows.numpy()] + found.places.numpy(), scored.places)
    np.testing.assert_array_equal(expected.row_splits[found.rows.numpy()] + found.limits.numpy(), scored.ends)
    queries = tokenizer.ids(tf.constant([row[0] for row in rows]))
    pieces = tokenizer.pieces(tf.constant([row[1] for row in rows]))
    inputs = spans.rows_in_graph(windows, queries, pieces, VOCABULARY, length)
    lengths = inputs["padding_mask"].numpy().sum(axis=1)
    np.testing.assert_array_equal(lengths, expected.lengths)
    np.testing.assert_array_equal(inputs["token_ids"].numpy()[inputs["padding_mask"].numpy() == 1], expected.token_ids)
    np.testing.assert_array_equal(lengths - inputs["segment_ids"].numpy().sum(axis=1), expected.first_lengths)


def test_short_context_gives_all_distinct_answers(tmp_path: Path) -> None:
    (found,) = Predictor(saved(tmp_path / "preset", n_best=9))(["the cat"], ["dog " * 3000])
    assert {candidate["answer"] for candidate in found["n_best"]} == {("dog " * n).strip() for n in range(1, 6)}


def test_a_context_of_too_many_windows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="context must make at most 4096 rows"):
        Predictor(saved(tmp_path / "preset"))(["the cat"], ["dog " * 30000])


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"max_query_length": 21}, "must exceed the task's `max_query_length` by 4 at least. Received: 24 and 21"),
        ({"doc_stride": 0}, "task.json: `doc_stride` must be a positive integer. Received: 0"),
        ({"n_best": "4"}, "task.json: `n_best` must be a positive integer. Received: '4'"),
    ],
)
def test_mismatched_task_is_refused(task: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        SpanSignatures(load_preset(saved(tmp_path / "preset", **task)))

"""The task `ner`: scheme and labels, predictions of any model, and a run from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bert_tf.encoding.words import NerAnswer, Sentence
from bert_tf.reports.tasks.scored import ScoredSpans, Span
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.ner.task import NerTask
from bert_tf.tasks.registry import task_of
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

LETTERS = "abcdefgh"
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *LETTERS, *(f"##{letter}" for letter in LETTERS)))
LABELS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
IOB1 = b"-DOCSTART- -X- O\n\na x I-PER\nb x B-PER\nc x O\n\nd x I-LOC\nee x I-LOC\n"


@pytest.fixture(scope="module")
def tokenizer() -> BertTokenizer:
    return BertTokenizer(VOCABULARY)


def write(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def read(path: Path, task: NerTask) -> list[Sentence]:
    return list(task.read(path, InputErrors()))


def test_scheme_and_labels_are_inferred_from_training_data(tmp_path, capsys):
    path = write(tmp_path, "train", IOB1)
    sentences = read(path, NerTask())
    task = NerTask().fit_labels(sentences)
    assert (task.scheme, task.labels) == ("IOB1", LABELS)
    assert capsys.readouterr().err == f"{path}: the tags are IOB1\n"
    assert task_of(json.loads(json.dumps({"task": "ner", "max_sequence_length": 7, **task.description()}))) == (task, 7)
    assert NerTask(scheme="IOBES").fit_labels(sentences).scheme == "IOBES"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "train: no examples"),
        (b"a O\nb O\n", "train: at least one entity is needed. Received: O for every word"),
        (b"a O\nb I-A\nc O\n\nd B-A\n", "train: line 2: all tags must be of one scheme.* at .*train: line 5"),
    ],
)
def test_useless_training_files_are_refused(tmp_path, content, message):
    path = write(tmp_path, "train", content)
    with pytest.raises(ValueError, match=message):
        NerTask().validate_examples(read(path, NerTask()), path)


def test_stated_scheme_is_not_inferred(tmp_path):
    path = write(tmp_path, "train", b"a O\nb I-A\nc O\n\nd B-A\n")
    task = NerTask(scheme="IOB2")
    task.validate_examples(read(path, task), path)
    with pytest.raises(ValueError, match="`scheme` must be one of IO, IOB1, IOB2, IOBES. Received: 'BIO'"):
        NerTask(scheme="BIO")


def test_entity_type_that_is_not_in_training_data(tmp_path):
    task = NerTask(scheme="IOB2", labels=LABELS)
    path = write(tmp_path, "dev", b"a B-PER\nb B-ORG\n\nc I-LOC\n")
    with pytest.raises(ValueError, match="dev: line 2: type 'ORG' never occurs in training; known: LOC, PER"):
        read(path, task)
    input_errors = InputErrors(skip=True)
    assert [sentence.words for sentence in task.read(path, input_errors)] == [("c",)]
    assert len(input_errors) == 1
    assert len(list(task.read(path, InputErrors(), labelled=False))) == 2


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), length=st.integers(3, 12), scheme=st.sampled_from(["IOB1", "IOB2", "IOBES"]))
def test_correct_classes_give_the_original_tags(tokenizer, data, length, scheme):
    """Covers every scheme and any split into sentences."""
    word = st.text(LETTERS, min_size=0, max_size=6)
    pairs = st.lists(st.tuples(word, st.sampled_from(LABELS)), min_size=1, max_size=10)
    drawn = data.draw(st.lists(pairs, min_size=1, max_size=4))
    sentences = [
        Sentence(Path("f"), 1, words, tags, words, " ", document=(words,))
        for words, tags in (tuple(zip(*pairs, strict=True)) for pairs in drawn)
    ]
    task = NerTask(scheme=scheme, labels=LABELS)
    rows = task.encode(sentences, tokenizer, length)
    answers = task.answers(sentences, rows, {"": np.eye(len(LABELS))[rows.targets[""]]})
    scores = task.score(sentences, answers)
    assert scores["f1"] == 1.0 or not any(tag != "O" for sentence in sentences for tag in sentence.tags)
    unlabelled = task.encode(sentences, tokenizer, length, labelled=False)
    np.testing.assert_array_equal(unlabelled.weights[""], rows.weights[""])
    assert not unlabelled.targets


def test_targets_are_in_iob2(tmp_path, tokenizer):
    """In IOB1, B-PER would only mark names that are adjacent to another."""
    sentences = read(write(tmp_path, "train", IOB1), NerTask())
    rows = NerTask().fit_labels(sentences).encode(sentences, tokenizer, 16)
    classes = rows.targets[""][rows.weights[""] > 0]
    assert [LABELS[number] for number in classes] == ["B-PER", "B-PER", "O", "B-LOC", "I-LOC"]


def test_scored(tmp_path):
    sentences = read(write(tmp_path, "dev", IOB1), NerTask())
    scored = NerTask().score_details(sentences, [NerAnswer(("I-PER", "O", "I-LOC")), NerAnswer(("I-LOC", "I-LOC"))])
    place = f"{tmp_path}/dev: line"
    assert scored == [
        ScoredSpans(
            f"{place} 3",
            "",
            "a b c",
            (Span(0, 1, "PER"), Span(2, 3, "PER")),
            (Span(0, 1, "PER"), Span(4, 5, "LOC")),
            0.5,
        ),
        ScoredSpans(f"{place} 7", "", "d ee", (Span(0, 4, "LOC"),), (Span(0, 4, "LOC"),), 1.0),
    ]
    assert NerTask().score_details(sentences[:1], [NerAnswer(("O", "O", "O"))])[0].right == 0.0


def test_an_ensemble_averages_the_probabilities_of_words(tmp_path, tokenizer):
    """The models have other vocabularies, lengths and orders of labels; the oracle is the mean of their softmax."""
    sentences = read(write(tmp_path, "dev", IOB1), NerTask())
    other = BertTokenizer(Vocabulary((*SPECIAL_TOKENS, *(f"##{letter}" for letter in LETTERS), *LETTERS[::-1])))
    members = [
        (NerTask(scheme="IOB1", labels=LABELS), tokenizer, 16),
        (NerTask(scheme="IOBES", labels=LABELS[::-1]), other, 4),
    ]
    generator, answers, expected = np.random.default_rng(3), [], np.zeros((5, len(LABELS)))
    for task, tokens, length in members:
        rows = task.encode(sentences, tokens, length, labelled=False)
        logits = generator.normal(size=(len(rows.token_ids), len(LABELS))).astype(np.float32)
        answers.append(task.answers(sentences, rows, {"": logits}))
        exponentials = np.exp(logits[rows.weights[""] > 0].astype(np.float64))
        shares = exponentials / exponentials.sum(axis=1, keepdims=True)
        expected += shares[:, [task.labels.index(label) for label in LABELS]] / len(members)
    averaged = members[0][0].averaged([members[1][0]], answers)
    assert [len(answer.tags) for answer in averaged] == [3, 2]
    assert [name for answer in averaged for name in answer.classes] == [LABELS[n] for n in expected.argmax(axis=1)]
    np.testing.assert_allclose([p for answer in averaged for p in answer.probabilities], expected.max(axis=1), 1e-5)
    # Each model alone predicts something else.
    assert all(of_model != averaged for of_model in answers)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (NerTask(labels=(*LABELS, "B-ORG")), "must have the labels O, B-LOC.* Received: .*B-ORG"),
        (NerTask(labels=LABELS, document_context=True), "same `document_context`, False. Received: True"),
    ],
)
def test_an_ensemble_of_other_labels_or_inputs_is_refused(other, message):
    NerTask(labels=LABELS).check_member(NerTask(labels=LABELS[::-1], scheme="IO"))
    with pytest.raises(ValueError, match=message):
        NerTask(labels=LABELS).check_member(other)

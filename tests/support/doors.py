"""Tiny presets of all heads with every field of task.json, and the public doors through which they are asked.

A door is a function from a preset, its `Case` and the inputs of its head to answers by the number of the input. It may
leave out inputs that its form cannot express, such as empty cells of a file.
"""

from __future__ import annotations

import csv
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np

import bert_tf
from bert_tf.cli import main

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_LINE = "the cat sat on a mat and dog ran to big red house river stood near story film was good dull we saw old long"
WORDS = [*_LINE.split(), "bird", "flew", "over", "green", "hill", "under", "blue", "sky", "with", "small", "boat"]
WORDS += ["who", "where", "what", "did", "see"]
VOCABULARY = bert_tf.Vocabulary((*SPECIAL, *WORDS, "##s", "##ed", "[", "]", "mask", ".", ",", "e", "##e", "é", "日"))
LABELS = ["bad", "good", "légume"]
TAGS = ["O", "B-film", "I-film", "B-place", "I-place"]
POSITIONS = 40
# Factor of the weights of heads: probabilities differ clearly between texts.
HEAD_SCALE = 4.0
INFO = {"steps": 7, "data": "a corpus"}

Example = Any
Answers = dict[int, "Answer"]
Door = Callable[[Path, "Case", Sequence[Example], Path], Answers]


@dataclass(frozen=True)
class Answer:
    """An answer: what must be equal, and what must be close, probabilities or numbers and differences of logits."""

    value: Any
    numbers: tuple[float, ...] | None = None
    odds: float | None = None


@dataclass(frozen=True)
class Case:
    """A preset: its head, the field that has another value than in the plain preset, and the content of task.json.

    `changes` is True if the field changes an answer to the inputs. `positions` are those of the model.
    """

    head: str
    field: str
    task: Mapping[str, Any] | None
    changes: bool = True
    positions: int = POSITIONS

    @property
    def id(self) -> str:
        """The id of a test."""
        return f"{self.head}-{self.field}"


@dataclass(frozen=True)
class Head:
    """The parts that all presets of a head share.

    Args:
        keras_model: name of the class in `bert_tf`.
        examples: inputs, one for each answer.
        doors: doors by name, other than `TaskPredictor.predict`.
    """

    keras_model: str
    examples: tuple[Example, ...]
    doors: Mapping[str, Door] = field(default_factory=dict)


_FIRST = "the cat sat on a big mat near the old river and we saw"
_SECOND = "a red dog ran to the green house under a blue sky . the story was dull"
LONG = " ".join([_FIRST] * 2 + [_SECOND] * 4)
OTHER_LONG = " ".join([_SECOND, _FIRST, "good film"] * 3)
_RANDOM = np.random.default_rng(5)
# Texts of 50 words, enough of them that each field changes the answer to one.
RANDOM_TEXTS = tuple(" ".join(_RANDOM.choice(WORDS, 50)) for _ in range(8))
TEXTS = (
    "the cat sat on a mat",
    "dogs",
    "",
    "  ",
    "École: the big, red house — naïve été 日本 \U0001f600 \u200b",
    "we saw a good old film [SEP] and a small boat with [MASK]",
    LONG,
    OTHER_LONG,
    f"{OTHER_LONG} {LONG}",
    *RANDOM_TEXTS,
)
PAIRS = (
    ("the cat sat", "a dog ran"),
    ("dogs", ""),
    ("", "É, 日本 birds"),
    ("the film was good", LONG),
    (LONG, "who saw a bird"),
    (LONG, OTHER_LONG),
    (OTHER_LONG, f"{_FIRST} {_SECOND}"),
    *zip(RANDOM_TEXTS, reversed(RANDOM_TEXTS), strict=True),
)
SENTENCES = (
    ("the", "cat", "sat", "near", "the", "River"),
    ("dogs",),
    (),
    ("École", "cat,", "日本", "\u0301", "[MASK]", "(the", "houses)"),
    tuple(LONG.split()),
    *(tuple(text.split()) for text in RANDOM_TEXTS),
)
_LONG_QUESTION = "who did see the old green boat under the big blue sky near a river where we saw what dog"
QUESTIONS = (
    ("who sat", "the cat sat on a mat"),
    ("where", "dogs"),
    ("", "a red house near the river"),
    ("what", ""),
    ("where did É 日本 see", "École: the big, red house — naïve été 日本 \U0001f600 birds flew"),
    ("who ran", LONG),
    ("what did we see under the blue sky", OTHER_LONG),
    (_LONG_QUESTION, LONG),
    (_LONG_QUESTION, f"{_SECOND} and {_FIRST}"),
    *zip((text[:80] for text in reversed(RANDOM_TEXTS)), RANDOM_TEXTS, strict=True),
)
CHOICES = (
    ("the cat", ("sat on a mat", "ran to a house", "dull")),
    ("", ("the story", "É 日本", "birds .")),
    (LONG, ("a bird flew", "the film was good", "who")),
    ("we saw", (LONG, OTHER_LONG, f"good {_FIRST} {_SECOND}")),
    (OTHER_LONG, (OTHER_LONG, LONG, "near a river")),
    *((_FIRST, RANDOM_TEXTS[first : first + 3]) for first in range(5)),
)
FAR_MASK = f"{' '.join([_FIRST] * 10)} [MASK] {_SECOND}"
MASKED = (
    "the [MASK] sat on a mat",
    "[MASK] É 日本 [MASK] birds",
    f"a [MASK] {LONG}",
    f"{_FIRST} [MASK] {OTHER_LONG} [MASK]",
)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax over the last axis."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def check(found: Answers, expected: Sequence[Answer]) -> None:
    """Asserts that the answers of a door are the expected ones, as far as the door returns them."""
    assert found
    # Found and expected values by number; pytest explains comparisons only in test modules.
    different = {n: (a.value, expected[n].value) for n, a in found.items() if a.value != expected[n].value}
    assert not different, different
    for number, answer in found.items():
        if answer.numbers is not None:
            np.testing.assert_allclose(answer.numbers, expected[number].numbers, rtol=0, atol=1e-5, err_msg=str(number))
        if answer.odds is not None:
            # Differences of sums of logits.
            np.testing.assert_allclose(answer.odds, expected[number].odds, rtol=1e-5, atol=1e-4, err_msg=str(number))


def columns(examples: Sequence[Example]) -> Any:
    """Returns examples as columns: a list of texts, or a tuple of lists."""
    if isinstance(examples[0], str):
        return list(examples)
    first, second = zip(*examples, strict=True)
    return list(first), [list(each) if isinstance(each, tuple) else each for each in second]


def answer_of(row: Mapping[str, Any]) -> Answer:
    """Returns a prediction of `TaskPredictor`, or a line that the command writes, as an answer."""
    if "label" in row:
        return Answer(row["label"], tuple(row["probabilities"].values()))
    if "number" in row:
        return Answer(None, (row["number"],))
    if "choice" in row:
        return Answer(row["choice"], tuple(row["probabilities"]))
    if "tags" in row:
        return Answer(row["tags"])
    return Answer((row["answer"], row["start"], row["end"]), (row["probability"],), row.get("null_odds"))


def entity_answer(entities: Sequence[Mapping[str, Any]]) -> Answer:
    """Returns the entities of a text as an answer."""
    found = [[entity[name] for name in ("entity", "type", "start", "end")] for entity in entities]
    return Answer(found, tuple(entity["score"] for entity in entities))


def python(preset: Path, case: Case, examples: Sequence[Example]) -> list[Answer]:
    """Returns the answers of `TaskPredictor.predict`."""
    return [answer_of(row) for row in bert_tf.TaskPredictor(preset).predict(inputs_of(case, examples))]


def inputs_of(case: Case, examples: Sequence[Example]) -> Any:
    """Returns examples as the argument of `predict` and `predict_labels`."""
    return [list(words) for words in examples] if case.head == "entities" else columns(examples)


def command(preset: Path, source: Path) -> Path:
    """Runs `bert-tf predict` on a file and returns that of the predictions."""
    output = source.with_name(f"predicted{source.suffix}")
    assert main(["predict", "--preset", str(preset), "--input", str(source), "--output", str(output)]) == 0
    return output


def texts_file(preset: Path, case: Case, examples: Sequence[Example], folder: Path) -> Answers:
    """Asks the command with a file of named columns, which has no empty cells."""
    names, source = case.task["text_names"], folder / "in.jsonl"
    rows = [(each,) if isinstance(each, str) else each for each in examples]
    kept = [number for number, row in enumerate(rows) if all(text.strip() for text in row)]
    lines = [json.dumps({"other": 3} | dict(zip(names, rows[number], strict=True))) for number in kept]
    source.write_text("\n".join([*lines, ""]), encoding="utf-8")
    written = [json.loads(line) for line in command(preset, source).read_text(encoding="utf-8").splitlines()]
    return {number: answer_of(row) for number, row in zip(kept, written, strict=True)}


def glue_file(preset: Path, case: Case, examples: Sequence[Example], folder: Path) -> Answers:
    """Asks the command with a file in the format of GLUE."""
    names, source = case.task["text_names"], folder / "in.tsv"
    rows = [(each,) if isinstance(each, str) else each for each in examples]
    kept = [number for number, row in enumerate(rows) if all(text.strip() for text in row)]
    lines = ["\t".join(["index", *names]), *("\t".join([str(number), *rows[number]]) for number in kept)]
    source.write_text("\n".join([*lines, ""]), encoding="utf-8")
    written = [line.split("\t")[-1] for line in command(preset, source).read_text(encoding="utf-8").splitlines()[1:]]
    is_number = case.head == "number"
    answers = [Answer(None, (float(cell),)) if is_number else Answer(cell) for cell in written]
    return dict(zip(kept, answers, strict=True))


def lines_file(preset: Path, case: Case, examples: Sequence[Example], folder: Path) -> Answers:
    """Asks the command with one example a line, which it answers as an export does."""
    source = folder / "in.txt"
    lines = ["\t".join((each,) if isinstance(each, str) else each) for each in examples]
    source.write_text("\n".join([*lines, ""]), encoding="utf-8")
    written = [json.loads(line) for line in command(preset, source).read_text(encoding="utf-8").splitlines()]
    return {number: answer_of(row) for number, row in enumerate(written)}


def sentences_file(preset: Path, case: Case, examples: Sequence[Example], folder: Path) -> Answers:
    """Asks the command with a column file in which each sentence is a document."""
    source, token_column = folder / "in.conll", case.task["token_column"]
    kept = [number for number, words in enumerate(examples) if words]
    blocks = []
    for number in kept:
        rows = [[word, "NN", "O"] if token_column == 0 else ["NN", word, "O"] for word in examples[number]]
        blocks.append("-DOCSTART- -X- O\n\n" + "\n".join(" ".join(row) for row in rows) + "\n")
    source.write_text("\n".join(blocks), encoding="utf-8")
    written = command(preset, source).read_text(encoding="utf-8")
    tags = [line.split(" ")[-1] for line in written.splitlines() if line and not line.startswith("-DOCSTART-")]
    answers = {}
    for number in kept:
        count = len(examples[number])
        answers[number], tags = Answer(tags[:count]), tags[count:]
    assert not tags
    return answers


def questions_file(preset: Path, case: Case, examples: Sequence[Example], folder: Path) -> Answers:
    """Asks the command with a file in the layout of SQuAD, which has no empty texts."""
    source = folder / "in.json"
    paragraphs = [
        {"context": context, "qas": [{"id": str(number), "question": question}]}
        for number, (question, context) in enumerate(examples)
        if question and context
    ]
    source.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
    output = command(preset, source)
    texts, best = (json.loads(path.read_text(encoding="utf-8")) for path in (output, output.with_suffix(".nbest.json")))
    odds_path = output.with_suffix(".null_odds.json")
    odds = json.loads(odds_path.read_text(encoding="utf-8")) if odds_path.exists() else {}
    answers = {}
    for name, text in texts.items():
        chosen = next((c for c in best[name] if c["text"] == text), {"answer_start": -1, "probability": 0.0})
        start = chosen["answer_start"]
        span = (text, start, start + len(text) if text else -1)
        answers[int(name)] = Answer(span, (chosen["probability"],), odds.get(name))
    return answers


def choices_file(preset: Path, case: Case, examples: Sequence[Example], folder: Path) -> Answers:
    """Asks the command with a file in the format of SWAG, whose rows have a beginning."""
    kept = [number for number, (text, _) in enumerate(examples) if text]
    source = folder / "in.csv"
    with source.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sent1", "sent2", "ending0", "ending1", "ending2"])
        writer.writerows([examples[number][0], "", *examples[number][1]] for number in kept)
    output = command(preset, source).with_suffix(".probabilities.jsonl")
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    return {n: Answer(row["pred"], tuple(row["probabilities"])) for n, row in zip(kept, rows, strict=True)}


def new_keras(preset: Path, case: Case) -> Any:
    """Returns a new Keras model of a preset."""
    return getattr(bert_tf, HEADS[case.head].keras_model).from_preset(preset)


@functools.cache
def _keras(preset: Path, name: str) -> Any:
    return getattr(bert_tf, name).from_preset(preset)


def loaded(preset: Path, case: Case) -> Any:
    """Returns the Keras model of a preset, which all tests of the case share and none trains."""
    return _keras(preset, HEADS[case.head].keras_model)


def keras_answers(model: Any, case: Case, examples: Sequence[Example]) -> list[Answer]:
    """Returns the answers of `predict_labels` or `predict_answers`."""
    if case.head in ("squad1", "squad2"):
        return [Answer(text) for text in model.predict_answers(columns(examples))]
    found = model.predict_labels(inputs_of(case, examples))
    return [Answer(None, (value,)) if case.head == "number" else Answer(value) for value in found]


def keras_labels(preset: Path, case: Case, examples: Sequence[Example], folder: Path) -> Answers:
    """Asks `predict_labels` or `predict_answers` of the Keras model."""
    return dict(enumerate(keras_answers(loaded(preset, case), case, examples)))


def keras_outputs(preset: Path, case: Case, examples: Sequence[Example], folder: Path) -> Answers:
    """Asks `predict` of the Keras model; with windows only about texts of one row, because it returns a row of each."""
    kept = list(range(len(examples)))
    if case.task.get("windows"):
        kept = [number for number in kept if sum(map(len, _texts(examples[number]))) < 30]
    outputs = loaded(preset, case).predict(columns([examples[number] for number in kept]), verbose=0)
    if case.head == "number":
        return {number: Answer(None, (float(row[0]),)) for number, row in zip(kept, outputs, strict=True)}
    names = range(outputs.shape[-1]) if case.head == "choice" else case.task["labels"]
    return {
        number: Answer(names[int(row.argmax())], tuple(row.tolist()))
        for number, row in zip(kept, softmax(outputs), strict=True)
    }


def _texts(example: Example) -> tuple[str, ...]:
    return (example,) if isinstance(example, str) else example


_OF_TEXTS = {
    "command": texts_file, "command_lines": lines_file, "predict_labels": keras_labels, "predict": keras_outputs,
}  # fmt: skip
_OF_QUESTIONS = {"command": questions_file, "command_lines": lines_file, "predict_answers": keras_labels}
HEADS = {
    "text": Head("BertTextClassifier", TEXTS, _OF_TEXTS),
    "pair": Head("BertTextClassifier", PAIRS, _OF_TEXTS),
    "number": Head("BertTextClassifier", TEXTS, _OF_TEXTS),
    "entities": Head("BertTokenClassifier", SENTENCES, {"command": sentences_file, "predict_labels": keras_labels}),
    "squad1": Head("BertSpanPredictor", QUESTIONS, _OF_QUESTIONS),
    "squad2": Head("BertSpanPredictor", QUESTIONS, _OF_QUESTIONS),
    "choice": Head(
        "BertMultipleChoice",
        CHOICES,
        {"command": choices_file, "predict_labels": keras_labels, "predict": keras_outputs},
    ),
}


# Fields on which reading a file depends, or of which the command must not lose any: other fields pass through the same
# function as `TaskPredictor.predict`.
_IN_FILES = (
    "plain", "text_names", "windows_length_and_column", "all", "token_column", "tag_column", "document_context",
    "scheme_IOBES", "null_threshold", "n_best", "choices", "task_cola", "task_mrpc", "task_stsb",
)  # fmt: skip


def doors_of(case: Case) -> dict[str, Door]:
    """Returns the doors by name that a case is tested with."""
    doors = dict(HEADS[case.head].doors)
    is_glue = case.task.get("task") in GLUE
    # Files for the leaderboard of STS-B have clipped and rounded numbers.
    if case.field not in _IN_FILES or case.field == "task_stsb":
        del doors["command"]
    elif is_glue:
        doors["command"] = glue_file
    acts = case.changes or case.field == "plain" or is_glue
    return doors if acts else {name: door for name, door in doors.items() if name not in ("command_lines", "predict")}


GLUE = ("cola", "mrpc", "stsb")
_SHARED = {"text_names": ["text"], "pooling": "first", "windows": False, "text_columns": 1, "max_sequence_length": 24}
_LABELLED = {"labels": LABELS, "label_column": "label", "class_weights": [], "label_weights": []}
_TWO = {"text_names": ["text_a", "text_b"], "text_columns": 2}
_TEXT = {"task": "classify"} | _SHARED | _LABELLED
_PAIR = _TEXT | _TWO
_NUMBER = {"task": "regression", "mean": 0.0, "deviation": 1.0, "label_column": "label"} | _SHARED
_ENTITIES = {
    "task": "ner", "max_sequence_length": 24, "token_column": 0, "tag_column": -1, "document_context": False,
    "scheme": "IOB2", "labels": TAGS,
}  # fmt: skip
_SQUAD1 = {
    "task": "squad1", "max_sequence_length": 32, "doc_stride": 16, "max_query_length": 10, "max_answer_length": 30,
    "n_best": 20,
}  # fmt: skip
_SQUAD2 = _SQUAD1 | {"task": "squad2", "null_threshold": 0.0}
_CHOICE = {"task": "swag", "max_sequence_length": 24, "choices": 0}
_GLUE_PAIR = _SHARED | _TWO


def _cases(
    head: str, plain: Mapping[str, Any], fields: Mapping[str, Mapping[str, Any]], inert: Sequence[str]
) -> list[Case]:
    """Returns the cases of a head by field; those of `inert` fields change no answer to texts."""
    changed = [Case(head, name, {**plain, **values}, name not in inert) for name, values in fields.items()]
    return [Case(head, "plain", plain, changes=False), *changed]


_LENGTH = {"max_sequence_length": {"max_sequence_length": 16}}
_WINDOWS = {"windows": {"windows": True}}
_SPANS = {
    "max_sequence_length": {"max_sequence_length": 24},
    "doc_stride": {"doc_stride": 3},
    "max_query_length": {"max_query_length": 3},
    "max_query_length_over_half": {"max_query_length": 20},
    "max_answer_length": {"max_answer_length": 2},
    "n_best": {"n_best": 2},
}
CASES = [
    *_cases(
        "text",
        _TEXT,
        _LENGTH
        | _WINDOWS
        | {
            "pooling_mean": {"pooling": "mean"},
            "windows_length_and_column": {"windows": True, "max_sequence_length": 16, "label_column": "grade"},
            "text_names": {"text_names": ["sentence"]},
            "labels": {"labels": LABELS[::-1]},
            "label_column": {"label_column": "grade"},
            "class_weights": {"class_weights": ["good=5"], "label_weights": [1.0, 5.0, 1.0]},
        },
        ("text_names", "label_column", "class_weights"),
    ),
    Case("text", "task_cola", {"task": "cola", "labels": ["0", "1"]} | _SHARED | {"text_names": ["sentence"]}, False),
    *_cases(
        "pair",
        _PAIR,
        _LENGTH
        | _WINDOWS
        | {"pooling_max": {"pooling": "max"}, "text_names": {"text_names": ["premise", "hypothesis"]}},
        ("text_names",),
    ),
    Case(
        "pair",
        "task_mrpc",
        {"task": "mrpc", "labels": ["0", "1"]} | _GLUE_PAIR | {"text_names": ["#1 String", "#2 String"]},
        False,
    ),
    *_cases(
        "number",
        _NUMBER,
        _LENGTH
        | _WINDOWS
        | {
            "pooling_last": {"pooling": "last"},
            "mean": {"mean": 3.5},
            "deviation": {"deviation": 0.5},
            "text_names": {"text_names": ["sentence"]},
            "label_column": {"label_column": "grade"},
            "all": {
                "windows": True,
                "mean": -1.5,
                "deviation": 2.0,
                "label_column": "grade",
                "max_sequence_length": 12,
            },
        },
        ("text_names", "label_column"),
    ),
    *_cases(
        "entities",
        _ENTITIES,
        _LENGTH
        | {f"scheme_{name}": {"scheme": name} for name in ("IO", "IOB1", "IOBES")}
        | {
            "labels": {"labels": ["O", "B-place", "I-place", "B-film", "I-film"]},
            "document_context": {"document_context": True},
            "token_column": {"token_column": 1},
            "tag_column": {"tag_column": 2},
        },
        ("document_context", "token_column", "tag_column"),
    ),
    # The other fields are those of `squad2`.
    *_cases(
        "squad1", _SQUAD1, {name: _SPANS[name] for name in ("max_query_length_over_half", "max_answer_length")}, ()
    ),
    *_cases("squad2", _SQUAD2, _SPANS | {"null_threshold": {"null_threshold": -18.5}}, ()),
    *_cases("choice", _CHOICE, _LENGTH | {"choices": {"choices": 3}}, ("choices",)),
]
PAIR_NUMBER = Case(
    "number",
    "task_stsb",
    {"task": "stsb", "mean": 2.5, "deviation": 2.0} | _GLUE_PAIR | {"text_names": ["sentence1", "sentence2"]},
    False,
)
# A preset of another program or an older version, whose task.json has no length.
NO_LENGTH = Case(
    "text", "max_sequence_length_left_out", {k: v for k, v in _TEXT.items() if k != "max_sequence_length"}, True, 160
)
CASES += [PAIR_NUMBER, NO_LENGTH]
BY_ID = {case.id: case for case in CASES}


def examples_of(case: Case) -> tuple[Example, ...]:
    """Returns the inputs of a case."""
    if case is PAIR_NUMBER:
        return PAIRS
    if case is NO_LENGTH:
        return (*TEXTS, " ".join([_FIRST] * 10 + [_SECOND] * 4))
    return HEADS[case.head].examples


def backbone(positions: int = POSITIONS, pooler: bool = True) -> Any:
    """Returns an encoder with weights so large that texts differ."""
    config = bert_tf.BertConfig(
        vocabulary_size=len(VOCABULARY), hidden_dim=16, num_layers=2, num_heads=2, intermediate_dim=32,
        max_sequence_length=positions, initializer_range=0.4, pooler=pooler,
    )  # fmt: skip
    return bert_tf.BertBackbone(config)


def model_of(case: Case) -> Any:
    """Returns a model for a case, with random weights that are the same for all cases of a head."""
    model = _new_model(case)
    kernel, bias = model.get_layer("logits").get_weights()
    model.get_layer("logits").set_weights([HEAD_SCALE * kernel, bias])
    return model


def _new_model(case: Case) -> Any:
    keras.utils.set_random_seed(3)
    task = case.task
    pooling = task.get("pooling", "first")
    encoder = backbone(case.positions, pooler=case.head == "choice" or ("pooling" in task and pooling == "first"))
    if case.head in ("text", "pair"):
        return bert_tf.BertTextClassifier(encoder, len(task["labels"]), pooling=pooling)
    if case.head == "number":
        return bert_tf.BertTextClassifier(encoder, 1, pooling=pooling)
    if case.head == "entities":
        return bert_tf.BertTokenClassifier(encoder, len(task["labels"]))
    return bert_tf.BertMultipleChoice(encoder) if case.head == "choice" else bert_tf.BertSpanPredictor(encoder)


def make_preset(case: Case, folder: Path, lowercase: bool = True) -> Path:
    """Writes the preset of a case."""
    bert_tf.save_preset(model_of(case), folder, VOCABULARY, lowercase, case.task, INFO)
    return folder


def plain_of(case: Case) -> Case:
    """Returns the case of the same head in which no field differs."""
    return BY_ID[f"{case.head}-plain"]


# One preset of each head for exports, which take seconds each: all its fields differ from the defaults.
EXPORTED = [
    Case(
        "text", "all",
        _TEXT | {
            "windows": True, "max_sequence_length": 16, "pooling": "mean", "labels": LABELS[::-1],
            "text_names": ["sentence"], "label_column": "grade",
        },
    ),
    Case("pair", "all", _PAIR | {"windows": True, "max_sequence_length": 20}),
    Case("pair", "truncated", _PAIR | {"pooling": "last"}),
    BY_ID["number-all"],
    Case("entities", "all_IOBES", _ENTITIES | {"scheme": "IOBES", "max_sequence_length": 16}),
    Case("entities", "all_IOB1", _ENTITIES | {"scheme": "IOB1"}),
    Case(
        "squad1", "all",
        _SQUAD1 | {
            "max_sequence_length": 28, "doc_stride": 5, "max_query_length": 18, "max_answer_length": 3, "n_best": 4,
        },
    ),
    Case(
        "squad2", "all",
        _SQUAD2 | {
            "max_sequence_length": 28, "doc_stride": 5, "max_query_length": 7, "max_answer_length": 3, "n_best": 4,
            "null_threshold": -18.5,
        },
    ),
    Case("choice", "all", _CHOICE | {"max_sequence_length": 16, "choices": 3}),
]  # fmt: skip


def rest_body(case: Case, examples: Sequence[Example]) -> dict[str, Any]:
    """Returns examples as the columns of a request."""
    names = {"squad1": ("question", "context"), "squad2": ("question", "context"), "choice": ("text", "choices")}
    if case.head == "entities":
        return {"text": [" ".join(words) for words in examples]}
    found = columns(examples)
    found = found if isinstance(found, tuple) else (found,)
    return dict(zip(names.get(case.head, ("text", "text_pair")), found, strict=False))


def served_answers(case: Case, outputs: Mapping[str, Any], count: int) -> list[Answer]:
    """Returns the outputs of an exported model, lists or texts by name, as answers."""
    rows = [{name: values[row] for name, values in outputs.items()} for row in range(count)]
    if case.head == "entities":
        return [Answer([tag for tag in row["tags"] if tag]) for row in rows]
    if case.head in ("text", "pair"):
        return [Answer(row["label"], tuple(row["probabilities"])) for row in rows]
    return [answer_of(row) for row in rows]


def pretrained_preset(folder: Path, positions: int, task: Mapping[str, Any] | None = None) -> Path:
    """Writes the preset of a pre-trained model."""
    keras.utils.set_random_seed(4)
    bert_tf.save_preset(bert_tf.BertPretrainer(backbone(positions)), folder, VOCABULARY, True, task, INFO)
    return folder


def masks_of(masks: Sequence[Sequence[tuple[str, float]]]) -> Answer:
    """Returns the candidates for the masks of a text as an answer."""
    tokens = [[token for token, _ in mask] for mask in masks]
    return Answer(tokens, tuple(score for mask in masks for _, score in mask))

"""Tasks for converted heads: matching heads, labels and errors."""

from __future__ import annotations

import pytest

from bert_tf.config import BertConfig
from bert_tf.tasks.base import Task
from bert_tf.tasks.classify.base import class_names
from bert_tf.tasks.classify.task import ClassifyTask, RegressionTask
from bert_tf.tasks.glue.tasks import MnliTask, Sst2Task, StsbTask
from bert_tf.tasks.ner.task import NerTask
from bert_tf.tasks.registry import task_json_for_head, task_of
from bert_tf.tasks.squad.task import Squad2Task

CONFIG = BertConfig.from_size("tiny", max_sequence_length=256)
TEXTS = {"task": "sequence_classification", "text_columns": 1}
TAGS = ["B-PER", "I-PER", "O"]
MNLI = ("contradiction", "entailment", "neutral")


@pytest.mark.parametrize(
    ("task", "head", "labels", "expected"),
    [
        (Sst2Task(), TEXTS | {"labels": ["LABEL_0", "LABEL_1"]}, (), {"labels": ("0", "1")}),
        (Sst2Task(), TEXTS | {"labels": ["POSITIVE", "NEGATIVE"]}, ("1", "0"), {"labels": ("1", "0")}),
        (
            MnliTask(),
            TEXTS | {"labels": ["ENTAILMENT", "NEUTRAL", "CONTRADICTION"]},
            (),
            {"labels": ("entailment", "neutral", "contradiction")},
        ),
        (ClassifyTask(("title", "body")), TEXTS | {"labels": ["ham", "spam"]}, (), {"labels": ("ham", "spam")}),
        (StsbTask(), TEXTS | {"labels": ["LABEL_0"]}, (), {}),
        (RegressionTask(), TEXTS | {"labels": ["LABEL_0"]}, (), {"mean": 0.0, "deviation": 1.0}),
        (NerTask(), {"task": "token_classification", "labels": TAGS}, (), {"labels": tuple(TAGS), "scheme": "IOB2"}),
        (Squad2Task(), {"task": "question_answering"}, (), {"null_threshold": 0.0}),
    ],
)
def test_head_is_converted_to_its_task(task: Task, head: dict, labels: tuple[str, ...], expected: dict) -> None:
    description = task_json_for_head(task, head, CONFIG, labels)
    assert expected.items() <= description.items()
    found, length = task_of(description)
    assert type(found) is type(task)
    assert length == min(task.max_sequence_length, 256)


@pytest.mark.parametrize(
    ("stated", "names", "expected"),
    [
        (("0", "1"), ("LABEL_1", "LABEL_0"), ("1", "0")),
        (("entailment", "not_entailment"), ("Not-Entailment", "Entailment"), ("not_entailment", "entailment")),
        ((), ("x", "LABEL_1"), ("x", "LABEL_1")),
    ],
)
def test_names_of_classes(stated: tuple[str, ...], names: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert class_names(stated, names) == expected


@pytest.mark.parametrize(
    "names", [("LABEL_0", "LABEL_1", "LABEL_2"), ("entailment", "neutral"), ("entailment", "entailment", "neutral")]
)
def test_names_of_other_classes_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=rf"contradiction, entailment, neutral, in the order .*{', '.join(names)}"):
        class_names(MNLI, names)

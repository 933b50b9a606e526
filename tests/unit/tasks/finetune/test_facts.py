"""The example of a run has the inputs of the exported model, and its data has a name."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bert_tf.encoding.choices import ChoiceExample
from bert_tf.encoding.spans import SquadExample
from bert_tf.encoding.texts import TextExample
from bert_tf.encoding.words import Sentence
from bert_tf.tasks.entry import TaskFiles
from bert_tf.tasks.finetune.facts import data_facts, sample_inputs
from bert_tf.tasks.registry import task_class

WORDS = ("Ada", "lives", "here", ".")
CASES = [
    ("classify", TextExample("f", ("a b",)), {"text": "a b"}),
    ("mrpc", TextExample("f", ("a", "b")), {"text": "a", "text_pair": "b"}),
    ("squad1", SquadExample("f", "1", "who?", "Ada."), {"question": "who?", "context": "Ada."}),
    ("ner", Sentence(Path("f"), 1, WORDS, (), WORDS, " "), {"text": "Ada lives here ."}),
    ("swag", ChoiceExample("f", 0, "c", "s", ("x", "y")), {"text": "c", "choices": ["s x", "s y"]}),
]


@pytest.mark.parametrize(("name", "example", "inputs"), CASES, ids=[name for name, *_ in CASES])
def test_an_example_has_the_inputs_of_the_exported_model(name: str, example: Any, inputs: dict[str, Any]) -> None:
    assert sample_inputs(task_class(name)(), [example]) == inputs


@pytest.mark.parametrize(
    ("lengths", "chosen"),
    [((900, 5, 7), 5), ((900, 700, 800), 700), ((600, 1), 600)],
    ids=["fits", "shortest", "first"],
)
def test_the_first_example_of_readable_length_is_chosen(lengths: tuple[int, ...], chosen: int) -> None:
    examples = [TextExample("f", ("x" * length,)) for length in lengths]
    assert sample_inputs(task_class("classify")(), examples) == {"text": "x" * chosen}


def test_the_data_has_the_name_of_its_files_and_the_languages_of_the_encoder() -> None:
    source: Any = SimpleNamespace(info={"languages": ["de"]})
    files = TaskFiles("a/train.tsv", "a/dev.tsv", more_train=("b/train.tsv",))
    assert data_facts(files, [1, 2, 3], source) == {
        "data_name": "a/train.tsv and 1 more",
        "train_examples": 3,
        "languages": ["de"],
    }

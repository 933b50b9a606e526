"""Fields of configurations are described by their docstrings."""

from __future__ import annotations

from bert_tf.config import RunConfig, TrainingConfig
from bert_tf.config.describe import describe_fields, descriptions


def test_descriptions_come_from_the_args_section() -> None:
    docstring = (
        "Title.\n\nArgs:\n    a, b: two\n        lines: of text.\n    c (int, optional): one.\n\nRaises:\n    E: d.\n"
    )
    assert descriptions(docstring) == {"a": "two lines: of text.", "b": "two lines: of text.", "c": "one."}


def test_values_of_an_instance_replace_the_defaults() -> None:
    of_class, of_instance = (
        {field.name: field.default for field in describe_fields(config)}
        for config in (TrainingConfig, TrainingConfig(steps=7, padding="pack"))
    )
    assert (of_class["steps"], of_instance["steps"], of_instance["padding"]) == ("1000", "7", "'pack'")
    assert {field.name: field.default for field in describe_fields(RunConfig)}["model"] == "BertConfig"

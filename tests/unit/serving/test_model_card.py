"""Clients read the facts of a model card, but no directories; a card may lack anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bert_tf.serving.models.model_card import public_facts, read_card


def test_facts_are_selected() -> None:
    card = {
        "source_preset": "/home/ada/runs/mine",
        "kind": "BertTextClassifier",
        "tag_scheme": None,
        "info": {"step": 8, "metrics": {"accuracy": 0.5}, "example": {"text": "a"}, "data": "0123"},
        "signatures": {},
    }
    assert public_facts(card) == {
        "kind": "BertTextClassifier",
        "training": {"step": 8, "example": {"text": "a"}},
        "metrics": {"accuracy": 0.5},
    }


def test_metrics_of_the_export_replace_those_of_the_training_run() -> None:
    evaluation = {"data": "/home/ada/dev.tsv", "examples": 9, "exported": {"metrics": {"f1": 0.75}}}
    facts = public_facts({"info": {"metrics": {"f1": 0.5}}, "evaluation": evaluation})
    assert facts == {"metrics": {"f1": 0.75}, "evaluated": {"data_name": "dev.tsv", "examples": 9}}


def test_pretraining_has_metrics_too() -> None:
    assert public_facts({"info": {"mlm_accuracy": 0.5, "loss": 2.0}})["metrics"] == {"mlm_accuracy": 0.5}


@pytest.mark.parametrize("card", [{}, {"info": None}, {"info": 3, "evaluation": []}, {"evaluation": {"exported": 1}}])
def test_unknown_facts_are_left_out(card: dict[str, Any]) -> None:
    assert "metrics" not in public_facts(card) and "training" not in public_facts(card)


@pytest.mark.parametrize("content", [None, "", "{", "[1]", "\xff", "[" * 100_000, '{"a": ' * 1000 + "1" + "}" * 1000])
def test_a_version_without_a_readable_card_has_none(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "assets.extra").mkdir()
        (tmp_path / "assets.extra/model_card.json").write_text(content, encoding="latin-1")
    assert read_card(tmp_path) == {}

"""Tiny random presets for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import keras

from bert_tf.config import BertConfig
from bert_tf.models import (
    BertBackbone,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanPredictor,
    BertTextClassifier,
    BertTokenClassifier,
    save_preset,
)
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "dog", "ran", "to", "big", "red", "house")
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS, "##s", "##ed", "[", "]", "mask", ".", ",", "e"))
LABELS = ["animal", "mineral", "légume"]
MAX_LENGTH = 24
KINDS = (
    "classifier", "pair_classifier", "pretrainer", "backbone", "regression", "spans", "entities", "choices", "modern",
)  # fmt: skip
TAGS = ["O", "B-animal", "I-animal"]
TASKS = {
    "classifier": {"task": "classify", "labels": LABELS, "text_columns": 1},
    "pair_classifier": {"task": "classify", "labels": LABELS, "text_columns": 2},
    "regression": {"task": "regression", "text_columns": 1, "windows": True},
    "spans": {"task": "squad2", "doc_stride": 6, "max_query_length": 8, "max_answer_length": 5, "n_best": 4},
    "entities": {"task": "ner", "labels": TAGS},
    "choices": {"task": "swag", "choices": 3},
    # A classifier on the body `modern`, whose second layer sees a window.
    "modern": {"task": "classify", "labels": LABELS, "text_columns": 1},
}


def make_model(kind: str, config: BertConfig) -> keras.Model:
    """Returns a model of one of `KINDS`."""
    backbone = BertBackbone(config)
    models = {
        "backbone": lambda: backbone,
        "pretrainer": lambda: BertPretrainer(backbone),
        "regression": lambda: BertTextClassifier(backbone, 1),
        "spans": lambda: BertSpanPredictor(backbone),
        "entities": lambda: BertTokenClassifier(backbone, len(TAGS)),
        "choices": lambda: BertMultipleChoice(backbone),
    }
    return models.get(kind, lambda: BertTextClassifier(backbone, len(LABELS)))()


def make_preset(kind: str, directory: Path) -> Path:
    """Writes a preset of one of `KINDS`, with weights large enough for different outputs."""
    keras.utils.set_random_seed(KINDS.index(kind))
    config = BertConfig(
        vocabulary_size=len(VOCABULARY),
        hidden_dim=16,
        num_layers=2,
        num_heads=2,
        intermediate_dim=32,
        max_sequence_length=MAX_LENGTH,
        initializer_range=0.5,
    )
    if kind == "modern":
        config = config.with_changes(body="modern", local_attention=6, num_segments=0, pooler=False)
    save_preset(make_model(kind, config), directory, VOCABULARY, True, TASKS.get(kind), {"steps": 7})
    return directory

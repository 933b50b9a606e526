"""Tiny random presets for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import keras

from bert_tf.config import BertConfig
from bert_tf.models import BertBackbone, BertPretrainer, BertTextClassifier, save_preset
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "dog", "ran", "to", "big", "red", "house")
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS, "##s", "##ed", "[", "]", "mask", ".", ",", "e"))
LABELS = ["animal", "mineral", "légume"]
MAX_LENGTH = 24
KINDS = ("classifier", "pair_classifier", "pretrainer", "backbone")


def make_preset(kind: str, directory: Path) -> Path:
    """Writes a preset of one of `KINDS`, its weights large enough for answers to differ."""
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
    backbone = BertBackbone(config)
    task = None
    model: keras.Model = backbone
    if kind == "pretrainer":
        model = BertPretrainer(backbone)
    elif kind != "backbone":
        model = BertTextClassifier(backbone, len(LABELS))
        task = {"task": "classify", "labels": LABELS, "text_columns": 2 if kind == "pair_classifier" else 1}
    save_preset(model, directory, VOCABULARY, True, task, {"steps": 7})
    return directory

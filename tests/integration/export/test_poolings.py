"""Classifiers with pooling over all tokens have the same outputs when exported; unsupported ones are rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_tf.config import BertConfig
from bert_tf.conversion import ConversionError, Options
from bert_tf.conversion.formats import preset
from bert_tf.encoding.texts import TextExample
from bert_tf.export.inference import Predictor
from bert_tf.models import BertBackbone, BertTextClassifier, save_preset
from bert_tf.tasks.predictor import TaskPredictor
from tests.support.export.presets import LABELS, VOCABULARY

CONFIG = BertConfig(
    vocabulary_size=len(VOCABULARY),
    hidden_dim=16,
    num_layers=1,
    num_heads=2,
    intermediate_dim=32,
    max_sequence_length=24,
    initializer_range=0.5,
    pooler=False,
)


def saved_preset(directory: Path, pooling: str = "mean", classes: int = len(LABELS), **task: Any) -> Path:
    keras.utils.set_random_seed(0)
    model = BertTextClassifier(BertBackbone(CONFIG), classes, pooling=pooling)
    save_preset(model, directory, VOCABULARY, True, {"task": "classify", "text_columns": 1, "pooling": pooling} | task)
    return directory


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_signature_outputs_equal_those_of_the_task(pooling: str, tmp_path: Path) -> None:
    directory = saved_preset(tmp_path / "preset", pooling, labels=LABELS)
    texts = ["the cat sat", "a big red house and a dog ran to the mat .", "on"]
    answers = TaskPredictor(directory).predict_examples([TextExample("f", (text,)) for text in texts])
    for served, answer in zip(Predictor(directory)(texts), answers, strict=True):
        assert served["label"] == answer.label
        np.testing.assert_allclose(list(served["probabilities"].values()), answer.probabilities, rtol=1e-4)


def test_mean_pooling_cannot_be_converted_to_other_formats(tmp_path: Path) -> None:
    directory = saved_preset(tmp_path / "preset", labels=LABELS)
    with pytest.raises(ConversionError, match="no other format supports a classifier with `pooling` = 'mean'"):
        preset.read(directory, Options())

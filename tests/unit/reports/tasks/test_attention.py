"""The page of attention weights, from a preset through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_tf.config import BertConfig
from bert_tf.models import BertBackbone, BertTextClassifier, save_preset
from bert_tf.reports.tasks.attention import AttentionView, attention_page, attention_view, quantized
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.support.reports.page_reader import Page

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdefgh", "##b", "<", "/", "script", ">"))


@pytest.fixture(scope="module")
def preset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    keras.utils.set_random_seed(0)
    config = BertConfig(
        vocabulary_size=len(VOCABULARY), hidden_dim=8, num_layers=3, num_heads=2, intermediate_dim=16,
        max_sequence_length=12, initializer_range=0.5,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("attention") / "tiny"
    save_preset(BertTextClassifier(BertBackbone(config), 2), folder, VOCABULARY, True)
    return folder


def data_of(page: Page) -> dict:
    (text,) = [text for attributes, text in page.all("script") if attributes.get("id") == "data"]
    return json.loads(text)


def test_quantized_weights_are_close_to_the_original() -> None:
    shares = np.linspace(0, 1, 5001)
    np.testing.assert_allclose((quantized(shares) / 255) ** 2, shares, atol=0.004)
    assert quantized(np.array([-1e-9, 0.0, 1.0, 1 + 1e-6])).tolist() == [0, 0, 255, 255]


@pytest.mark.parametrize(
    ("length", "texts", "message"),
    [
        (13, ["a"], "12 positions. Received: 13"),
        (2, ["a"], "at least 3 for 1 segment"),
        (None, ["a"] * 3, "Received: 3"),
    ],
)
def test_refusals(preset: Path, length: int | None, texts: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        attention_view(preset, texts, length)


def test_page_of_base_is_small() -> None:
    weights = np.full((12, 12, 64, 64), 1 / 64, np.float32)
    page = attention_page(AttentionView(("[CLS]", *["\u2028\x00<"] * 63), (0,) * 64, weights, 0), "base")
    assert len(page.encode()) < 2_000_000
    assert data_of(Page(page))["tokens"][1] == "\u2028␀<"

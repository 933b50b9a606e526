"""The page of attention weights, from a preset through the command line."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_tf.cli import main
from bert_tf.config import BertConfig
from bert_tf.models import BertBackbone, BertTextClassifier, save_preset
from bert_tf.reports.tasks.attention import attention_view
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


def test_the_command_writes_the_weights_of_the_model(preset: Path, tmp_path: Path, capsys) -> None:
    output = tmp_path / "page.html"
    text = "ab c </script> d"
    argv = ["attention", "--preset", preset, "--text", text, "--text_pair", "e f", "--output", output]
    assert main([str(part) for part in argv]) == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out.splitlines()[-1])
    assert (summary["layers"], summary["heads"], summary["tokens"]) == (3, 2, 12)
    assert summary["output"] == str(output) and summary["bytes"] == output.stat().st_size
    view = attention_view(preset, [text, "e f"])
    np.testing.assert_allclose(view.weights.sum(axis=-1), 1, atol=1e-5)
    page = Page(output.read_text())
    page.refuse_foreign()
    data = data_of(page)
    assert (
        tuple(data["tokens"])
        == view.tokens
        == ("[CLS]", "a", "##b", "c", "<", "/", "script", ">", "[SEP]", "e", "f", "[SEP]")
    )
    assert data["segments"] == [0] * 9 + [1] * 3 and data["special"] == [
        token in SPECIAL_TOKENS for token in view.tokens
    ]
    bytes_ = np.frombuffer(base64.b64decode(data["weights"]), np.uint8).reshape(view.weights.shape)
    np.testing.assert_allclose((bytes_ / 255) ** 2, view.weights, atol=0.004)
    assert view.left_out == 1 and "1 tokens were truncated" in captured.err
    assert page.texts("div", "warn") == ["Truncated: 1 token left out"]

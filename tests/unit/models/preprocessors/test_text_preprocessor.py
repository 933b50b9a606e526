from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import ConfigError
from bert_tf.models.preprocessors import base
from bert_tf.models.preprocessors.choices import BertChoicePreprocessor
from bert_tf.models.preprocessors.text import BertTextPreprocessor
from bert_tf.text.packing import pack
from bert_tf.text.tokenizer import BertTokenizer
from tests.support.preprocessing.text_presets import VOCABULARY

FIRST, SECOND = ["good films .", "a dull story was the film", ""], ["the film is great", "fine", "bad"]
TOKENIZER = BertTokenizer(VOCABULARY)


def arrays(inputs: Any) -> dict[str, list]:
    return {name: np.asarray(values).tolist() for name, values in inputs.items()}


def test_rows_equal_those_of_tokenizer_and_packing() -> None:
    preprocessor = BertTextPreprocessor(TOKENIZER, 8)
    assert arrays(preprocessor(FIRST)) == arrays(pack([TOKENIZER(FIRST)], VOCABULARY, 8))
    pair = arrays(pack([TOKENIZER(FIRST), TOKENIZER(SECOND)], VOCABULARY, 8))
    assert arrays(preprocessor((FIRST, SECOND))) == pair
    assert np.shape(arrays(BertTextPreprocessor(TOKENIZER, 20, padding="fixed")(FIRST))["token_ids"]) == (3, 20)


def test_columns_may_be_of_any_type() -> None:
    preprocessor = BertTextPreprocessor(TOKENIZER, 8)
    expected = arrays(pack([TOKENIZER(FIRST), TOKENIZER(SECOND)], VOCABULARY, 8))
    for x in (
        (np.array(FIRST), np.array(SECOND, object)),
        {"premise": FIRST, "hypothesis": np.array(SECOND)},
        list(zip(FIRST, SECOND, strict=True)),
        (tf.constant(FIRST), tf.constant(SECOND)),
        ([text.encode() for text in FIRST], SECOND),
    ):
        assert arrays(preprocessor(x)) == expected
    assert preprocessor.num_texts == 2


@pytest.mark.parametrize(
    ("truncation", "expected"),
    [
        ("longest_first", "[CLS] a dull story [SEP] the film is [SEP]"),
        ("only_first", "[CLS] a dull [SEP] the film is great [SEP]"),
        ("only_second", "[CLS] a dull story was the film [SEP] [SEP]"),
    ],
)
def test_truncation(truncation: str, expected: str) -> None:
    preprocessor = BertTextPreprocessor(TOKENIZER, 9, truncation)
    inputs = preprocessor((["a dull story was the film"], ["the film is great"]))
    assert TOKENIZER.detokenize(np.asarray(inputs["token_ids"])[0]) == expected


def test_only_the_second_text_is_truncated() -> None:
    inputs = BertTextPreprocessor(TOKENIZER, 6, "only_second")((["a dull story was"], ["good"]))
    assert TOKENIZER.detokenize(np.asarray(inputs["token_ids"])[0]) == "[CLS] a dull story [SEP] [SEP]"


def test_in_tf_data_with_labels_and_weights() -> None:
    preprocessor = BertTextPreprocessor(TOKENIZER, 12, padding="fixed", labels=("neg", "pos"))
    columns = ((FIRST, SECOND), ["pos", "neg", "pos"], [1.0, 2.0, 3.0])
    dataset = tf.data.Dataset.from_tensor_slices(columns)
    x, y, weights = next(iter(dataset.batch(3).map(preprocessor)))
    assert arrays(x) == arrays(preprocessor((FIRST, SECOND)))
    assert y.numpy().tolist() == [1, 0, 1] and weights.numpy().tolist() == [1.0, 2.0, 3.0]
    single = next(iter(tf.data.Dataset.from_tensor_slices(FIRST).map(preprocessor)))
    assert single["token_ids"].numpy().tolist() == arrays(preprocessor(FIRST[:1]))["token_ids"][0]
    unknown = tf.data.Dataset.from_tensor_slices((FIRST, ["good"] * 3)).batch(3).map(preprocessor)
    with pytest.raises(tf.errors.InvalidArgumentError, match="unknown label"):
        next(iter(unknown))


def test_configurations_are_complete() -> None:
    preprocessor = BertTextPreprocessor(TOKENIZER, 9, "only_first", "fixed", ("neg", "pos"))
    preprocessor((FIRST, SECOND))
    again = BertTextPreprocessor.from_config(preprocessor.get_config())
    assert again.get_config() == preprocessor.get_config() and again.num_texts == 2
    assert arrays(again((FIRST, SECOND))) == arrays(preprocessor((FIRST, SECOND)))


def test_encoded_rows_have_no_padding() -> None:
    preprocessor = BertTextPreprocessor(TOKENIZER, 8)
    rows = preprocessor.encode((FIRST, SECOND), [0, 1, 0])
    assert arrays(rows.inputs(np.arange(3), 8)) == arrays(pack([TOKENIZER(FIRST), TOKENIZER(SECOND)], VOCABULARY, 8))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (["good", None], "strings. Received: None in row 1"),
        (["good", float("nan")], "strings. Received: nan in row 1"),
        ((["a"], ["b"], ["c"]), r"1 or 2 column\(s\). Received: 3"),
    ],
)
def test_other_inputs_are_refused(x: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BertTextPreprocessor(TOKENIZER)(x)


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"same length. Received: \[3, 1\]"):
        BertTextPreprocessor(TOKENIZER).encode((FIRST, ["a"]))
    with pytest.raises(ConfigError, match=r"`y` must have one entry for each of 3 texts. Received: shape \(2,\)"):
        BertTextPreprocessor(TOKENIZER).encode(FIRST, [1, 0])


def test_truncated_texts_are_counted_once(caplog: pytest.LogCaptureFixture) -> None:
    preprocessor = BertTextPreprocessor(TOKENIZER, 6)
    preprocessor.encode(["good films ."])
    assert not caplog.records
    preprocessor.encode(FIRST)
    preprocessor.encode(FIRST)
    assert [record.getMessage()[:21] for record in caplog.records] == ["1 of 3 texts (33.3%) "]
    caplog.clear()
    BertTextPreprocessor(TOKENIZER, 12).encode((FIRST, SECOND))
    BertTextPreprocessor(TOKENIZER, 13).encode((FIRST, SECOND))
    assert not caplog.records
    BertTextPreprocessor(TOKENIZER, 9).encode((FIRST, SECOND))
    assert "2 of 3" in caplog.text


@pytest.mark.parametrize(
    "arguments", [{"truncation": "random"}, {"padding": "none"}, {"sequence_length": 2}], ids=lambda a: next(iter(a))
)
def test_unknown_settings_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"`{next(iter(arguments))}` must be.*Received"):
        BertTextPreprocessor(TOKENIZER, **arguments)


def test_choices_are_encoded_as_pairs() -> None:
    preprocessor = BertChoicePreprocessor(TOKENIZER, 8)
    choices = [["good", "bad", "fine"], ["a film", "a", "dull"], ["is", "was", "the"]]
    inputs = preprocessor((FIRST, choices))
    flat = BertTextPreprocessor(TOKENIZER, 8)(
        ([text for text in FIRST for _ in range(3)], [choice for row in choices for choice in row])
    )
    assert np.array(arrays(inputs)["token_ids"]).reshape(9, -1).tolist() == arrays(flat)["token_ids"]
    dataset = tf.data.Dataset.from_tensor_slices((FIRST, choices)).batch(3)
    assert arrays(next(iter(dataset.map(lambda *x: preprocessor(x))))) == arrays(inputs)
    with pytest.raises(ConfigError, match="same number of choices. Received: 2 texts and 2 lists of 1, 2 choices"):
        preprocessor((FIRST[:2], [["a"], ["a", "b"]]))


def test_a_tokenizer_is_callable() -> None:
    assert TOKENIZER(FIRST).to_list() == TOKENIZER.ids(tf.constant(FIRST)).to_list()
    graph = tf.function(lambda texts: TOKENIZER(texts).row_lengths())
    assert graph(tf.constant(FIRST)).numpy().tolist() == [4, 6, 0]
    with pytest.raises(ValueError, match="not a single string. Received: 'good'"):
        TOKENIZER("good")


def test_configurations_name_the_tokenizer_by_its_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    preprocessor = BertTextPreprocessor(TOKENIZER, 9)
    config = preprocessor.get_config()
    assert "[MASK]" not in json.dumps(config)
    assert BertTextPreprocessor.from_config(config).tokenizer is preprocessor.tokenizer
    # As in another process.
    monkeypatch.setattr(base, "_TOKENIZERS", {})
    with pytest.raises(ConfigError, match="Load a `.keras` file with `keras.saving.load_model`"):
        BertTextPreprocessor.from_config(config)(["the film"])
    assert BertTextPreprocessor.from_config(config).get_config() == config


@pytest.mark.parametrize("tokenizer", [TOKENIZER.get_config(), TOKENIZER], ids=["0.2.0", "now"])
def test_assets_hold_the_vocabulary(tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preprocessor = BertTextPreprocessor(tokenizer, 9)
    preprocessor.save_assets(str(tmp_path))
    config = preprocessor.get_config()
    monkeypatch.setattr(base, "_TOKENIZERS", {})
    other = BertTextPreprocessor.from_config(config)
    other.load_assets(str(tmp_path))
    assert other.tokenizer.vocabulary == VOCABULARY
    assert other.get_config() == config

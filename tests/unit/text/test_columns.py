"""Columns of texts and labels in the forms of Python, NumPy, TensorFlow and pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from bert_tf.config import ConfigError
from bert_tf.models.preprocessors.text import BertTextPreprocessor
from bert_tf.text import columns
from bert_tf.text.tokenizer import BertTokenizer
from tests.support.preprocessing.text_presets import VOCABULARY

FIRST, SECOND = ["good films", "a dull story", ""], ["fine", "bad", "the film"]
ROWS = list(zip(FIRST, SECOND, strict=True))
FRAME = pd.DataFrame({"a": FIRST, "b": SECOND}, index=[7, 3, 3])
DTYPES = ["str", "object", "string", "category"]


@pytest.mark.parametrize(
    "x",
    [
        (FIRST, np.array(SECOND)),
        {"b": SECOND, "label": [0, 1, 0], "a": tf.constant(FIRST)},
        FRAME,
        FRAME.assign(label=0)[["label", "b", "a"]],
        FRAME.rename(columns=str.upper),
        ROWS,
        iter(ROWS),
        np.array(ROWS),
        [{"a": a, "b": b, "label": 0} for a, b in ROWS],
    ],
    ids=["tuple", "dict", "frame", "names", "other names", "rows", "iterator", "matrix", "records"],
)
def test_rows_of_every_form(x: Any) -> None:
    assert columns.rows_of(x, ("a", "b")) == ROWS


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_pandas_column_of_every_dtype(dtype: str) -> None:
    column = FRAME["a"].astype(dtype)
    assert columns.texts_of(column) == FIRST and columns.rows_of(column, ("a",)) == [(text,) for text in FIRST]


def test_a_data_frame_is_encoded_and_split_by_position() -> None:
    preprocessor = BertTextPreprocessor(BertTokenizer(VOCABULARY))
    labels = pd.Series([0, 1, 0], index=FRAME.index)
    rows = preprocessor.encode(FRAME, labels)
    assert rows.fingerprint == preprocessor.encode((FIRST, SECOND), [0, 1, 0]).fingerprint
    part = preprocessor.encode(columns.sliced(FRAME, 1, 3), columns.sliced(labels, 1, 3))
    assert part.fingerprint == preprocessor.encode((FIRST[1:], SECOND[1:]), [1, 0]).fingerprint


@pytest.mark.parametrize("dtype", DTYPES)
def test_missing_texts_and_labels_have_the_number_of_their_row(dtype: str) -> None:
    column = pd.Series(["good", "bad", None], index=[7, 8, 9]).astype(dtype)
    with pytest.raises(ConfigError, match="`a` must hold strings. Received: .* in row 2"):
        columns.rows_of(pd.DataFrame({"a": column, "b": "x"}), ("a", "b"))
    preprocessor = BertTextPreprocessor(BertTokenizer(VOCABULARY), labels=("bad", "good"))
    assert preprocessor.numbers_of(column[:2]).tolist() == [1, 0]
    with pytest.raises(ConfigError, match="`labels` must hold strings. Received: .* in row 2"):
        preprocessor.label_names(column)


@pytest.mark.parametrize(
    "labels",
    [
        ["good", float("nan")],
        [None, "good"],
        pd.Series([1, None]),
        pd.Series([1, None], dtype="Int64"),
        [1.0, float("nan")],
        [1, None],
    ],
    ids=["nan", "first", "float", "Int64", "list", "None"],
)
def test_missing_labels_are_refused(labels: Any) -> None:
    preprocessor = BertTextPreprocessor(BertTokenizer(VOCABULARY), labels=("bad", "good"))
    with pytest.raises(ConfigError, match=f"in row {0 if labels[0] is None else 1}"):
        preprocessor.numbers_of(labels)


def test_numbers_of_pandas() -> None:
    preprocessor = BertTextPreprocessor(BertTokenizer(VOCABULARY))
    assert preprocessor.numbers_of(pd.Series([1, 0], dtype="Int64")).tolist() == [1, 0]
    assert preprocessor.numbers_of(pd.Series([True, False])).tolist() == [True, False]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (FIRST, r"2 column\(s\): a, b. Received: 1"),
        (FRAME[["a"]], r"2 column\(s\): a, b. Received: a"),
        ({"a": FIRST, "b": ["x"]}, r"same length. Received: \[3, 1\]"),
    ],
)
def test_other_inputs_are_refused(x: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        columns.rows_of(x, ("a", "b"))


def test_single_examples() -> None:
    assert columns.is_single("a") and columns.is_single(("a", ["b", "c"])) and columns.is_single({"x": "a", "y": "b"})
    assert not columns.is_single(["a"]) and not columns.is_single((["a"], ["b"])) and not columns.is_single(FRAME)
    assert columns.rows_of(("a", "b"), ("x", "y")) == [("a", "b")]
    assert columns.rows_of(np.array([], object), ("x",)) == columns.rows_of([], ("x", "y")) == []

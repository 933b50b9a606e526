"""Allowed operations of an export."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text

from bert_tf.export import saved_model
from bert_tf.export.saved_model import export_preset
from bert_tf.export.verify.operations import TEXT_OPERATIONS, text_operations
from tests.support.export.presets import KINDS


class Doubler(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def nested(self, x: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(lambda value: np.float32(2) * value, [x], tf.float32), [None])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def doubled(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, self.nested(x)), (0, x))[1]}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "x")])
    def split(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tensorflow_text.WhitespaceTokenizer().tokenize(x).to_tensor()}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def plain(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.nn.softmax(x)}


def saved(folder: Path, **signatures: str) -> Path:
    module = Doubler()
    functions = {name: getattr(module, method) for name, method in signatures.items()}
    tf.saved_model.save(module, str(folder), signatures=functions)
    return folder


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "classifier" else pytest.mark.slow) for kind in KINDS]
)
def test_exports_use_only_operations_of_tf_serving(kind: str, exported: Callable[[str], Path]) -> None:
    found = text_operations(exported(kind))
    assert {"FastWordpieceTokenizeWithOffsets"} <= set(found) <= TEXT_OPERATIONS


def test_tensorflow_operations_need_no_other_library(tmp_path: Path) -> None:
    module = tf.Module()
    module.plain = Doubler().plain
    tf.saved_model.save(module, str(tmp_path), signatures={"plain": module.plain})
    assert text_operations(tmp_path) == []


def test_python_function_in_a_nested_function_is_named_and_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Received: PyFunc \(`PyFunc` of __inference_nested.*signature doubled\)"):
        text_operations(saved(tmp_path, plain="plain", doubled="doubled"))


def test_other_operations_of_tensorflow_text_are_refused(tmp_path: Path) -> None:
    module = tf.Module()
    module.split = Doubler().split
    tf.saved_model.save(module, str(tmp_path), signatures={"words": module.split})
    with pytest.raises(ValueError, match=r"Received: TFText>Whitespace\w+ \(.*reached by signature words\)"):
        text_operations(tmp_path)


def test_an_export_with_another_operation_is_refused(
    presets: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(signatures: Any, staging: Path) -> None:
        saved(staging, doubled="doubled")
        (staging / "assets.extra").mkdir()

    monkeypatch.setattr(saved_model, "_write", written)
    with pytest.raises(ValueError, match=re.escape("Received: PyFunc")):
        export_preset(presets["backbone"], tmp_path)
    assert list(tmp_path.iterdir()) == []

"""Reads the metadata of a SavedModel without loading it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from bert_tf.export.json_values import message_values

SAVED_MODEL_NAME = "saved_model.pb"
MODEL_CARD = Path("assets.extra") / "model_card.json"
# The path that TF Serving requires (tensorflow_serving/g3doc/saved_model_warmup.md).
WARMUP = Path("assets.extra") / "tf_serving_warmup_requests"
CLASSIFY, REGRESS = "classify", "regress"
# TF Serving's Classify and Regress check the method and these names (tensorflow/core/protobuf/meta_graph.proto).
METHODS = {CLASSIFY: "tensorflow/serving/classify", REGRESS: "tensorflow/serving/regress"}
CLASSIFY_INPUTS = "inputs"


def read_meta_graph(folder: str | Path) -> meta_graph_pb2.MetaGraphDef:
    """Returns the graph of a SavedModel, its functions and its signatures. Raises ValueError if it cannot be read."""
    path = Path(folder) / SAVED_MODEL_NAME
    saved_model = saved_model_pb2.SavedModel()
    try:
        saved_model.ParseFromString(path.read_bytes())
    except (OSError, DecodeError) as error:
        raise ValueError(f"{path}: not a readable SavedModel: {error}") from error
    if not saved_model.meta_graphs:
        raise ValueError(f"{path}: not a readable SavedModel: it holds no graph")
    return saved_model.meta_graphs[0]


def signature_defs(folder: str | Path) -> dict[str, dict[str, Any]]:
    """Returns the signatures of a SavedModel in TF Serving's JSON form. Raises ValueError if it cannot be read."""
    return {name: message_values(definition) for name, definition in read_meta_graph(folder).signature_def.items()}


def signature_shapes(folder: str | Path) -> dict[str, dict[str, dict[str, str]]]:
    """Returns dtypes and shapes, for example `int32 [-1, -1]`, by signature, `inputs` or `outputs`, and name."""
    return {
        name: {
            side: {
                key: f"{_dtype(info)} [{', '.join(dim['size'] for dim in info['tensor_shape']['dim'])}]"
                for key, info in sorted(definition[side].items())
            }
            for side in ("inputs", "outputs")
        }
        for name, definition in sorted(signature_defs(folder).items())
        if not name.startswith("__")
    }


def _dtype(info: dict[str, Any]) -> str:
    return str(info["dtype"]).removeprefix("DT_").lower()

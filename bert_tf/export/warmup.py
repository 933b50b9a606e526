"""Warm-up requests, which a server runs before it makes a version available to clients.

They optimize the graph and select kernels for its shapes, so that no client waits for that. TF Serving and
`bert_tf.export.verify.check` read them from the same file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from bert_tf.data.tfrecord.shards import read_shard
from bert_tf.export.metadata import CLASSIFY, CLASSIFY_INPUTS, METHODS, WARMUP

# TF Serving refuses a version that has more (tensorflow_serving/servables/tensorflow/saved_model_warmup_util.h).
MAX_REQUESTS = 1000

_PREDICT_LOG, _CLASSIFY_LOG, _REGRESS_LOG = "predict_log", "classify_log", "regress_log"


def write_warmup(path: Path, model: str, requests: Iterable[tuple[str, dict[str, np.ndarray]]]) -> None:
    """Writes at most `MAX_REQUESTS` warm-up requests in TF Serving's format, one PredictionLog each.

    The requests are names of signatures, and inputs by name; strings as objects of bytes. Inputs of a signature for
    Classify or Regress are serialized tf.Examples. `model` is the name on the server.
    """
    logs = [_log(model, signature, inputs) for signature, inputs in requests]
    if len(logs) > MAX_REQUESTS:
        raise ValueError(f"there must be at most {MAX_REQUESTS} warm-up requests. Received: {len(logs)}")
    with tf.io.TFRecordWriter(str(path)) as writer:
        for log in logs:
            writer.write(log.SerializeToString(deterministic=True))


def read_warmup(folder: Path) -> Iterator[PredictionLog]:
    """Yields a version's warm-up requests, if it has any. Raises ValueError for a damaged file or too many of them."""
    path = folder / WARMUP
    if not path.exists():
        return
    # TensorFlow's reader would end the process at a damaged length.
    for number, record in enumerate(read_shard(path), start=1):
        if number > MAX_REQUESTS:
            raise ValueError(f"{path}: there must be at most {MAX_REQUESTS} warm-up requests")
        try:
            log = PredictionLog.FromString(record)
        except DecodeError as error:
            raise ValueError(f"{path}: request {number} is not a PredictionLog") from error
        yield log


def request_of(log: PredictionLog) -> tuple[str, dict[str, np.ndarray]]:
    """Returns the signature name of a request, and its inputs by name. Raises ValueError for another log."""
    kind = log.WhichOneof("log_type")
    if kind not in (_PREDICT_LOG, _CLASSIFY_LOG, _REGRESS_LOG):
        raise ValueError(f"a warm-up request must be of Predict, Classify or Regress. Received: {kind}")
    request = getattr(log, kind).request
    if kind == _PREDICT_LOG:
        inputs = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
    else:
        rows = [example.SerializeToString() for example in request.input.example_list.examples]
        inputs = {CLASSIFY_INPUTS: np.array(rows, dtype=object)}
    return request.model_spec.signature_name, inputs


def _log(model: str, signature: str, inputs: dict[str, np.ndarray]) -> PredictionLog:
    log = PredictionLog()
    if signature in METHODS:
        request = (log.classify_log if signature == CLASSIFY else log.regress_log).request
        examples = request.input.example_list.examples
        examples.extend(tf.train.Example.FromString(row) for row in inputs[CLASSIFY_INPUTS])
    else:
        request = log.predict_log.request
        for name, value in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    return log

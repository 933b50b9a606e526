"""Warm-up requests of a version."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from bert_tf.data.tfrecord.shards import _masked_crc, write_shard
from bert_tf.export.metadata import WARMUP
from bert_tf.export.verify import check as verify
from bert_tf.export.warmup import read_warmup, request_of, write_warmup


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / WARMUP).parent.mkdir()
    return tmp_path


def test_request_round_trip(folder: Path) -> None:
    example = tf.train.Example()
    example.features.feature["text"].bytes_list.value.append(b"a")
    serialized = np.array([example.SerializeToString()], object)
    requests: list[tuple[str, dict[str, np.ndarray]]] = [
        ("ids", {"token_ids": np.array([[1, 2]], np.int32), "padding_mask": np.ones((1, 2), np.int32)}),
        ("serving_default", {"text": np.array([b"a", "é".encode()], object)}),
        ("classify", {"inputs": serialized}),
        ("regress", {"inputs": serialized}),
    ]
    write_warmup(folder / WARMUP, "name", requests)
    logs = list(read_warmup(folder))
    kinds = ["predict_log", "predict_log", "classify_log", "regress_log"]
    assert [log.WhichOneof("log_type") for log in logs] == kinds
    for log, kind, (signature, inputs) in zip(logs, kinds, requests, strict=True):
        assert getattr(log, kind).request.model_spec.name == "name"
        found, arrays = request_of(log)
        assert found == signature
        assert {name: (value.tolist(), value.dtype) for name, value in arrays.items()} == {
            name: (value.tolist(), value.dtype) for name, value in inputs.items()
        }


def test_more_requests_than_tf_serving_accepts_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="at most 1000 warm-up requests. Received: 1001"):
        write_warmup(folder / WARMUP, "name", [("x", {"text": np.array([b""], object)})] * 1001)
    assert not (folder / WARMUP).exists()


def test_other_request_types_are_refused_and_warmup_may_be_missing(folder: Path) -> None:
    log = PredictionLog()
    log.multi_inference_log.request.tasks.add()
    with pytest.raises(ValueError, match="Predict, Classify or Regress. Received: multi_inference_log"):
        request_of(log)
    assert list(read_warmup(folder)) == []


def test_a_record_of_a_huge_length_is_refused(folder: Path) -> None:
    # TensorFlow's reader ends the process here.
    header = struct.pack("<Q", 2**50)
    (folder / WARMUP).write_bytes(header + struct.pack("<I", _masked_crc(header)) + b"x")
    with pytest.raises(ValueError, match=f"record 0 at byte 0: a record must have at most .* Received: {2**50}"):
        list(read_warmup(folder))


def test_damaged_requests_are_refused(folder: Path) -> None:
    write_shard(folder / WARMUP, [b"\xff\xff"])
    with pytest.raises(ValueError, match="request 1 is not a PredictionLog"):
        list(read_warmup(folder))
    write_shard(folder / WARMUP, [b""] * 1001)
    with pytest.raises(ValueError, match="at most 1000 warm-up requests"):
        list(read_warmup(folder))


def test_versions_without_warmup_do_not_need_tensorflow_serving_api(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "bert_tf.export.warmup", None)
    assert verify._run_warmup({}, folder) == (0, [])
    write_warmup(folder / WARMUP, "name", [])
    with pytest.raises(ImportError, match=r"bert_tf\.export\.warmup"):
        verify._run_warmup({}, folder)

"""Warm-up requests of a version."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from bert_tf.export import saved_model
from bert_tf.export.kinds.base import SHORTEST_SEQUENCE, Signatures
from bert_tf.export.metadata import WARMUP
from bert_tf.export.saved_model import export_preset
from bert_tf.export.signatures import signatures_of
from bert_tf.export.verify import check as verify
from bert_tf.export.verify.sample_requests import warmup_sample
from bert_tf.export.warmup import read_warmup, request_of, write_warmup
from bert_tf.models import load_preset


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / WARMUP).parent.mkdir()
    return tmp_path


@pytest.mark.parametrize("kind", ["classifier", "pair_classifier", "pretrainer", "choices"])
def test_the_sample_has_one_row_of_the_fewest_tokens(kind: str, presets: dict[str, Path]) -> None:
    signatures = signatures_of(load_preset(presets[kind]))
    sample = warmup_sample(signatures)
    assert sample["token_ids"].shape == (1, SHORTEST_SEQUENCE)
    names = [str(spec.name) for spec in signatures.text_inputs]
    assert {len(sample[name]) for name in (*names, "examples", "inputs")} == {1}
    columns = [sample[name].reshape(1, -1)[:, 0] for name in names]
    encoded = signatures.encode(*map(tf.constant, columns), keep_mask_token=True)["token_ids"]
    # The remaining positions are empty.
    assert SHORTEST_SEQUENCE - 2 <= encoded.shape[1] <= SHORTEST_SEQUENCE
    assert (kind == "pretrainer") == (b"[MASK]" in sample[names[0]].reshape(-1)[0])


def test_requests_come_back_as_they_were(folder: Path) -> None:
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


def test_more_than_tf_serving_takes_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="at most 1000 warm-up requests. Received: 1001"):
        write_warmup(folder / WARMUP, "name", [("x", {"text": np.array([b""], object)})] * 1001)
    assert not (folder / WARMUP).exists()


def test_logs_of_other_requests_are_refused_and_a_version_may_have_none(folder: Path) -> None:
    log = PredictionLog()
    log.multi_inference_log.request.tasks.add()
    with pytest.raises(ValueError, match="Predict, Classify or Regress. Received: multi_inference_log"):
        request_of(log)
    assert list(read_warmup(folder)) == []


def test_versions_without_requests_need_no_package_for_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bert_tf.export.warmup", None)
    assert verify._run_warmup({}, folder) == (0, [])
    write_warmup(folder / WARMUP, "name", [])
    with pytest.raises(ImportError, match=r"bert_tf\.export\.warmup"):
        verify._run_warmup({}, folder)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: None, r"warm-up request \d, signature `ids`: InvalidArgumentError: .*token_ids must lie in"),
        (lambda path: path.write_bytes(path.read_bytes()[:-3]), "requests: unreadable after [1-9]"),
    ],
    ids=["a request that fails", "half a file"],
)
def test_a_version_that_fails_a_request_is_not_exported(
    spoil: Any,
    message: str,
    presets: dict[str, Path],
    tmp_path: Path,
    quick_verification: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def spoiled_sample(signatures: Signatures) -> dict[str, np.ndarray]:
        sample = warmup_sample(signatures)
        return sample | {"token_ids": sample["token_ids"] - (0 if "unreadable" in message else 1000)}

    def spoiled(path: Path, model: str, requests: Any) -> None:
        write_warmup(path, model, requests)
        spoil(path)

    monkeypatch.setattr(saved_model, "warmup_sample", spoiled_sample)
    monkeypatch.setattr(saved_model, "write_warmup", spoiled)
    with pytest.raises(RuntimeError, match=message):
        export_preset(presets["backbone"], tmp_path / "m")
    assert list((tmp_path / "m").iterdir()) == []

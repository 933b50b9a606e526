"""Loaded versions: running, batching, rejecting requests and closing."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.export.graphs import outside_operations
from bert_tf.export.metadata import MODEL_CARD
from bert_tf.serving.errors import ServingError
from bert_tf.serving.models import loaded_version
from bert_tf.serving.models.batching import ONE_BY_ONE, BatchingOptions
from bert_tf.serving.models.loaded_version import LoadedVersion
from tests.support.export.presets import LABELS


def texts(*values: bytes) -> dict[str, np.ndarray]:
    return {"text": np.array(values, object)}


@pytest.fixture(scope="module")
def plain(exported: Callable[[str], Path]) -> LoadedVersion:
    return LoadedVersion(exported("classifier"), ONE_BY_ONE)


def test_concurrent_requests_get_their_own_answers(plain: LoadedVersion, exported: Callable[[str], Path]) -> None:
    words = [b"the", b"cat", b"sat", b"on", b"a", b"mat", b"dog", b"ran"]
    asked = [texts(*(b" ".join(words[: n % 8 + 1]) for n in range(m, m + m % 3 + 1))) for m in range(24)]
    runs: list[int] = []
    options = BatchingOptions(batch_timeout_micros=20000, num_batch_threads=1)
    batched = LoadedVersion(exported("classifier"), options, runs.append)
    answers: dict[int, dict[str, np.ndarray]] = {}

    def ask(number: int) -> None:
        answers[number] = batched.answer("serving_default", asked[number], 60)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(asked))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    batched.close()
    for number, request in enumerate(asked):
        alone = plain.answer("serving_default", request)
        assert answers[number]["label"].tolist() == alone["label"].tolist()
        np.testing.assert_allclose(answers[number]["probabilities"], alone["probabilities"], atol=1e-6)
    assert sum(runs) == sum(len(request["text"]) for request in asked)
    assert len(runs) < len(asked)


def test_requests_that_cannot_be_batched_are_refused_by_the_graph(exported: Callable[[str], Path]) -> None:
    version = LoadedVersion(exported("pair_classifier"), BatchingOptions(batch_timeout_micros=0))
    uneven = {"text": np.array([b"a", b"b"], object), "text_pair": np.array([b"a"], object)}
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have the same number of elements"):
        version.answer("serving_default", uneven)
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        version.answer("serving_default", {"text": np.array(b"a", object), "text_pair": np.array(b"a", object)})
    version.close()


@pytest.mark.smoke
def test_labels_row_limit_and_warm_up(plain: LoadedVersion) -> None:
    assert plain.labels == LABELS
    with pytest.raises(ServingError, match="at most 128 rows. Received: 129"):
        plain.answer("serving_default", texts(*[b"a"] * 129))
    assert plain.warm_up([("serving_default", texts(b"a")), ("serving_default", texts())]) == 2


@pytest.mark.parametrize("content", [None, b"nonsense"])
def test_invalid_saved_model_is_refused(content: bytes | None, tmp_path: Path) -> None:
    folder = tmp_path / "1"
    folder.mkdir()
    if content is not None:
        (folder / "saved_model.pb").write_bytes(content)
    with pytest.raises(ValueError, match=r"saved_model.pb: not a readable SavedModel"):
        LoadedVersion(folder, ONE_BY_ONE)


def test_a_saved_model_without_its_weights_is_refused(exported: Callable[[str], Path], tmp_path: Path) -> None:
    folder = tmp_path / "1"
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes((exported("classifier") / "saved_model.pb").read_bytes())
    with pytest.raises(ValueError, match="not a readable SavedModel"):
        LoadedVersion(folder, ONE_BY_ONE)


def test_a_version_that_reads_files_needs_trust(tmp_path: Path) -> None:
    module = tf.Module()
    read = tf.function(lambda text: {"text": tf.map_fn(tf.io.read_file, text)})
    signature = read.get_concrete_function(text=tf.TensorSpec([None], tf.string))
    tf.saved_model.save(module, str(tmp_path / "1"), signatures=signature)
    secret = tmp_path / "secret"
    secret.write_text("x")
    with pytest.raises(ValueError, match="Received: the operations ReadFile.*`--trust_models`"):
        LoadedVersion(tmp_path / "1", ONE_BY_ONE)
    version = LoadedVersion(tmp_path / "1", ONE_BY_ONE, trusted=True)
    assert version.answer("serving_default", texts(str(secret).encode()))["text"].tolist() == [b"x"]


def test_the_graph_that_was_checked_is_loaded(
    exported: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "1"
    shutil.copytree(exported("classifier"), folder)

    def exchanged(graph: Any) -> list[str]:
        (folder / "saved_model.pb").write_bytes(b"another")
        return outside_operations(graph)

    monkeypatch.setattr(loaded_version, "outside_operations", exchanged)
    LoadedVersion(folder, ONE_BY_ONE).close()


def test_a_request_that_never_ends_does_not_keep_a_version_open(exported: Callable[[str], Path]) -> None:
    version = LoadedVersion(exported("classifier"), ONE_BY_ONE)
    version.acquire()
    version.close(0.01)
    version.release()
    version.close()


def test_changed_files_are_named(exported: Callable[[str], Path], tmp_path: Path) -> None:
    folder = tmp_path / "1"
    shutil.copytree(exported("classifier"), folder)
    graph = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    graph.meta_graphs[0].meta_info_def.tensorflow_version = "another"
    # TensorFlow loads it.
    (folder / "saved_model.pb").write_bytes(graph.SerializeToString())
    with pytest.raises(ValueError, match="saved_model.pb: changed since the export"):
        LoadedVersion(folder, ONE_BY_ONE)
    card = json.loads((folder / MODEL_CARD).read_text())
    (folder / MODEL_CARD).write_text(json.dumps({name: value for name, value in card.items() if name != "files"}))
    LoadedVersion(folder, ONE_BY_ONE).close()
    (folder / MODEL_CARD).write_text(json.dumps(card | {"files": {"assets/none": "0"}}))
    with pytest.raises(ValueError, match="model_card.json names a file that is not there: 'assets/none'"):
        LoadedVersion(folder, ONE_BY_ONE)

"""One version of an exported model in memory: its signatures run, its requests batched, its warm-up played."""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from bert_tf.export.metadata import MODEL_CARD, read_meta_graph
from bert_tf.export.runtime import register_text_operations, without_gradient_warnings
from bert_tf.serving.batching import Arrays, Batcher, BatchingOptions, QueueFullError
from bert_tf.serving.cancellation import Cancellation
from bert_tf.serving.errors import ServingError
from bert_tf.serving.tensors import check_rows

# Numbers and strings in an answer; as Python objects and JSON they take some 60 bytes each.
MAX_ANSWER_VALUES = 2**22

Specs = Mapping[str, tf.TensorSpec]
# Rows of a batch that TensorFlow ran.
OnRun = Callable[[int], None]


class LoadedVersion:
    """A version that answers requests.

    Args:
        folder: holds saved_model.pb.
        batching: how requests are joined.
        on_run: called after each run of the graph.

    Raises:
        ValueError: where the version is no readable SavedModel.
    """

    def __init__(self, folder: Path, batching: BatchingOptions, on_run: OnRun | None = None) -> None:
        self.folder = folder
        self.version = int(folder.name)
        self.signature_defs: dict[str, meta_graph_pb2.SignatureDef] = dict(read_meta_graph(folder).signature_def)
        register_text_operations()
        try:
            with without_gradient_warnings():
                self._signatures = dict(tf.saved_model.load(str(folder)).signatures)
        except Exception as error:
            # TensorFlow raises many classes for damaged files: IndexError, for one, where variables are cut off.
            raise ValueError(f"{folder}: not a readable SavedModel: {error}") from error
        self._on_run = on_run
        self._batcher = Batcher(self._run, batching)
        self._leases = 0
        self._released = threading.Condition()

    @functools.cached_property
    def labels(self) -> list[str]:
        """Names of the classes, as the model card has them; none where it has none."""
        card = self.folder / MODEL_CARD
        labels = json.loads(card.read_text(encoding="utf-8")).get("labels") if card.is_file() else None
        return [str(label) for label in labels or []]

    @property
    def signatures(self) -> Iterable[str]:
        """Names of the signatures that can be asked."""
        return self._signatures.keys()

    def specs(self, signature: str) -> Specs:
        """Returns the inputs of a signature by name. Raises KeyError for a name that is none."""
        return self._signatures[signature].structured_input_signature[1]

    def answer(
        self,
        signature: str,
        inputs: Arrays,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> Arrays:
        """Runs a signature, together with other requests where that is possible.

        Args:
            signature: one of `signature_defs`.
            inputs: an array for each of its inputs, of the right type; strings as objects of bytes.
            timeout: seconds; None waits for as long as it takes.
            cancellation: drops the request where it still waits.

        Returns:
            The outputs by name.

        Raises:
            ServingError: for too many rows, too large an answer, or a full queue.
            TimeoutError: when there is no answer in time.
            tf.errors.OpError: for what the graph refuses.
        """
        rows = {array.shape[0] if array.ndim else -1 for array in inputs.values()}
        check_rows(max(rows))
        # What has no common number of rows cannot be joined; the graph says what is wrong with it.
        if len(rows) != 1 or min(rows) < 0:
            return self._run(signature, inputs)
        return _result(self._batcher, signature, inputs, timeout, cancellation)

    def busy_seconds(self) -> float:
        """Returns for how long the oldest request has waited, or the oldest batch has run."""
        return self._batcher.busy_seconds()

    def acquire(self) -> None:
        """Keeps the version from being closed until `release`."""
        with self._released:
            self._leases += 1

    def release(self) -> None:
        """Ends what `acquire` began."""
        with self._released:
            self._leases -= 1
            self._released.notify_all()

    def close(self) -> None:
        """Waits for the requests under way, and ends the batcher's threads."""
        with self._released:
            self._released.wait_for(lambda: self._leases == 0)
        self._batcher.close()

    def warm_up(self, requests: Iterable[tuple[str, Arrays]]) -> int:
        """Answers requests whose answers nobody waits for, several at once: graphs are optimized by one thread each.

        Args:
            requests: signatures and inputs.

        Returns:
            How many there were.
        """
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return len(list(pool.map(lambda request: self._run(*request), requests)))

    def _run(self, signature: str, inputs: Arrays) -> Arrays:
        function = self._signatures[signature]
        specs = function.structured_input_signature[1]
        outputs = function(**{name: tf.constant(value, specs[name].dtype) for name, value in inputs.items()})
        values = sum(int(tf.size(tensor)) for tensor in outputs.values())
        if values > MAX_ANSWER_VALUES:
            raise ServingError(f"an answer must have at most {MAX_ANSWER_VALUES} values. Received: {values}")
        arrays = {name: tensor.numpy() for name, tensor in outputs.items()}
        if self._on_run:
            rows = max((array.shape[0] for array in inputs.values() if array.ndim), default=0)
            self._on_run(rows)
        return arrays


def _result(
    batcher: Batcher, signature: str, inputs: Arrays, timeout: float | None, cancellation: Cancellation | None
) -> Arrays:
    try:
        future: Future[dict[str, np.ndarray]] = batcher.submit(signature, inputs)
    except QueueFullError as error:
        message = f"The batch scheduling queue to which this task was submitted is full; {error}"
        raise ServingError(message, grpc.StatusCode.UNAVAILABLE) from error
    if cancellation is not None:
        cancellation.watch(future)
    try:
        return future.result(timeout)
    except TimeoutError:
        # Nobody waits any more: what has not begun need not begin.
        future.cancel()
        raise

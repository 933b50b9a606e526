"""A loaded version of an exported model, with request batching and warm-up."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from bert_tf.export.digests import FILES, check_digests
from bert_tf.export.graphs import outside_operations
from bert_tf.export.metadata import SAVED_MODEL_NAME, read_meta_graph
from bert_tf.export.runtime import register_text_operations, without_gradient_warnings
from bert_tf.serving.errors import ServingError
from bert_tf.serving.models.batching import Batcher, BatchingOptions
from bert_tf.serving.models.model_card import read_card
from bert_tf.serving.requests.cancellation import Cancellation
from bert_tf.serving.requests.tensors import Arrays, Specs, check_rows

logger = logging.getLogger(__name__)

# Maximum number of values in a response; as Python objects and JSON they take about 60 bytes each.
MAX_ANSWER_VALUES = 2**22

# Called with the number of rows of a batch.
OnRun = Callable[[int], None]


@contextlib.contextmanager
def _with_own_graph(folder: Path) -> Iterator[Path]:
    """Yields a folder with a copy of the graph and links to the other files.

    The graph that was checked is then the graph that is loaded, even if somebody exchanges the file in between.
    """
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        try:
            for path in folder.resolve().iterdir():
                if path.name == SAVED_MODEL_NAME:
                    shutil.copyfile(path, copy / path.name)
                else:
                    (copy / path.name).symlink_to(path)
            yield copy
        except (OSError, ValueError) as error:
            raise ValueError(str(error).replace(str(copy), str(folder))) from error


class LoadedVersion:
    """A loaded version that runs requests.

    Raises ValueError if the folder is not a readable SavedModel, if its files are not those that its model card lists,
    or if one that is not `trusted` has operations that read or write files, open connections or run other code than
    TensorFlow's.
    """

    def __init__(
        self, folder: Path, batching: BatchingOptions, on_run: OnRun | None = None, *, trusted: bool = False
    ) -> None:
        self.folder = folder
        self.version = int(folder.name)
        if isinstance(digests := self.card.get(FILES), dict):
            check_digests(folder, digests)
        register_text_operations()
        with _with_own_graph(folder) as copy:
            meta_graph = read_meta_graph(copy)
            if not trusted and (names := outside_operations(meta_graph)):
                raise ValueError(
                    f"{folder}: must compute only: a SavedModel is a program. Received: the operations "
                    f"{', '.join(names)}, which reach beyond the model. Start the server with `--trust_models` if you "
                    "trust its source"
                )
            self.signature_defs: dict[str, meta_graph_pb2.SignatureDef] = dict(meta_graph.signature_def)
            try:
                with without_gradient_warnings():
                    # A trusted model may read its assets later.
                    self._signatures = dict(tf.saved_model.load(str(folder if trusted else copy)).signatures)
            except Exception as error:
                # TensorFlow raises many exception classes for damaged files, for example IndexError for truncated
                # variables.
                raise ValueError(f"{folder}: not a readable SavedModel: {error}") from error
        self._on_run = on_run
        self._batcher = Batcher(self._run, batching)
        self._leases = 0
        self._released = threading.Condition()

    @functools.cached_property
    def card(self) -> dict[str, Any]:
        """The model card; empty for a version without card."""
        return read_card(self.folder)

    @property
    def labels(self) -> list[str]:
        """Class names of the model card; empty if it has none."""
        labels = self.card.get("labels")
        return [str(label) for label in labels] if isinstance(labels, list) else []

    @property
    def signatures(self) -> Iterable[str]:
        """Names of the signatures."""
        return self._signatures.keys()

    def specs(self, signature: str) -> Specs:
        """Returns the inputs of a signature by name. Raises KeyError for an unknown signature."""
        return self._signatures[signature].structured_input_signature[1]

    def answer(
        self, signature: str, inputs: Arrays, timeout: float | None = None, cancellation: Cancellation | None = None
    ) -> Arrays:
        """Runs a signature on arrays of the right dtypes, in a batch with other requests if possible.

        Raises ServingError for too many rows, too many output values, or a full queue; TimeoutError after `timeout`
        seconds; tf.errors.OpError for inputs that the graph rejects. A cancellation drops the request while it is
        waiting.
        """
        check_rows(max(array.shape[0] if array.ndim else -1 for array in inputs.values()))
        future = self._batcher.submit(signature, inputs)
        if cancellation is not None:
            cancellation.watch(future)
        try:
            return future.result(timeout)
        except TimeoutError:
            # No client waits any longer, so a request that has not started is dropped.
            future.cancel()
            raise

    def busy_seconds(self) -> float:
        """Returns the longest time in seconds that a request has waited or a batch has run."""
        return self._batcher.busy_seconds()

    def acquire(self) -> None:
        """Prevents the version from being closed until `release`."""
        with self._released:
            self._leases += 1

    def release(self) -> None:
        """Reverts one `acquire`."""
        with self._released:
            self._leases -= 1
            self._released.notify_all()

    def close(self, seconds: float | None = None) -> None:
        """Waits for the current requests, and ends the batcher's threads; leaves them after `seconds`."""
        with self._released:
            ended = self._released.wait_for(lambda: self._leases == 0, seconds)
        if ended:
            self._batcher.close()
        else:
            logger.error("version %d: its requests did not end in %.0f s", self.version, seconds)

    def warm_up(self, requests: Iterable[tuple[str, Arrays]]) -> int:
        """Runs warm-up requests in parallel, because a single thread optimizes each graph; returns their number."""
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

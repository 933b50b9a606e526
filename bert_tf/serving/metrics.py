"""Request counts and latencies in Prometheus' text format, with TF Serving's names, so that dashboards need no change.

Names, labels, units (microseconds) and buckets are those of TF Serving's servables/tensorflow/util.cc; batch sizes
follow its batching session.

With several worker processes, the metrics are the sums over all workers, whichever process answers a scrape. Each
worker writes its metrics to files in a folder (https://prometheus.github.io/client_python/multiprocess/). A worker that
replaces a dead one takes over its files, so that no count decreases and the number of files is bounded.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
    values,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

PATH = "/monitoring/prometheus/metrics"
# Environment variable of prometheus_client for the folder of the shared files.
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_PREFIX = ":tensorflow:serving:"
# TF Serving's label for SavedModels on its default runtime.
_RUNTIME = "TF1"
_MICROSECONDS = 1e6
_LATENCY_BUCKETS = [10 * 1.8**power for power in range(33)]
_ROW_BUCKETS = [2**power for power in range(15)]
# The library appends `_total` to each counter name; TF Serving does not.
_SUFFIX = re.compile(rf"^((?:# (?:HELP|TYPE) )?{_PREFIX}request_count)_total".encode(), re.MULTILINE)


@dataclass
class Outcome:
    """The name of the canonical code of a request."""

    code: str = "OK"


class Metrics:
    """Metrics of a server, or of one of several workers (`shared`) within `shared_folder` of their parent process."""

    def __init__(self, *, shared: bool = False) -> None:
        self._registry = self._exposed = CollectorRegistry()
        if shared:
            # Without memory and CPU time, which would be those of an arbitrary worker.
            self._exposed = CollectorRegistry()
            MultiProcessCollector(self._exposed)
            self._lock = _share_values(Path(os.environ[FOLDER_VARIABLE]))
        else:
            ProcessCollector(registry=self._exposed)
        PlatformCollector(registry=self._exposed)
        self._count = Counter(
            f"{_PREFIX}request_count",
            "The total number of requests.",
            ["model_name", "status"],
            registry=self._registry,
        )
        self._latency = self._histogram(
            "request_latency", "Microseconds of a request.", ["model_name", "API", "entrypoint"], _LATENCY_BUCKETS
        )
        self._runtime = self._histogram(
            "runtime_latency",
            "Microseconds of TensorFlow, including the wait for other requests of the batch.",
            ["model_name", "API", "runtime"],
            _LATENCY_BUCKETS,
        )
        self._rows = self._histogram("batching_session:batch_size", "Rows of a batch.", ["model_name"], _ROW_BUCKETS)
        self._under_way = Gauge(
            f"{_PREFIX}requests_under_way",
            "Requests in progress.",
            registry=self._registry,
            multiprocess_mode="livesum",
        )

    def _histogram(self, name: str, documentation: str, labels: list[str], buckets: list[float]) -> Histogram:
        return Histogram(_PREFIX + name, documentation, labels, buckets=buckets, registry=self._registry)

    @contextlib.contextmanager
    def request(self, model: str, api: str, entrypoint: str) -> Iterator[Outcome]:
        """Counts a request, and records its latency unless the block sets another code than OK in the yielded outcome.

        `model` is empty for unknown models, so that clients cannot create labels. `api` is the method, in lower case
        for REST as in TF Serving. `entrypoint` is `REST` or `GRPC`.
        """
        began, outcome = time.perf_counter(), Outcome()
        try:
            with self._under_way.track_inprogress():
                yield outcome
        finally:
            self._count.labels(model, outcome.code).inc()
            if outcome.code == "OK":
                passed = time.perf_counter() - began
                self._latency.labels(model, api, entrypoint).observe(passed * _MICROSECONDS)

    @contextlib.contextmanager
    def runtime(self, model: str, api: str) -> Iterator[None]:
        """Records the TensorFlow latency of a request, for example with the API `Predict`, unless the block raises."""
        began = time.perf_counter()
        yield
        self._runtime.labels(model, api, _RUNTIME).observe((time.perf_counter() - began) * _MICROSECONDS)

    def batch(self, model: str, rows: int) -> None:
        """Records the number of rows of a batch."""
        self._rows.labels(model).observe(rows)

    def text(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return _SUFFIX.sub(rb"\1", generate_latest(self._exposed))


@contextlib.contextmanager
def shared_folder() -> Iterator[str]:
    """Yields the folder in which workers started within the block share their metrics; it is removed afterwards."""
    former = os.environ.get(FOLDER_VARIABLE)
    with tempfile.TemporaryDirectory(prefix="bert-tf-metrics-") as folder:
        os.environ[FOLDER_VARIABLE] = folder
        try:
            yield folder
        finally:
            del os.environ[FOLDER_VARIABLE]
            if former is not None:
                os.environ[FOLDER_VARIABLE] = former


def _share_values(folder: Path) -> IO[bytes]:
    """Stores metric values that are created later in the files of the first free worker number.

    The number is in use while the returned lock file is open, at most until the process ends.
    """
    number = 0
    while True:
        lock = (folder / f"{number}.lock").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            number += 1
        else:
            break
    # The requests in progress of the former worker with this number ended with it.
    mark_process_dead(number, folder)
    values.ValueClass = values.MultiProcessValue(lambda: number)
    return lock

"""Counts and latencies in Prometheus' form, under TF Serving's names, so that dashboards need no change.

Names, units (microseconds) and buckets are those of TF Serving's servables/tensorflow/util.cc; queue and batch sizes
are its batching session's.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge, Histogram, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

PATH = "/monitoring/prometheus/metrics"
_PREFIX = ":tensorflow:serving:"
_MICROSECONDS = 1e6
_LATENCY_BUCKETS = [10 * 1.8**power for power in range(33)]
_ROW_BUCKETS = [2**power for power in range(15)]


@dataclass
class Outcome:
    """How a request ended.

    Args:
        code: canonical code's name.
    """

    code: str = "OK"


class _RequestCount(Collector):
    """A counter without the suffix `_total`, which the library adds and TF Serving has not."""

    def __init__(self, name: str, documentation: str, labels: tuple[str, ...]) -> None:
        self._name, self._documentation, self._labels = name, documentation, labels
        self._counts: Counter[tuple[str, ...]] = Counter()
        self._lock = threading.Lock()

    def add(self, *labels: str) -> None:
        with self._lock:
            self._counts[labels] += 1

    def collect(self) -> Iterable[Metric]:
        metric = Metric(self._name, self._documentation, "untyped")
        with self._lock:
            for labels, count in sorted(self._counts.items()):
                metric.add_sample(self._name, dict(zip(self._labels, labels, strict=True)), count)
        yield metric


class Metrics:
    """What a server counts; each has a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._count = _RequestCount(
            f"{_PREFIX}request_count", "The total number of requests.", ("model_name", "status")
        )
        self._registry.register(self._count)
        self._latency = self._histogram(
            "request_latency", "Microseconds of a request.", ["model_name", "API", "entrypoint"], _LATENCY_BUCKETS
        )
        self._runtime = self._histogram(
            "runtime_latency", "Microseconds of TensorFlow.", ["model_name", "signature"], _LATENCY_BUCKETS
        )
        self._rows = self._histogram(
            "batching_session:batch_size", "Rows that TensorFlow was given at once.", ["model_name"], _ROW_BUCKETS
        )
        self._under_way = Gauge(
            f"{_PREFIX}requests_under_way", "Requests that are being answered.", registry=self._registry
        )

    def _histogram(self, name: str, documentation: str, labels: list[str], buckets: list[float]) -> Histogram:
        return Histogram(_PREFIX + name, documentation, labels, buckets=buckets, registry=self._registry)

    @contextlib.contextmanager
    def request(self, model: str, api: str, entrypoint: str) -> Iterator[Outcome]:
        """Counts a request and, where it is answered, its time.

        Args:
            model: name; empty for one that there is not, so that clients cannot make up labels.
            api: what was asked.
            entrypoint: `REST` or `GRPC`.

        Yields:
            The outcome, whose code is to be set where it is not OK.
        """
        began, outcome = time.perf_counter(), Outcome()
        try:
            with self._under_way.track_inprogress():
                yield outcome
        finally:
            self._count.add(model, outcome.code)
            if outcome.code == "OK":
                passed = time.perf_counter() - began
                self._latency.labels(model, api, entrypoint).observe(passed * _MICROSECONDS)

    def ran(self, model: str, signature: str, rows: int, seconds: float) -> None:
        """Counts a run of a graph."""
        self._runtime.labels(model, signature).observe(seconds * _MICROSECONDS)
        self._rows.labels(model).observe(rows)

    def text(self) -> bytes:
        """Returns all figures in Prometheus' text form."""
        return generate_latest(self._registry)

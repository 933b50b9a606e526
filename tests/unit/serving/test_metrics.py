"""Counts of several processes add up, and no count decreases when a process dies."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bert_tf.serving import metrics
from bert_tf.serving.metrics import FOLDER_VARIABLE, Metrics, shared_folder

PREFIX = ":tensorflow:serving:"
# Loads the module by itself: its package imports TensorFlow.
LOAD = """
import importlib.util, os, sys
specification = importlib.util.spec_from_file_location("metrics", sys.argv[1])
module = sys.modules["metrics"] = importlib.util.module_from_spec(specification)
specification.loader.exec_module(module)
counts = module.Metrics(shared=True)
"""
WORKER = f"""{LOAD}
for _ in range(int(sys.argv[2])):
    with counts.request("m", "Predict", "GRPC"), counts.runtime("m", "Predict"):
        counts.batch("m", 2)
with counts.request("m", "Predict", "GRPC"):
    print(flush=True)
    # The worker dies while it answers a request.
    sys.stdin.read()
    os._exit(1)
"""
SCRAPE = f"""{LOAD}
sys.stdout.buffer.write(counts.text())
"""


@pytest.fixture
def folder() -> Iterator[str]:
    with shared_folder() as made:
        yield made


@contextlib.contextmanager
def worker(requests: int) -> Iterator[None]:
    """Runs a worker that has answered requests, answers one more during the block, and dies after it."""
    command = [sys.executable, "-c", WORKER, metrics.__file__, str(requests)]
    with subprocess.Popen(command, stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield


def scrape() -> bytes:
    """Returns the metrics of another worker."""
    return subprocess.run([sys.executable, "-c", SCRAPE, metrics.__file__], stdout=-1, check=True).stdout


def values(text: bytes) -> dict[tuple[str, ...], float]:
    """Returns the samples of a scrape that are not buckets, by name and labels."""
    return {
        # The parser adds the suffix to a counter.
        (sample.name.removeprefix(PREFIX).removesuffix("_total"), *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_created"))
    }


def test_counts_of_all_workers_are_summed_and_never_decrease(folder: str) -> None:
    with worker(2):
        with worker(3):
            before = values(scrape())
        assert before["request_count", "OK", "m"] == 5
        assert before["request_latency_count", "GRPC", "Predict", "m"] == 5
        assert before["runtime_latency_count", "Predict", "TF1", "m"] == 5
        assert before["batching_session:batch_size_sum", "m"] == 10
        assert before["requests_under_way",] == 2
        # Counted by the replacement of the worker that died.
        assert values(scrape()) == before | {("requests_under_way",): 1}
        files = set(Path(folder).iterdir())
        with worker(1):
            after = values(scrape())
            assert (after["request_count", "OK", "m"], after["requests_under_way",]) == (6, 2)
    assert values(scrape())["request_count", "OK", "m"] == 6
    # There are only files for the three workers that run at the same time, even after many workers have died.
    assert set(Path(folder).iterdir()) == files


@pytest.mark.usefixtures("folder")
def test_names_equal_those_of_tf_serving_for_one_or_several_processes() -> None:
    single = Metrics()
    with single.request("m", "Predict", "GRPC") as outcome:
        outcome.code = "NOT_FOUND"
    with worker(1):
        several, one = scrape().decode(), single.text().decode()
    for text, labels in ((several, 'model_name="m",status="OK"'), (one, 'model_name="m",status="NOT_FOUND"')):
        assert "\n# TYPE :tensorflow:serving:request_count counter\n" in f"\n{text}"
        assert f"\n:tensorflow:serving:request_count{{{labels}}} 1.0\n" in text
        assert "request_count_total" not in text
    # These would be metrics of a single process, and would jump between processes.
    assert ("process_cpu_seconds" in one, "process_cpu_seconds" in several) == (True, False)


def test_failed_call_has_no_runtime() -> None:
    counts = Metrics()
    with pytest.raises(ZeroDivisionError), counts.runtime("m", "Predict"):
        1 / 0  # noqa: B018
    assert "runtime_latency_count{" not in counts.text().decode()


@pytest.mark.parametrize("former", [None, "/elsewhere"])
def test_shared_folder_is_removed_after_the_block(former: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    values_: dict[str, Any] = {} if former is None else {FOLDER_VARIABLE: former}
    monkeypatch.setattr(os, "environ", values_)
    with shared_folder() as made:
        assert Path(made).is_dir() and os.environ[FOLDER_VARIABLE] == made
    assert not Path(made).exists()
    assert os.environ.get(FOLDER_VARIABLE) == former

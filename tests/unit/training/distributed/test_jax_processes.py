"""Processes of JAX: their variables, and lost processes."""

from __future__ import annotations

import pytest

from bert_tf.config import ConfigError, TrainingConfig

pytest.importorskip("jax")

from bert_tf.training.distributed import jax_processes
from bert_tf.training.distributed.jax_processes import JaxWorkers, start_processes
from bert_tf.training.loop.checkpoints import NotFiniteError, TrainingError

ADDRESS, COUNT, INDEX = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
CONFIG = TrainingConfig(strategy="multi_worker", worker_timeout=2.5)


def test_variables_of_jax_connect_the_processes(monkeypatch):
    called = []

    def initialize(**arguments):
        called.append(arguments)
        raise RuntimeError("DEADLINE_EXCEEDED: no answer")

    monkeypatch.setattr(jax_processes.jax.distributed, "initialize", initialize)
    with pytest.raises(TrainingError, match="within 2.5 seconds.*no answer"):
        start_processes(CONFIG, {ADDRESS: "a:1", COUNT: "4", INDEX: "3"})
    assert called == [{"coordinator_address": "a:1", "num_processes": 4, "process_id": 3, "initialization_timeout": 3}]


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "needs TF_CONFIG, or JAX_COORDINATOR_ADDRESS, .* or a cluster that JAX detects"),
        ({ADDRESS: "a:1", COUNT: "2"}, "needs JAX_NUM_PROCESSES and JAX_PROCESS_ID.* Received: a:1, 2 and None"),
        ({ADDRESS: "a:1", COUNT: "two", INDEX: "0"}, "Received: a:1, two and 0"),
        ({"TF_CONFIG": "{"}, "TF_CONFIG must be"),
    ],
)
def test_missing_or_invalid_variables_are_refused(environment, message, monkeypatch):
    def initialize(**arguments):
        raise ValueError("coordinator_address should be defined.")

    monkeypatch.setattr(jax_processes.jax.distributed, "initialize", initialize)
    with pytest.raises(ConfigError, match=message):
        start_processes(CONFIG, environment)


def test_a_lost_process_is_named():
    workers = JaxWorkers(("a:1", "b:2"), 0)
    with (
        pytest.raises(TrainingError, match=r"step 7: another worker was lost \(b:2\)"),
        workers.raise_on_lost_worker(lambda: 7),
    ):
        raise ValueError("UNKNOWN: Gloo AllReduce failed: Connection closed by peer")


@pytest.mark.parametrize("error", [ValueError("a record is damaged"), NotFiniteError(3, "a gloomy loss")])
def test_other_errors_stay(error):
    with pytest.raises(type(error), match=str(error)), JaxWorkers(("a:1", "b:2"), 0).raise_on_lost_worker(lambda: 7):
        raise error


@pytest.mark.parametrize(("error", "status"), [(ValueError("x"), 1), (SystemExit(143), 143), (KeyboardInterrupt(), 1)])
def test_a_process_with_an_error_leaves_without_waiting(error, status, monkeypatch):
    registered = []
    monkeypatch.setattr(jax_processes.atexit, "register", lambda *arguments: registered.append(arguments[1:]))
    workers = JaxWorkers(("a:1", "b:2"), 1)
    with pytest.raises(type(error)), workers.leave_on_error():
        raise error
    assert registered == [(status, 0.0)]
    # All processes have agreed to stop, so that each waits for the others.
    monkeypatch.setattr(jax_processes.multihost_utils, "process_allgather", lambda values: [[0, 20], [1, 10]])
    assert workers.agree(False, 20) == (True, 20)
    with pytest.raises(type(error)), workers.leave_on_error():
        raise error
    assert len(registered) == 1

"""Workers wait for each other and stop together."""

from __future__ import annotations

import signal
import socket

import pytest

from bert_tf.training.distributed.rendezvous import Cluster, answers, rendezvous
from bert_tf.training.loop.checkpoints import TrainingError
from tests.support.training.workers import free_ports


def test_rendezvous_ends_when_all_workers_answer():
    ports = free_ports(2)
    cluster = Cluster(tuple(f"localhost:{port}" for port in ports), 0)
    with socket.create_server(("localhost", ports[1])), rendezvous(cluster, 10):
        # TensorFlow's server replaces the socket that listened here.
        socket.create_server(("localhost", ports[0])).close()


def test_a_worker_without_a_server_answers_until_the_end_of_the_block():
    """The other workers may look for it while its framework connects them."""
    ports = free_ports(1)
    with rendezvous(Cluster((f"localhost:{ports[0]}",), 0), 10, serves=False):
        assert answers(f"localhost:{ports[0]}")
    assert not answers(f"localhost:{ports[0]}")


def test_rendezvous_restores_signal_handlers():
    ports = free_ports(1)
    former = signal.getsignal(signal.SIGTERM)
    with rendezvous(Cluster((f"localhost:{ports[0]}",), 0), 10):
        signal.signal(signal.SIGTERM, former)
    assert signal.getsignal(signal.SIGTERM) is former


def test_missing_worker_is_named(capsys):
    ports = free_ports(3)
    cluster = Cluster(tuple(f"localhost:{port}" for port in ports), 1)
    with (
        socket.create_server(("localhost", ports[0])),
        pytest.raises(TrainingError, match=f"no answer from localhost:{ports[2]} within 0.5 seconds"),
        rendezvous(cluster, 0.5),
    ):
        raise RuntimeError("not reached")
    assert f"waiting for localhost:{ports[2]}\n" in capsys.readouterr().err


def test_an_address_in_use_is_named():
    with (
        socket.create_server(("", 0)) as other,
        pytest.raises(TrainingError, match="this worker's address, localhost:.*, is in use"),
        rendezvous(Cluster((f"localhost:{other.getsockname()[1]}", "localhost:1"), 0), 1),
    ):
        raise RuntimeError("not reached")

"""Messages that do not arrive, or are too many, do not block other requests."""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

from bert_tf.serving.grpc.server import GrpcOptions, GrpcServer
from bert_tf.serving.requests.admission import Admission
from bert_tf.serving.service import Service
from tests.support.serving.garbage import nothing_left_in_cycles

STATUS = "/tensorflow.serving.ModelService/GetModelStatus"


@pytest.fixture
def admission() -> Admission:
    return Admission(40)


@pytest.fixture
def narrow(service: Service, admission: Admission) -> Iterator[grpc.Channel]:
    """A channel to a server of one thread, where at most eight calls wait for their message."""
    options = GrpcOptions(threads=1, message_seconds=2.0, max_waiting=8)
    with (
        listening(Service(service.manager, service.metrics, admission), options) as address,
        grpc.insecure_channel(address) as opened,
    ):
        yield opened


@contextlib.contextmanager
def listening(service: Service, options: GrpcOptions) -> Iterator[str]:
    """Yields the address of a server."""
    server = GrpcServer(service, options)
    port = server.add_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


def ask(channel: grpc.Channel, timeout: float = 60) -> int:
    """Returns the number of versions of a model."""
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "classifier"
    response = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(request, timeout=timeout)
    return len(response.model_version_status)


@pytest.fixture
def silent() -> Iterator[Callable[[], Iterator[bytes]]]:
    """Messages that never arrive."""
    ended = threading.Event()

    def never() -> Iterator[bytes]:
        ended.wait()
        yield b""

    yield never
    ended.set()


def test_call_without_its_message_times_out(narrow: grpc.Channel, silent: Callable[[], Iterator[bytes]]) -> None:
    with nothing_left_in_cycles():
        calls = [narrow.stream_unary(STATUS).future(silent()) for _ in range(2)]
        assert ask(narrow) == 1
        errors = [call.exception(60) for call in calls]
    assert {error.code() for error in errors} == {grpc.StatusCode.DEADLINE_EXCEEDED}
    assert "within 2 seconds" in errors[0].details()


def test_the_oldest_waiting_call_ends_for_a_further_one(
    service: Service, silent: Callable[[], Iterator[bytes]]
) -> None:
    options = GrpcOptions(message_seconds=600, max_waiting=3, threads=1)
    with listening(service, options) as address, grpc.insecure_channel(address) as channel:
        calls = [channel.stream_unary(STATUS).future(silent()) for _ in range(20)]
        # 17 calls have ended for later ones; none of them would end by itself.
        ended = list(itertools.islice(as_ended(calls), 17))
        assert {call.exception(60).code() for call in ended} == {grpc.StatusCode.DEADLINE_EXCEEDED}
        assert ask(channel) == 1
        assert health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60).status
        for call in calls:
            call.cancel()


def as_ended(calls: Iterable[Any]) -> Iterator[Any]:
    """Yields calls in the order in which they end."""
    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for call in calls:
        call.add_done_callback(ended.put)
    while True:
        yield ended.get(timeout=60)


def test_calls_have_less_time_while_many_wait(service: Service, silent: Callable[[], Iterator[bytes]]) -> None:
    options = GrpcOptions(message_seconds=600, max_patient=2, threads=1)
    with listening(service, options) as address, grpc.insecure_channel(address) as channel:
        calls = [channel.stream_unary(STATUS).future(silent()) for _ in range(6)]
        # The two first ones would wait for ten minutes.
        ended = list(itertools.islice(as_ended(calls), 4))
        assert {call.exception(60).code() for call in ended} == {grpc.StatusCode.DEADLINE_EXCEEDED}
        assert sum(call.done() for call in calls) == 4
        for call in calls:
            call.cancel()


def test_calls_of_a_connection_are_limited(service: Service, silent: Callable[[], Iterator[bytes]]) -> None:
    with (
        listening(service, GrpcOptions(message_seconds=600, max_streams=4)) as address,
        grpc.insecure_channel(address) as channel,
        grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as other,
    ):
        calls = [channel.stream_unary(STATUS).future(silent()) for _ in range(4)]
        assert ask(other) == 1
        with pytest.raises(grpc.RpcError) as held_back:
            ask(channel, timeout=1)
        assert held_back.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        calls[0].cancel()
        assert ask(channel) == 1


def test_call_without_a_message_is_refused(narrow: grpc.Channel) -> None:
    with nothing_left_in_cycles(), pytest.raises(grpc.RpcError, match="a request must have a message") as refused:
        narrow.stream_unary(STATUS)(iter(()), timeout=60)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_messages_beyond_the_admission_limit_are_refused(narrow: grpc.Channel, admission: Admission) -> None:
    with admission.request() as other:
        other.add(1)
        with nothing_left_in_cycles(), pytest.raises(grpc.RpcError, match="more than 10 bytes") as refused:
            ask(narrow)
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    # Longer than ten bytes, but alone.
    assert ask(narrow) == 1

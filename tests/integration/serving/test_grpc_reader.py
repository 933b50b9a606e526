"""Messages that do not arrive, or are too many, do not block other requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import grpc
import pytest
from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

from bert_tf.serving.grpc.services import GrpcOptions, create_grpc_server
from bert_tf.serving.requests.admission import Admission
from bert_tf.serving.service import Service
from tests.support.serving.garbage import nothing_left_in_cycles

STATUS = "/tensorflow.serving.ModelService/GetModelStatus"


@pytest.fixture
def admission() -> Admission:
    return Admission(40)


@pytest.fixture
def narrow(service: Service, admission: Admission) -> Iterator[grpc.Channel]:
    """A channel to a server of one thread."""
    server = create_grpc_server(
        Service(service.manager, service.metrics, admission), GrpcOptions(threads=1, message_seconds=2.0)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as opened:
        yield opened
    server.stop(None).wait()


def ask(channel: grpc.Channel) -> int:
    """Returns the number of versions of a model."""
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "classifier"
    response = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(request, timeout=60)
    return len(response.model_version_status)


def test_call_without_its_message_times_out(narrow: grpc.Channel) -> None:
    ended = threading.Event()

    def never() -> Iterator[bytes]:
        ended.wait()
        yield b""

    with nothing_left_in_cycles():
        calls = [narrow.stream_unary(STATUS).future(never()) for _ in range(2)]
        assert ask(narrow) == 1
        codes = {call.exception(60).code() for call in calls}
        ended.set()
    assert codes == {grpc.StatusCode.CANCELLED}


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

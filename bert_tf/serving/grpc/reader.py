"""Reads gRPC messages with a size limit and a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from bert_tf.serving.access import check_token
from bert_tf.serving.errors import ServingError
from bert_tf.serving.logs import logged_call
from bert_tf.serving.requests.admission import Admission, Admitted

# Delay of a cancellation after the deadline, as a fraction of the time-out.
_LATE = 0.1
# Probes have no token.
_WITHOUT_TOKEN = "/grpc.health.v1.Health/"


class RequestReader(grpc.ServerInterceptor):
    """Reads the single message of a call within its handler, and cancels the call if it takes longer than `seconds`.

    By default, grpcio (1.85) waits for the message in a thread without a time-out, so that as many slow calls as there
    are threads block all others. It also never frees a call whose message it could not read. `token` is required in the
    call's metadata as `authorization: Bearer TOKEN`; None for no authentication.
    """

    def __init__(self, admission: Admission, seconds: float, token: str | None = None) -> None:
        self._admission = admission
        self._deadlines = DeadlineWatcher(seconds)
        self._token = token

    def intercept_service(self, continuation: Any, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Returns the handler of a call; None for an unknown method."""
        handler = continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler
        read, method = handler.request_deserializer, handler.unary_unary
        public = handler_call_details.method.startswith(_WITHOUT_TOKEN)

        def answer(messages: Iterator[bytes], context: grpc.ServicerContext) -> Any:
            with logged_call(handler_call_details.method, context), self._admission.request() as admitted:
                try:
                    if not public:
                        check_token(_authorization(context), self._token)
                    request = self._read(messages, context, admitted, read)
                except ServingError as error:
                    context.abort(error.code, str(error))
                except DecodeError:
                    # The message of grpcio.
                    context.abort(grpc.StatusCode.INTERNAL, "Exception deserializing request!")
                return method(request, context)

        return grpc.stream_unary_rpc_method_handler(answer, response_serializer=handler.response_serializer)

    def _read(
        self, messages: Iterator[bytes], context: grpc.ServicerContext, admitted: Admitted, read: Callable[[bytes], Any]
    ) -> Any:
        # A separate function, so that the bytes are freed before the request is answered.
        message = self._wait_for_message(messages, context)
        admitted.add(len(message))
        admitted.complete()
        return read(message)

    def _wait_for_message(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        self._deadlines.begin(context)
        try:
            return next(messages)
        except grpc.RpcError as error:
            # grpcio stores the error with the call: a reference cycle.
            error.__traceback__ = None
            raise ServingError("the call has ended", grpc.StatusCode.CANCELLED) from None
        except StopIteration as error:
            raise ServingError("a request must have a message", grpc.StatusCode.UNIMPLEMENTED) from error
        finally:
            self._deadlines.end(context)


def _authorization(context: grpc.ServicerContext) -> str:
    values = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
    return values[0] if len(values) == 1 and isinstance(values[0], str) else ""


class DeadlineWatcher:
    """Cancels calls whose message does not arrive in `seconds`. The thread exits when no calls are pending."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # Call -> deadline.
        self._ends: dict[Any, float] = {}
        self._lock = threading.Lock()
        self._watched = False

    def begin(self, call: Any) -> None:
        """Starts the deadline of a call."""
        with self._lock:
            self._ends[call] = time.monotonic() + self._seconds
            if self._watched:
                return
            self._watched = True
        threading.Thread(target=self._watch, name="deadlines", daemon=True).start()

    def end(self, call: Any) -> None:
        """Stops the deadline of a call."""
        with self._lock:
            self._ends.pop(call, None)

    def _watch(self) -> None:
        while True:
            with self._lock:
                now = time.monotonic()
                late = [call for call, end in self._ends.items() if end <= now]
                for call in late:
                    del self._ends[call]
                self._watched = goes_on = bool(self._ends)
            for call in late:
                call.cancel()
            if not goes_on:
                return
            time.sleep(self._seconds * _LATE)

"""Reads gRPC messages with limits on size, number and time, and answers them in threads."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError, Executor
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from bert_tf.serving.access import Tokens, WrongTokens
from bert_tf.serving.errors import ServingError, break_reference_cycles
from bert_tf.serving.logs import logged_call
from bert_tf.serving.requests.admission import Admission
from bert_tf.serving.requests.cancellation import Cancellation

# Probes have no token, and are answered at once.
_PROBES = "/grpc.health.v1.Health/"
_BRIEF_SECONDS = 0.5


@dataclass(frozen=True)
class Call:
    """A call whose message has arrived, for the method that answers it."""

    timeout: float | None  # seconds until the deadline of the client; None without a deadline
    cancellation: Cancellation = field(default_factory=Cancellation)  # if the client ends the call


@dataclass(frozen=True)
class ReaderLimits:
    """Limits of the calls that wait for their message, and of those that are answered."""

    seconds: float  # for the arrival of a message; later calls end with DEADLINE_EXCEEDED
    patient: int  # calls that have this time at once; further ones have half a second
    waiting: int  # if more calls wait for their message, the oldest one ends
    answered: int  # at once; more are rejected with RESOURCE_EXHAUSTED


class RequestReader(grpc.aio.ServerInterceptor):
    """Reads the single message of a call, and answers it in a thread.

    A call that waits for its message holds no thread, so that slow clients do not block others. A method takes the
    message and its `Call`, and raises ServingError. One of `tokens` is required in the metadata as `authorization:
    Bearer TOKEN`, except for probes of the health service; None for no authentication.
    """

    def __init__(
        self, admission: Admission, limits: ReaderLimits, threads: Executor, tokens: Tokens | None = None
    ) -> None:
        self._admission = admission
        self._limits = limits
        self._threads = threads
        self._tokens = WrongTokens(tokens)
        self._waiting: dict[asyncio.Timeout, None] = {}
        self._answered = 0

    async def intercept_service(self, continuation: Any, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Returns the handler of a call; None for an unknown method."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler
        name = handler_call_details.method
        is_probe = name.startswith(_PROBES)
        run = functools.partial(_run, handler.request_deserializer, handler.unary_unary)

        async def answer(messages: AsyncIterator[bytes], context: Any) -> Any:
            # The line of the log is written before the client has the answer.
            with logged_call(name, context.peer()) as outcome:
                try:
                    if not is_probe:
                        # Without the port.
                        self._tokens.check(context.peer().rpartition(":")[0], _authorization(context))
                    return await self._answer(messages, context, run, is_probe)
                except ServingError as error:
                    outcome.code, message = error.code, str(error)
                    break_reference_cycles(error)
                except asyncio.CancelledError:
                    outcome.code = grpc.StatusCode.CANCELLED
                    raise
            return await context.abort(outcome.code, message)

        return grpc.stream_unary_rpc_method_handler(answer, response_serializer=handler.response_serializer)

    async def _answer(
        self, messages: AsyncIterator[bytes], context: Any, run: Callable[[list[bytes], Call], Any], is_probe: bool
    ) -> Any:
        with self._admission.request() as admitted:
            # A list, so that the bytes are freed before the request is answered.
            message = [await self._message(messages)]
            admitted.add(len(message[0]))
            admitted.complete()
            call = Call(_timeout(context))
            if is_probe:
                return run(message, call)
            if self._answered >= self._limits.answered:
                rule = f"at most {self._limits.answered} requests are answered at once; try again later"
                raise ServingError(rule, grpc.StatusCode.RESOURCE_EXHAUSTED)
            self._answered += 1
            running = asyncio.get_running_loop().run_in_executor(self._threads, run, message, call)
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                call.cancellation.cancel()
                # The bytes of the request stay counted until the thread has finished.
                await asyncio.wait({running})
                running.exception()
                raise
            finally:
                self._answered -= 1

    async def _message(self, messages: AsyncIterator[bytes]) -> bytes:
        limits = self._limits
        # The core keeps what has arrived of a message, so that many slow ones would fill the memory.
        seconds = limits.seconds if len(self._waiting) < limits.patient else min(limits.seconds, _BRIEF_SECONDS)
        try:
            async with asyncio.timeout(seconds) as deadline:
                if len(self._waiting) >= limits.waiting:
                    oldest = next(iter(self._waiting))
                    del self._waiting[oldest]
                    # It raises an error if its time has just ended.
                    with contextlib.suppress(RuntimeError):
                        oldest.reschedule(asyncio.get_running_loop().time())
                self._waiting[deadline] = None
                try:
                    return await anext(aiter(messages))
                finally:
                    self._waiting.pop(deadline, None)
        except TimeoutError:
            rule = f"the message of a call must arrive within {limits.seconds:g} seconds, or sooner if many calls wait"
            raise ServingError(rule, grpc.StatusCode.DEADLINE_EXCEEDED) from None
        except StopAsyncIteration:
            raise ServingError("a request must have a message", grpc.StatusCode.UNIMPLEMENTED) from None


def _run(read: Callable[[bytes], Any], method: Callable[[Any, Call], Any], message: list[bytes], call: Call) -> Any:
    """Parses a message, which is taken out of its list, and returns the response of a method."""
    try:
        request = read(message.pop())
    except DecodeError as error:
        # The message of grpcio.
        raise ServingError("Exception deserializing request!", grpc.StatusCode.INTERNAL) from error
    try:
        call.cancellation.check()
        return method(request, call)
    except CancelledError:
        # An error of the thread, so that the loop does not take it for a cancellation of its own.
        raise ServingError("the call has ended", grpc.StatusCode.CANCELLED) from None


def _timeout(context: Any) -> float | None:
    """Returns the seconds until the client's deadline; None without a deadline."""
    remaining = context.time_remaining()
    # Without a deadline, grpc may return more than the maximum time-out of a lock.
    return remaining if remaining is not None and remaining < threading.TIMEOUT_MAX else None


def _authorization(context: Any) -> str:
    values = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
    return values[0] if len(values) == 1 and isinstance(values[0], str) else ""

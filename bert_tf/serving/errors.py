"""The error of a rejected request, with a canonical code for REST and gRPC.

Codes, HTTP statuses and most messages are those of TF Serving (model_servers/http_server.cc and the errors of its
services), so that a client cannot distinguish the servers.
"""

from __future__ import annotations

import re
import traceback
from concurrent.futures import CancelledError

import grpc
import tensorflow as tf

INVALID_ARGUMENT = grpc.StatusCode.INVALID_ARGUMENT

_HTTP_STATUS = {
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.UNAUTHENTICATED: 401,
}
_INTERNAL_STATUS = 500
# Messages quote names of requests, which may have megabytes.
_MAX_MESSAGE = 2000
_OF_NUMBER = {code.value[0]: code for code in grpc.StatusCode}


class ServingError(Exception):
    """Error of a rejected request, with a message for the client; `http_status` defaults to that of the code."""

    def __init__(
        self, message: str, code: grpc.StatusCode = INVALID_ARGUMENT, *, http_status: int | None = None
    ) -> None:
        super().__init__(message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}…")
        self.code = code
        self.http_status = http_status or _HTTP_STATUS.get(code, _INTERNAL_STATUS)


def serving_error(error: BaseException) -> ServingError:
    """Converts any error of a request to the one for the client, without details of internal errors."""
    if isinstance(error, ServingError):
        return error
    if isinstance(error, tf.errors.OpError):
        # Without Python's preamble and the names of inner functions.
        message = re.sub(r"\s*\[Op:\w+\]$", "", error.message.rpartition("<stack traces unavailable>\n")[2])
        return ServingError(message, _OF_NUMBER.get(error.error_code, grpc.StatusCode.INTERNAL))
    if isinstance(error, UnicodeDecodeError):
        # TensorFlow's error message quotes the request, and Python cannot decode it.
        return ServingError("the request was rejected; it contains bytes that are not valid UTF-8")
    if isinstance(error, TimeoutError):
        return ServingError("the request was not answered in time", grpc.StatusCode.DEADLINE_EXCEEDED)
    if isinstance(error, CancelledError):
        return ServingError("the request was cancelled", grpc.StatusCode.CANCELLED)
    return ServingError(f"internal error: {type(error).__name__}", grpc.StatusCode.INTERNAL)


def break_reference_cycles(error: BaseException | None) -> None:
    """Clears the tracebacks of a reported error and its causes, so that the request can be freed immediately.

    A function in the traceback may hold the error, or a future with it: a reference cycle. Python would keep the
    request until the next collection of cycles, which is rare with TensorFlow's many objects.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        cause = error.__cause__ or error.__context__
        error.__cause__ = error.__context__ = None
        error = cause


def is_our_fault(error: ServingError) -> bool:
    """Returns True if an error is internal to the server and should be logged."""
    return error.http_status == _INTERNAL_STATUS

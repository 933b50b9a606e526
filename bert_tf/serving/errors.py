"""What a server refuses and why: one error, with the canonical code that REST and gRPC both know.

Codes, their HTTP statuses and most messages are TF Serving's (model_servers/http_server.cc and the errors that its
services return), so that a client cannot tell the servers apart.
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
_OF_NUMBER = {code.value[0]: code for code in grpc.StatusCode}


class ServingError(Exception):
    """A request that is refused.

    Args:
        message: what the client is told.
        code: canonical code.
        http_status: where HTTP knows a closer one than the code's.
    """

    def __init__(
        self, message: str, code: grpc.StatusCode = INVALID_ARGUMENT, *, http_status: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.http_status = http_status or _HTTP_STATUS.get(code, _INTERNAL_STATUS)


def serving_error(error: BaseException) -> ServingError:
    """Returns what a client is told of any error; nothing of the inside where it is one of ours.

    Args:
        error: raised while a request was answered.
    """
    if isinstance(error, ServingError):
        return error
    if isinstance(error, tf.errors.OpError):
        return ServingError(_reason(error), _OF_NUMBER.get(error.error_code, grpc.StatusCode.INTERNAL))
    if isinstance(error, UnicodeDecodeError):
        # TensorFlow's refusal quotes the request, and Python cannot read the quotation.
        return ServingError("the request was refused; it holds bytes that are no UTF-8")
    if isinstance(error, TimeoutError):
        return ServingError("the request was not answered in time", grpc.StatusCode.DEADLINE_EXCEEDED)
    if isinstance(error, CancelledError):
        return ServingError("the request was cancelled", grpc.StatusCode.CANCELLED)
    return ServingError(f"internal error: {type(error).__name__}", grpc.StatusCode.INTERNAL)


def break_reference_cycles(error: BaseException | None) -> None:
    """Frees what the functions that an error passed were working on, once nothing is to be learnt from it any more.

    Such a function may hold the error, or a future that has it, and the error holds the function. Python would keep the
    request until it looks for cycles, and beside TensorFlow's many objects it seldom does.

    Args:
        error: has been told and logged; its causes are treated likewise.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        cause = error.__cause__ or error.__context__
        error.__cause__ = error.__context__ = None
        error = cause


def is_our_fault(error: ServingError) -> bool:
    """Returns whether an error is the server's own, and belongs in its log."""
    return error.http_status == _INTERNAL_STATUS


def _reason(error: tf.errors.OpError) -> str:
    """Returns what the graph said, without the Python side's preamble and names of inner functions."""
    message = error.message.rpartition("<stack traces unavailable>\n")[2]
    return re.sub(r"\s*\[Op:\w+\]$", "", message)

"""Access log with one line for each REST or gRPC request."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Iterator

import grpc
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger("bert_tf.access")

_MAX_TARGET = 300
_FORMAT = "%(asctime)s %(message)s"


def start_access_log() -> None:
    """Starts to write the access log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(logging.INFO)


class AccessLogMiddleware:
    """Logs client, method, target, status and milliseconds of each HTTP request.

    Args:
        app: application that answers the requests.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request, and logs it if the access log is started."""
        if scope["type"] != "http" or not logger.isEnabledFor(logging.INFO):
            await self._app(scope, receive, send)
            return
        status = 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        client = (scope.get("client") or ("-",))[0]
        # The raw path, in which control characters are escaped; without the query, which may contain a text.
        target = scope.get("raw_path", scope["path"].encode("ascii", "backslashreplace"))[:_MAX_TARGET].decode("ascii")
        began = time.perf_counter()
        try:
            await self._app(scope, receive, send_and_note)
        finally:
            _log(client, f"{scope['method']} {target}", str(status or "-"), began)


@contextlib.contextmanager
def logged_call(method: str, context: grpc.ServicerContext) -> Iterator[None]:
    """Logs client, method, code and milliseconds of a gRPC call, which the block handles."""
    began = time.perf_counter()
    try:
        yield
    finally:
        if logger.isEnabledFor(logging.INFO):
            code = context.code()
            _log(context.peer(), f"gRPC {method}", code.name if code is not None else "OK", began)


def _log(client: str, request: str, status: str, began: float) -> None:
    logger.info('%s "%s" %s %.1f ms', client, request, status, 1000 * (time.perf_counter() - began))

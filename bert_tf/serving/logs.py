"""Log of the server: an access log with one line for each REST or gRPC request, and a limit on repeated messages."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import grpc
from starlette.types import ASGIApp, Message, Receive, Scope, Send

access_logger = logging.getLogger("bert_tf.access")

_MAX_TARGET = 300
_FORMAT = "%(asctime)s %(message)s"
# Loggers with messages that a single client can cause.
_LIMITED_LOGGERS = (
    "asyncio", "uvicorn.error", "grpc._cython.cygrpc", "bert_tf.serving.http.connection", "bert_tf.serving.service",
)  # fmt: skip
_KEY_CHARACTERS = 60
_MAX_KEYS = 1000


def start_access_log() -> None:
    """Starts to write the access log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    access_logger.handlers = [handler]
    access_logger.propagate = False
    access_logger.setLevel(logging.INFO)


class AccessLogMiddleware:
    """Logs client, method, target, status and milliseconds of each HTTP request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request, and logs it if the access log is started."""
        if scope["type"] != "http" or not access_logger.isEnabledFor(logging.INFO):
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


@dataclass
class Outcome:
    """Result of a gRPC call."""

    code: grpc.StatusCode = grpc.StatusCode.OK


@contextlib.contextmanager
def logged_call(method: str, client: str) -> Iterator[Outcome]:
    """Logs client, method, code and milliseconds of a gRPC call, which the block handles; it may set the code."""
    began = time.perf_counter()
    outcome = Outcome()
    try:
        yield outcome
    finally:
        if access_logger.isEnabledFor(logging.INFO):
            _log(client, f"gRPC {method}", outcome.code.name, began)


def _log(client: str, request: str, status: str, began: float) -> None:
    access_logger.info('%s "%s" %s %.1f ms', client, request, status, 1000 * (time.perf_counter() - began))


class RepeatFilter(logging.Filter):
    """Passes a message once in each period of `seconds`, with the number of messages dropped since."""

    def __init__(self, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        # Message -> time of its last pass, and the number dropped since.
        self._seen: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns True if a record passes."""
        key = f"{record.name} {str(record.msg)[:_KEY_CHARACTERS]}"
        now = self._clock()
        with self._lock:
            since, left_out = self._seen.get(key, (-self._seconds, 0))
            if now - since < self._seconds:
                self._seen[key] = (since, left_out + 1)
                return False
            if len(self._seen) >= _MAX_KEYS:
                self._seen.clear()
            self._seen[key] = (now, 0)
        if left_out:
            record.msg, record.args = f"{record.getMessage()} ({left_out} more in {now - since:.0f} s)", ()
        return True


def limit_repeated_messages() -> None:
    """Adds a `RepeatFilter` to the loggers whose messages clients can cause."""
    for name in _LIMITED_LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(existing, RepeatFilter) for existing in logger.filters):
            logger.addFilter(RepeatFilter())

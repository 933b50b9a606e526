"""A local server with the REST predict surface of TF Serving, for one exported model.

For trying an export and for tests: one model, its highest version, no batching of requests, no gRPC. It listens
on this machine only unless told otherwise, and knows no passwords.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import tensorflow as tf
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from bert_tf.export.rest import BAD_REQUEST, INTERNAL, NOT_FOUND, NOT_IMPLEMENTED, TOO_LARGE, RestError
from bert_tf.export.served_model import ServedModel

logger = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 16 * 2**20
# TensorFlow spreads one request over all cores; more at a time cost memory and win nothing.
_CONCURRENT_REQUESTS = 2
_GRACE_SECONDS = 10
_METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>[0-9]{1,19}))?"
_PREDICT = re.compile(_MODEL + ":predict")
_STATUS = re.compile(_MODEL + "(?P<metadata>/metadata)?")
# HTTP statuses of TensorFlow's error codes, as TF Serving maps them; 500 for the rest.
_STATUS_OF_CODE = {
    tf.errors.INVALID_ARGUMENT: BAD_REQUEST,
    tf.errors.FAILED_PRECONDITION: BAD_REQUEST,
    tf.errors.OUT_OF_RANGE: BAD_REQUEST,
    tf.errors.NOT_FOUND: NOT_FOUND,
    tf.errors.RESOURCE_EXHAUSTED: 429,
    tf.errors.UNIMPLEMENTED: NOT_IMPLEMENTED,
    tf.errors.UNAVAILABLE: 503,
    tf.errors.DEADLINE_EXCEEDED: 504,
}


def create_app(model_dir: str | Path, *, max_request_bytes: int = MAX_REQUEST_BYTES) -> Starlette:
    """Loads a model and returns the application that serves it.

    Args:
        model_dir: `saved_models/<name>`; its highest version is served under `<name>`.
        max_request_bytes: larger bodies are answered by status 413.

    Raises:
        FileNotFoundError: where `model_dir` holds no version.
        ValueError: where the version is no readable SavedModel.
    """
    return _application(ServedModel(model_dir), max_request_bytes)


def serve(model_dir: str | Path, host: str = "127.0.0.1", port: int = 8501) -> None:
    """Serves a model until SIGTERM or Ctrl-C; requests under way are answered first.

    Args:
        model_dir: `saved_models/<name>`.
        host: address to listen on.
        port: TCP port; 0 takes a free one. The URL is said on stderr.

    Raises:
        FileNotFoundError, ValueError: as `create_app`.
        OSError: where the address cannot be had.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
        model = ServedModel(model_dir)
        server = uvicorn.Server(
            uvicorn.Config(
                _application(model, MAX_REQUEST_BYTES),
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        listener.listen()
        url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/v1/models/{model.name}"
        print(
            f"serving version {model.version} of {model.name} at {url}\n"
            f"  curl -d '{model.example()}' {url}:predict\n"
            f"  stop with Ctrl-C",
            file=sys.stderr,
            flush=True,
        )
        with _stopped_by_signals():
            server.run(sockets=[listener])


def _application(model: ServedModel, max_request_bytes: int) -> Starlette:
    running = asyncio.Semaphore(_CONCURRENT_REQUESTS)

    async def answer(request: Request) -> Response:
        try:
            if request.method == "POST" and (found := _PREDICT.fullmatch(request.url.path)):
                body = await _body(request, max_request_bytes)
                async with running:
                    content = await run_in_threadpool(model.predict, found["name"], _version(found), body)
            elif request.method == "GET" and (found := _STATUS.fullmatch(request.url.path)):
                describe = model.metadata if found["metadata"] else model.status
                content = json.dumps(describe(found["name"], _version(found)), indent=1).encode()
            else:
                raise RestError(f"Malformed request: {request.method} {request.url.path}")
        except ClientDisconnect:
            raise
        except Exception as error:
            return _refusal(error)
        return Response(content, media_type="application/json")

    return Starlette(routes=[Route("/{path:path}", answer, methods=_METHODS)])


async def _body(request: Request, max_request_bytes: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > max_request_bytes:
            raise RestError(f"a request must have at most {max_request_bytes} bytes", TOO_LARGE)
        parts.append(part)
    return b"".join(parts)


def _refusal(error: Exception) -> Response:
    if isinstance(error, RestError):
        message, status = str(error), error.status
    elif isinstance(error, tf.errors.OpError):
        message, status = _reason(error), _STATUS_OF_CODE.get(error.error_code, INTERNAL)
    elif isinstance(error, UnicodeDecodeError):
        # TensorFlow's refusal quotes the request, and Python cannot read the quotation.
        message, status = "the request was refused; it holds bytes that are no UTF-8", BAD_REQUEST
    else:
        message, status = f"internal error: {type(error).__name__}", INTERNAL
    if status == INTERNAL:
        logger.error("a request failed", exc_info=error)
    return Response(json.dumps({"error": message}), status, media_type="application/json")


def _reason(error: tf.errors.OpError) -> str:
    """Returns what the graph said, without the Python side's preamble and names of inner functions."""
    message = error.message.rpartition("<stack traces unavailable>\n")[2]
    return re.sub(r"\s*\[Op:\w+\]$", "", message)


def _version(found: re.Match[str]) -> int | None:
    return int(found["version"]) if found["version"] else None


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Makes the signals that uvicorn raises again, after its own stop, end the block instead of the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ignore: Callable[..., None] = lambda *_: None  # noqa: E731
    former = signal.signal(signal.SIGTERM, ignore)
    try:
        yield
    except KeyboardInterrupt:
        logger.info("stopped by Ctrl-C")
    finally:
        signal.signal(signal.SIGTERM, former)

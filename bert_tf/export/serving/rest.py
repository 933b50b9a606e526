"""TF Serving's REST surface as an ASGI application, with the metrics, readiness and a page to try models on."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from bert_tf.export.plain import float32_digits
from bert_tf.export.serving import metrics, rest_json
from bert_tf.export.serving.errors import ServingError, let_go, serving_error
from bert_tf.export.serving.page import page
from bert_tf.export.serving.service import REST, Service, Target, unknown_signature_of_rest

_METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_ASK = re.compile(_MODEL + ":(?P<verb>predict|classify|regress)", re.IGNORECASE)
_DESCRIBE = re.compile(_MODEL + "(?P<metadata>/metadata)?", re.IGNORECASE)
# Of nginx; HTTP itself has no status for it.
_CLIENT_GONE = 499
_INT64_MAX = 2**63 - 1
_INT64_DIGITS = 19


@dataclass(frozen=True)
class RestOptions:
    """Bounds of the REST surface.

    Args:
        max_request_bytes: larger bodies are answered by status 413.
        body_seconds: a body that takes longer to arrive is answered by status 408.
        answer_seconds: a request that takes longer is answered by status 504.
        threads: requests that are read, waited for and written at once.
    """

    max_request_bytes: int = 16 * 2**20
    body_seconds: float = 30.0
    answer_seconds: float = 30.0
    threads: int = 64


def create_app(
    service: Service,
    options: RestOptions,
    lifespan: Callable[[Starlette], contextlib.AbstractAsyncContextManager[None]] | None = None,
) -> Starlette:
    """Returns the application that answers for a service.

    Args:
        service: has the models.
        options: bounds.
        lifespan: entered before the first request and left after the last.
    """
    surface = _Surface(service, options)
    return Starlette(
        lifespan=lifespan,
        routes=[
            Route("/", surface.page, methods=["GET"]),
            Route(metrics.PATH, surface.metrics, methods=["GET"]),
            Route("/readyz", surface.ready, methods=["GET"]),
            Route("/models", surface.labels, methods=["GET"]),
            Route("/{path:path}", surface.models, methods=_METHODS),
        ],
    )


class _Surface:
    """What answers each path."""

    def __init__(self, service: Service, options: RestOptions) -> None:
        self._service = service
        self._options = options
        self._threads = ThreadPoolExecutor(options.threads, "rest")

    async def models(self, request: Request) -> Response:
        try:
            with self._service.waiting.request() as arrived:
                return _json(await self._answer(request, arrived))
        except ClientDisconnect:
            # Nobody is there to read it.
            return Response(status_code=_CLIENT_GONE)
        except Exception as error:
            return _refusal(error)

    async def _answer(self, request: Request, arrived: Callable[[int], None]) -> bytes:
        path = request.url.path
        if request.method == "POST" and (found := _ASK.fullmatch(path)):
            body = await _body(request, arrived, self._options)
            return await self._in_thread(_asked, self._service, found, body, self._options.answer_seconds)
        if request.method == "GET" and (found := _DESCRIBE.fullmatch(path)):
            # At once, however many requests wait: servers are watched by their status.
            return _described(self._service, found)
        raise ServingError(f"Malformed request: {request.method} {path}")

    async def _in_thread(self, function: Callable[..., bytes], *args: Any) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(self._threads, functools.partial(function, *args))

    async def page(self, request: Request) -> Response:
        return Response(page(), media_type="text/html")

    async def metrics(self, request: Request) -> Response:
        return Response(self._service.metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    async def ready(self, request: Request) -> Response:
        states = {name: self._service.manager.ready(name) for name in self._service.manager.names}
        return _json(json.dumps({"ready": states}).encode(), 200 if all(states.values()) else 503)

    async def labels(self, request: Request) -> Response:
        return _json(json.dumps({"models": self._service.labels()}).encode())


def _json(content: bytes, status: int = 200) -> Response:
    return Response(content, status, media_type="application/json")


def _refusal(error: Exception) -> Response:
    told = serving_error(error)
    let_go(told)
    return _json(json.dumps({"error": str(told)}).encode(), told.http_status)


def _target(found: re.Match[str], signature: str = "", timeout: float | None = None) -> Target:
    digits = (found["version"] or "").lstrip("0")
    version = int(digits[: _INT64_DIGITS + 1] or 0) if found["version"] else None
    if version is not None and version > _INT64_MAX:
        raise ServingError(f"Failed to convert version: {digits[:80]} to numeric.")
    return Target(found["name"], version, found["label"], signature, timeout)


async def _body(request: Request, arrived: Callable[[int], None], options: RestOptions) -> bytes:
    """Returns the body of a request; `arrived` counts its bytes. Raises ServingError where it is too large or slow."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(options.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size > options.max_request_bytes:
                    message = f"a request must have at most {options.max_request_bytes} bytes"
                    raise ServingError(message, http_status=413)
                arrived(len(part))
                parts.append(part)
    except TimeoutError as error:
        message = f"the body must arrive within {options.body_seconds:g} seconds"
        raise ServingError(message, grpc.StatusCode.DEADLINE_EXCEEDED, http_status=408) from error
    return b"".join(parts)


def _asked(service: Service, found: re.Match[str], body: bytes, timeout: float) -> bytes:
    verb = found["verb"].lower()
    with service.request(found["name"], verb.capitalize(), REST):
        if verb == "predict":
            request = rest_json.Request.from_json(body)
            target = _target(found, request.signature, timeout)
            answer = service.predict(target, request.arrays, unknown_signature_of_rest)
            return rest_json.answer_json(answer.outputs, rows=request.rows)
        signature, examples = rest_json.examples_of(body)
        target = _target(found, signature, timeout)
        if verb == "regress":
            _, numbers = service.regress(target, examples)
            return rest_json.results_json([float32_digits(one.value) for one in numbers.regressions])
        _, classes = service.classify(target, examples)
        return rest_json.results_json(
            [[[one.label, float32_digits(one.score)] for one in row.classes] for row in classes.classifications]
        )


def _described(service: Service, found: re.Match[str]) -> bytes:
    target = _target(found)
    if found["metadata"]:
        version, signatures = service.metadata(target)
        shown = {
            name: MessageToDict(definition, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
            for name, definition in sorted(signatures.items())
        }
        document: dict[str, Any] = {
            "model_spec": {"name": target.name, "signature_name": "", "version": str(version)},
            "metadata": {"signature_def": {"signature_def": shown}},
        }
    else:
        states = [
            {
                "version": str(state.version),
                "state": state.state,
                "status": {"error_code": "UNKNOWN" if state.error else "OK", "error_message": state.error},
            }
            for state in service.status(target)
        ]
        document = {"model_version_status": states}
    return json.dumps(document, indent=1).encode()

"""TF Serving's REST interface as an ASGI application, with metrics, health checks and a web page for trying models."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from bert_tf.export.json_values import message_values
from bert_tf.serving import metrics
from bert_tf.serving.access import AccessOptions
from bert_tf.serving.errors import ServingError
from bert_tf.serving.http import json_bodies
from bert_tf.serving.http.access import AccessMiddleware, AccessRules
from bert_tf.serving.http.page import page, page_headers
from bert_tf.serving.http.request_body import BodyLimits, decompressed, read_body
from bert_tf.serving.http.responses import error_response, json_response
from bert_tf.serving.logs import AccessLogMiddleware
from bert_tf.serving.requests.admission import SMALL_BYTES, Admitted
from bert_tf.serving.requests.cancellation import Cancellation
from bert_tf.serving.requests.threads import RequestThreads
from bert_tf.serving.service import REST, Service, Target

_METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_ASK = re.compile(_MODEL + ":(?P<verb>predict|classify|regress)", re.IGNORECASE)
_DESCRIBE = re.compile(_MODEL + "(?P<metadata>/metadata)?", re.IGNORECASE)
# Status of nginx for a closed connection; HTTP itself has none.
_CLIENT_GONE = 499
_INT64_MAX = 2**63 - 1
_INT64_DIGITS = 19
# Fraction of the threads that large requests may use: parsing and writing one takes seconds.
_LARGE_SHARE = 0.125


@dataclass(frozen=True)
class RestOptions:
    """Limits and options of the REST interface."""

    body: BodyLimits = field(default_factory=BodyLimits)
    answer_seconds: float = 30.0  # time-out of a request; later ones return status 504
    threads: int = 64  # maximum number of requests that are processed at once
    hang_seconds: float = 120.0  # `/livez` fails if a request has waited or a batch has run for longer
    access: AccessOptions = field(default_factory=AccessOptions)
    metrics_path: str | None = metrics.PATH  # None for no metrics


def create_app(
    service: Service,
    options: RestOptions,
    lifespan: Callable[[Starlette], contextlib.AbstractAsyncContextManager[None]] | None = None,
    host: str = "127.0.0.1",
) -> Starlette:
    """Returns the ASGI application of a service for a server on `host`; `lifespan` surrounds all requests."""
    surface = _Surface(service, options)
    monitoring = [Route(options.metrics_path, surface.metrics, methods=["GET"])] if options.metrics_path else []
    return Starlette(
        lifespan=lifespan,
        exception_handlers={HTTPException: _no_route},
        middleware=[
            Middleware(AccessLogMiddleware),
            Middleware(AccessMiddleware, AccessRules(host, options.access)),
        ],
        routes=[
            *monitoring,
            Route("/", surface.page, methods=["GET"]),
            Route("/livez", surface.live, methods=["GET"]),
            Route("/readyz", surface.ready, methods=["GET"]),
            Route("/models", surface.labels, methods=["GET"]),
            Route("/models/{path:path}", surface.card, methods=["GET"]),
            Route("/{path:path}", surface.models, methods=_METHODS),
        ],
    )


class _Surface:
    """Handlers of the routes."""

    def __init__(self, service: Service, options: RestOptions) -> None:
        self._service = service
        self._options = options
        self._threads = RequestThreads(options.threads, "rest")
        self._large = asyncio.Semaphore(max(1, int(options.threads * _LARGE_SHARE)))

    async def models(self, request: Request) -> Response:
        try:
            with self._service.admission.request() as admitted:
                return json_response(await self._answer(request, admitted))
        except ClientDisconnect:
            # No client reads this response.
            return Response(status_code=_CLIENT_GONE)
        except Exception as error:
            return error_response(error)

    async def _answer(self, request: Request, admitted: Admitted) -> bytes:
        path = request.scope["path"]
        if request.method == "POST" and (match := _ASK.fullmatch(path)):
            body = await read_body(request, admitted, self._options.body)
            admitted.complete()
            cancellation = Cancellation()
            encoding = request.headers.get("content-encoding", "")
            work = functools.partial(self._run_model, match, body, encoding, admitted, cancellation)
            async with self._large if len(body) > SMALL_BYTES else contextlib.nullcontext():
                return await self._in_thread(request, work, cancellation)
        if request.method == "GET" and (match := _DESCRIBE.fullmatch(path)):
            # Not in a thread, so that waiting requests do not delay the status, which monitoring needs.
            return _describe(self._service, match)
        raise ServingError(f"Malformed request: {request.method} {path}")

    async def _in_thread(self, request: Request, work: Callable[[], bytes], cancellation: Cancellation) -> bytes:
        """Runs work in a thread, and cancels it if the client disconnects."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        gone = asyncio.ensure_future(_disconnected(request))
        awaited: set[asyncio.Future[Any]] = {running, gone}
        try:
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            cancellation.cancel()
            # The bytes of the request stay counted until the thread has finished.
            await asyncio.wait({running})
            running.exception()
            raise ClientDisconnect
        finally:
            gone.cancel()

    def _run_model(
        self, match: re.Match[str], body: bytes, encoding: str, admitted: Admitted, cancellation: Cancellation
    ) -> bytes:
        cancellation.check()
        body = decompressed(body, encoding, admitted, self._options.body, cancellation)
        verb, timeout = match["verb"].lower(), self._options.answer_seconds
        with self._service.request(match["name"], verb, REST):
            if verb == "predict":
                request = json_bodies.Request.from_json(body)
                target = _target(match, request.signature, timeout, cancellation)
                _, outputs = self._service.predict(target, request.arrays)
                return json_bodies.answer_json(outputs, rows=request.rows)
            signature, examples = json_bodies.examples_of(body)
            target = _target(match, signature, timeout, cancellation)
            _, result = self._service.run_examples(target, verb, examples)
            return json_bodies.results_json(result)

    async def page(self, request: Request) -> Response:
        content = page(self._options.metrics_path)
        return Response(content, headers=page_headers(content), media_type="text/html")

    async def metrics(self, request: Request) -> Response:
        return Response(self._service.metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    async def live(self, request: Request) -> Response:
        seconds = self._service.busy_seconds()
        alive = seconds <= self._options.hang_seconds
        return json_response(
            json.dumps({"alive": alive, "busy_seconds": round(seconds, 1)}).encode(), 200 if alive else 503
        )

    async def ready(self, request: Request) -> Response:
        states = {name: self._service.ready(name) for name in self._service.manager.names}
        return json_response(json.dumps({"ready": states}).encode(), 200 if all(states.values()) else 503)

    async def labels(self, request: Request) -> Response:
        return json_response(json.dumps({"models": self._service.labels()}).encode())

    async def card(self, request: Request) -> Response:
        try:
            match = _DESCRIBE.fullmatch(f"/v1{request.scope['path']}")
            if match is None or match["metadata"]:
                raise ServingError(f"Malformed request: GET {request.scope['path']}")
            return json_response(json.dumps(self._service.card(_target(match))).encode())
        except ServingError as error:
            return error_response(error)


async def _no_route(request: Request, error: Any) -> Response:
    """Returns the error for requests without a route, such as a path with a line break."""
    return error_response(ServingError(f"Malformed request: {error.detail}", http_status=error.status_code))


async def _disconnected(request: Request) -> None:
    """Waits until the client of a request disconnects, after its body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _target(
    match: re.Match[str], signature: str = "", timeout: float | None = None, cancellation: Cancellation | None = None
) -> Target:
    digits = (match["version"] or "").lstrip("0")
    version = int(digits[: _INT64_DIGITS + 1] or 0) if match["version"] else None
    if version is not None and version > _INT64_MAX:
        raise ServingError(f"Failed to convert version: {digits[:80]} to numeric.")
    return Target(match["name"], version, match["label"], signature, timeout, cancellation or Cancellation(), REST)


def _describe(service: Service, match: re.Match[str]) -> bytes:
    target = _target(match)
    if match["metadata"]:
        version, signatures = service.metadata(target)
        definitions = {name: message_values(definition) for name, definition in sorted(signatures.items())}
        document: dict[str, Any] = {
            "model_spec": {"name": target.name, "signature_name": "", "version": str(version)},
            "metadata": {"signature_def": {"signature_def": definitions}},
        }
    else:
        states = [
            {
                "version": str(state.version),
                "state": state.state,
                "status": {"error_code": state.error_code, "error_message": state.error},
            }
            for state in service.status(target)
        ]
        document = {"model_version_status": states}
    return json.dumps(document, indent=1).encode()

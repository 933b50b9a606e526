"""The embedded server: REST and gRPC as TF Serving speaks them, for this machine and for tests.

It listens on this machine only unless told otherwise, and knows no passwords. Several workers are several processes
with the models loaded in each; one that dies is started again while the others answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from uvicorn.supervisors.multiprocess import Multiprocess

from bert_tf.config import local_path
from bert_tf.export.serving.batching import BatchingOptions
from bert_tf.export.serving.configuration import ServedModel
from bert_tf.export.serving.errors import ServingError
from bert_tf.export.serving.grpc_services import GrpcOptions, create_grpc_server
from bert_tf.export.serving.loaded_version import LoadedVersion
from bert_tf.export.serving.manager import ModelManager
from bert_tf.export.serving.metrics import Metrics
from bert_tf.export.serving.rest import RestOptions, create_app
from bert_tf.export.serving.service import Service
from bert_tf.export.serving.waiting import WaitingBytes
from bert_tf.export.versions import latest_version, versions
from bert_tf.export.warmup import read_warmup, request_of

logger = logging.getLogger(__name__)

_GRACE_SECONDS = 10


@dataclass(frozen=True)
class ServerOptions:
    """Where and how a server answers.

    Args:
        host: address to listen on.
        port: REST; 0 takes a free one.
        grpc_port: gRPC; 0 takes a free one, None has no gRPC.
        workers: processes.
        batching: how requests are joined.
        poll_seconds: how often new versions are looked for; 0 does so at the start only.
        warm_up: whether a version's warm-up requests are played before it serves.
        max_waiting_bytes: requests of all clients together; what comes beyond is refused (503, UNAVAILABLE).
        rest: bounds of REST.
        grpc: bounds of gRPC.
    """

    host: str = "127.0.0.1"
    port: int = 8501
    grpc_port: int | None = 8500
    workers: int = 1
    batching: BatchingOptions = field(default_factory=BatchingOptions)
    poll_seconds: float = 1.0
    warm_up: bool = True
    max_waiting_bytes: int = 64 * 2**20
    rest: RestOptions = field(default_factory=RestOptions)
    grpc: GrpcOptions = field(default_factory=GrpcOptions)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"`workers` must be at least 1. Received: {self.workers}")
        if self.poll_seconds < 0:
            raise ValueError(f"`poll_seconds` must not be negative. Received: {self.poll_seconds}")


@dataclass(frozen=True)
class Ports:
    """TCP ports that were had.

    Args:
        rest: REST.
        grpc: gRPC; None for none.
    """

    rest: int
    grpc: int | None


@contextlib.contextmanager
def loaded_service(models: Sequence[ServedModel], options: ServerOptions) -> Iterator[Service]:
    """Loads models for a block, and unloads them once the requests under way are answered.

    Args:
        models: what to serve.
        options: how.

    Yields:
        What answers for them; models that could not be loaded are tried again when they change.
    """
    metrics = Metrics()

    def load(name: str, folder: Path) -> LoadedVersion:
        version = LoadedVersion(folder, options.batching, functools.partial(metrics.ran, name))
        if options.warm_up:
            played = version.warm_up(request_of(log) for log in read_warmup(folder))
            logger.info("played %d warm-up requests of version %d of %s", played, version.version, name)
        return version

    with ModelManager(models, load, options.poll_seconds) as manager:
        yield Service(manager, metrics, WaitingBytes(options.max_waiting_bytes))


def serve(models: str | Path | Sequence[ServedModel], options: ServerOptions | None = None) -> None:
    """Serves models until SIGTERM or Ctrl-C; requests under way are answered first.

    Args:
        models: `saved_models/NAME`, served as NAME, or a list of models.
        options: where and how.

    Raises:
        FileNotFoundError: where a model has no version.
        ValueError: where none of a model's versions can be served.
        OSError: where an address cannot be had.
    """
    options = options or ServerOptions()
    if isinstance(models, str | Path):
        folder = local_path(models).resolve()
        models = [ServedModel(folder.name, folder)]
    for model in models:
        latest_version(model.base_path)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_bound(options.host, options.port))
        ports = Ports(listener.getsockname()[1], None)
        if options.grpc_port is not None:
            # Bound by this process too, so that no other program takes the port between two workers.
            reserved = stack.enter_context(_bound(options.host, options.grpc_port, shared=True))
            ports = Ports(ports.rest, reserved.getsockname()[1])
        factory = functools.partial(application, tuple(models), options, ports)
        if options.workers > 1:
            listener.listen()
            listener.set_inheritable(True)
            _say(models, options, ports)
            Multiprocess(_config(factory, options), [listener]).run()
            return
        app = factory(strict=True)
        stack.callback(app.state.close)
        listener.listen()
        _say(models, options, ports)
        with _stopped_by_signals():
            uvicorn.Server(_config(app, options)).run(sockets=[listener])


def application(
    models: Sequence[ServedModel], options: ServerOptions, ports: Ports, *, strict: bool = False
) -> Starlette:
    """Loads models, starts gRPC, and returns the application that answers REST.

    It stops gRPC and unloads the models when it is shut down, or by its `state.close`.

    Args:
        models: what to serve.
        options: how.
        ports: where.
        strict: whether a model that has no version to serve is an error; it is shown by `/readyz` otherwise.

    Raises:
        ValueError: for such a model.
        OSError: where gRPC's address cannot be had.
    """
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(loaded_service(models, options))
        for name in service.manager.names:
            if strict and not service.manager.ready(name):
                raise ValueError(f"model {name} cannot be served: {_reason(service, name)}")
        if ports.grpc is not None:
            stack.enter_context(_grpc_listening(service, options, ports.grpc))
        close = stack.pop_all().close

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.get_running_loop().run_in_executor(None, close)

    app = create_app(service, options.rest, lifespan)
    app.state.close = close
    return app


def _reason(service: Service, name: str) -> str:
    """Returns why a model has no version that answers."""
    try:
        return service.manager.status(name)[0].error
    except ServingError as error:
        # None of the versions that are there is one that is wanted.
        return str(error)


@contextlib.contextmanager
def _grpc_listening(service: Service, options: ServerOptions, port: int) -> Iterator[None]:
    server = create_grpc_server(service, options.grpc)
    address = f"{_in_url(options.host)}:{port}"
    try:
        server.add_insecure_port(address)
    except RuntimeError as error:
        raise OSError(f"cannot listen on {address}: {error}") from error
    server.start()
    try:
        yield
    finally:
        server.stop(_GRACE_SECONDS).wait()


@contextlib.contextmanager
def _bound(host: str, port: int, *, shared: bool = False) -> Iterator[socket.socket]:
    """Gives an address to a block; `shared` lets others of this user listen on it too."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as bound:
        if not shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            if shared and port:
                # A port that may be shared is also had where another server listens on it already.
                with socket.socket(bound.family) as alone:
                    alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    alone.bind((host, port))
            if shared:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            bound.bind((host, port))
        except OSError as error:
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
        yield bound


def _config(app: Callable[..., Starlette] | Starlette, options: ServerOptions) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=not isinstance(app, Starlette),
        workers=options.workers,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        # A worker that loads a large model does not answer for some seconds.
        timeout_worker_healthcheck=60,
    )


def _say(models: Sequence[ServedModel], options: ServerOptions, ports: Ports) -> None:
    url = f"http://{_in_url(options.host)}:{ports.rest}"
    lines = [
        f"serving version {', '.join(map(str, model.wanted(versions(model.base_path))))} of {model.name} at "
        f"{url}/v1/models/{model.name}"
        for model in models
    ]
    if ports.grpc is not None:
        lines.append(f"  gRPC on {_in_url(options.host)}:{ports.grpc}")
    if options.workers > 1:
        lines.append(f"  {options.workers} workers; {url}/readyz says when they answer")
    lines += [f"  {url}/ is a page to try them on", "  stop with Ctrl-C"]
    print("\n".join(lines), file=sys.stderr, flush=True)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


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

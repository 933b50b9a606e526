"""The embedded server: REST and gRPC as TF Serving speaks them, for this machine and for tests.

It listens on this machine only unless told otherwise. TLS and a bearer token are optional. Several workers are several
processes with the models loaded in each; one that dies is started again while the others answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from starlette.applications import Starlette

from bert_tf.config import local_path
from bert_tf.export.versions import latest_version
from bert_tf.export.warmup import read_warmup, request_of
from bert_tf.serving.access import is_loopback
from bert_tf.serving.access_log import start_access_log
from bert_tf.serving.admission import Admission
from bert_tf.serving.batching import BatchingOptions
from bert_tf.serving.configuration import ServedModel
from bert_tf.serving.grpc_services import GrpcOptions, create_grpc_server
from bert_tf.serving.http_connection import BoundedConnection, ConnectionLimits, reserve_descriptors
from bert_tf.serving.http_server import DrainingConfig, DrainingServer, DrainingWorkers
from bert_tf.serving.loaded_version import LoadedVersion
from bert_tf.serving.log_limits import limit_repeated_messages
from bert_tf.serving.manager import LOAD_THREADS, ModelManager
from bert_tf.serving.metrics import Metrics, shared_folder
from bert_tf.serving.reloading import ModelConfigFile, why_not_ready
from bert_tf.serving.rest import RestOptions, create_app
from bert_tf.serving.service import Service
from bert_tf.serving.tensors import MAX_TEXT_BYTES
from bert_tf.serving.tls import TlsFiles

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
        load_threads: versions that are loaded at once; each is in memory beside those that serve.
        model_config_file: where the models are from; read again every `model_config_poll_seconds`.
        model_config_poll_seconds: 0 reads the file at the start only.
        warm_up: whether a version's warm-up requests are played before it serves.
        max_waiting_bytes: bytes of the large requests that arrive, and of those being answered; more are refused (503,
            UNAVAILABLE).
        max_text_bytes: of one text; longer ones are refused (400, INVALID_ARGUMENT).
        connections: bounds of the connections of REST; gRPC takes as many.
        tls: certificate and key in PEM files; None for plain HTTP and gRPC.
        drain_seconds: that the server still answers for when it is told to stop, while `/readyz` says 503.
        access_log: whether each request is logged.
        rest: bounds of REST.
        grpc: bounds of gRPC.
    """

    host: str = "127.0.0.1"
    port: int = 8501
    grpc_port: int | None = 8500
    workers: int = 1
    batching: BatchingOptions = field(default_factory=BatchingOptions)
    poll_seconds: float = 1.0
    load_threads: int = LOAD_THREADS
    model_config_file: Path | None = None
    model_config_poll_seconds: float = 0.0
    warm_up: bool = True
    max_waiting_bytes: int = 64 * 2**20
    max_text_bytes: int = MAX_TEXT_BYTES
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    tls: TlsFiles | None = None
    drain_seconds: float = 1.0
    access_log: bool = False
    rest: RestOptions = field(default_factory=RestOptions)
    grpc: GrpcOptions = field(default_factory=GrpcOptions)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"`workers` must be at least 1. Received: {self.workers}")
        if self.poll_seconds < 0:
            raise ValueError(f"`poll_seconds` must not be negative. Received: {self.poll_seconds}")
        if self.load_threads < 1:
            raise ValueError(f"`load_threads` must be at least 1. Received: {self.load_threads}")
        if self.model_config_poll_seconds < 0 or (self.model_config_poll_seconds and self.model_config_file is None):
            raise ValueError(
                "`model_config_poll_seconds` must not be negative, and needs a `model_config_file`. "
                f"Received: {self.model_config_poll_seconds}"
            )
        if self.grpc.allow_reload_config and self.workers > 1:
            raise ValueError(
                "`allow_reload_config` must be off with several workers, because a request reaches only one of them. "
                f"Change the `model_config_file` and poll it. Received: {self.workers} workers"
            )


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
    metrics = Metrics(shared=options.workers > 1)

    def load(name: str, folder: Path) -> LoadedVersion:
        version = LoadedVersion(folder, options.batching, functools.partial(metrics.batch, name))
        if options.warm_up:
            played = version.warm_up(request_of(log) for log in read_warmup(folder))
            logger.info("played %d warm-up requests of version %d of %s", played, version.version, name)
        return version

    with contextlib.ExitStack() as stack:
        file = None
        if options.model_config_file is not None and options.model_config_poll_seconds:
            file = ModelConfigFile(options.model_config_file, models)
            # A worker that is started again serves what the file says by then.
            file.changed()
            models = file.models
        manager = stack.enter_context(
            ModelManager(models, load, options.poll_seconds, load_threads=options.load_threads)
        )
        if file is not None:
            stack.enter_context(file.watched(manager.reload, options.model_config_poll_seconds))
        yield Service(manager, metrics, Admission(options.max_waiting_bytes), options.max_text_bytes)


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
            _say(models, options, ports, None)
            stack.enter_context(shared_folder())
            DrainingWorkers(_config(factory, options), [listener]).run()
            return
        app = factory(strict=True)
        stack.callback(app.state.close)
        listener.listen()
        _say(models, options, ports, app.state.manager)
        with _stopped_by_signals():
            DrainingServer(_config(app, options)).run(sockets=[listener])


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
    limit_repeated_messages()
    if options.access_log:
        start_access_log()
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(loaded_service(models, options))
        for name in service.manager.names:
            if strict and not service.manager.ready(name):
                raise ValueError(f"model {name} cannot be served: {why_not_ready(service.manager, name)}")
        if ports.grpc is not None:
            stack.enter_context(_grpc_listening(service, options, ports.grpc))
        close = stack.pop_all().close

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.get_running_loop().run_in_executor(None, close)

    app = create_app(service, options.rest, lifespan, options.host)
    app.state.close = close
    app.state.drain = service.drain
    app.state.manager = service.manager
    return app


@contextlib.contextmanager
def _grpc_listening(service: Service, options: ServerOptions, port: int) -> Iterator[None]:
    server = create_grpc_server(service, options.grpc)
    address = f"{_in_url(options.host)}:{port}"
    try:
        if options.tls is None:
            server.add_insecure_port(address)
        else:
            server.add_secure_port(address, options.tls.grpc_credentials())
    except RuntimeError as error:
        raise OSError(f"cannot listen on {address}: {error}") from error
    server.start()
    try:
        yield
    finally:
        service.drain()
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


def _config(app: Callable[..., Starlette] | Starlette, options: ServerOptions) -> DrainingConfig:
    # gRPC has the connections of its listener in the same process.
    room = reserve_descriptors(options.connections.connections, 1 if options.grpc_port is None else 2)
    limits = dataclasses.replace(options.connections, connections=room)
    return DrainingConfig(
        app,
        drain_seconds=options.drain_seconds,
        factory=not isinstance(app, Starlette),
        http=functools.partial(BoundedConnection, limits=limits),
        workers=options.workers,
        ssl_certfile=options.tls and options.tls.certificate,
        ssl_keyfile=options.tls and options.tls.key,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        # A worker that loads a large model does not answer for some seconds.
        timeout_worker_healthcheck=60,
    )


def _say(models: Sequence[ServedModel], options: ServerOptions, ports: Ports, manager: ModelManager | None) -> None:
    url = f"http{'s' if options.tls else ''}://{_in_url(options.host)}:{ports.rest}"
    names = [model.name for model in models] if manager is None else manager.names
    lines = [f"serving {_serving(manager, name)}{name} at {url}/v1/models/{name}" for name in names]
    if ports.grpc is not None:
        lines.append(f"  gRPC on {_in_url(options.host)}:{ports.grpc}")
    if options.workers > 1:
        lines.append(f"  {options.workers} workers; {url}/readyz says when they answer")
    lines += [f"  {url}/ is a page to try them on", *_warnings(options), "  stop with Ctrl-C"]
    print("\n".join(lines), file=sys.stderr, flush=True)


def _warnings(options: ServerOptions) -> list[str]:
    """Returns what someone should know who opens the server to other machines."""
    missing = {
        "TLS (--tls_certificate, --tls_key)": options.tls is None,
        "authentication (--token_file)": options.rest.access.token is None,
    }
    named = " and no ".join(name for name, is_missing in missing.items() if is_missing)
    if is_loopback(options.host) or not named:
        return []
    return [f"  warning: other machines can reach {options.host}, and there is no {named}"]


def _serving(manager: ModelManager | None, name: str) -> str:
    """Returns the versions of a model that answer; nothing where they are known to the workers only."""
    if manager is None:
        return ""
    return f"version {', '.join(map(str, manager.serving(name)))} of "


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

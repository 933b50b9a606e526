"""The embedded server with TF Serving's REST and gRPC interfaces, for local use and for tests.

It listens on the loopback address by default. TLS and a bearer token are optional. Each worker is a process that loads
all models; a worker that dies is restarted while the others answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from starlette.applications import Starlette

from bert_tf.config.errors import check_fields
from bert_tf.entry.listening import bound_socket
from bert_tf.export.warmup import read_warmup, request_of
from bert_tf.serving.access import TlsFiles, is_loopback
from bert_tf.serving.grpc.server import GrpcOptions, GrpcServer
from bert_tf.serving.http.app import RestOptions, create_app
from bert_tf.serving.http.connection import BoundedConnection, ConnectionLimits, reserve_descriptors
from bert_tf.serving.http.server import DrainingConfig, DrainingServer
from bert_tf.serving.http.workers import Workers
from bert_tf.serving.logs import limit_repeated_messages, start_access_log
from bert_tf.serving.metrics import Metrics, shared_folder
from bert_tf.serving.models.batching import BatchingOptions
from bert_tf.serving.models.loaded_version import LoadedVersion
from bert_tf.serving.models.manager import LOAD_THREADS, ModelManager
from bert_tf.serving.models.trial import try_version
from bert_tf.serving.models.version_source import check_has_version
from bert_tf.serving.models.versions import ServedModel, model_at
from bert_tf.serving.reloading import ModelConfigFile, why_not_ready
from bert_tf.serving.requests.admission import Admission
from bert_tf.serving.requests.tensors import MAX_TEXT_BYTES
from bert_tf.serving.service import Service

logger = logging.getLogger(__name__)

_GRACE_SECONDS = 10


@dataclass(frozen=True)
class ServerOptions:
    """Options of a server.

    Args:
        host: address to listen on.
        port: REST port; 0 for any free one.
        grpc_port: gRPC port; 0 for any free one, None for no gRPC.
        workers: number of worker processes.
        batching: batching options.
        poll_seconds: polling interval for new versions in seconds; 0 to look for versions only at the start.
        load_threads: maximum number of concurrent loads; each holds a version in memory in addition to those that
            serve.
        model_config_file: configuration file of the models, or its URL, polled every `model_config_poll_seconds`.
        model_config_poll_seconds: polling interval of the file in seconds; 0 to read it only at the start.
        warm_up: True to run a version's warm-up requests before it serves.
        trust_models: True to serve models that read or write files, open connections or run other code than
            TensorFlow's.
        trial_load: True to load a version in another process first, so that one that crashes TensorFlow leaves the
            server and its other versions; a load takes seconds more.
        max_waiting_bytes: maximum bytes of the large requests that are arriving, and of those being answered; more are
            rejected (503, UNAVAILABLE).
        max_text_bytes: maximum bytes of one text; longer ones are rejected (400, INVALID_ARGUMENT).
        connections: limits of REST connections; gRPC has the same maximum number.
        tls: certificate and key in PEM files; None for plain HTTP and gRPC. SIGHUP reads them and the tokens again.
        drain_seconds: seconds for which the server still accepts requests after a stop signal, while `/readyz` returns
            503.
        access_log: True to log each request.
        rest: limits and options of REST.
        grpc: limits and options of gRPC.
    """

    host: str = "127.0.0.1"
    port: int = 8501
    grpc_port: int | None = 8500
    workers: int = 1
    batching: BatchingOptions = field(default_factory=BatchingOptions)
    poll_seconds: float = 1.0
    load_threads: int = LOAD_THREADS
    model_config_file: Path | str | None = None
    model_config_poll_seconds: float = 0.0
    warm_up: bool = True
    trust_models: bool = False
    trial_load: bool = False
    max_waiting_bytes: int = 64 * 2**20
    max_text_bytes: int = MAX_TEXT_BYTES
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    tls: TlsFiles | None = None
    drain_seconds: float = 1.0
    access_log: bool = False
    rest: RestOptions = field(default_factory=RestOptions)
    grpc: GrpcOptions = field(default_factory=GrpcOptions)

    def __post_init__(self) -> None:
        check_fields(self, ["workers", "load_threads"], lambda value: value >= 1, "must be at least 1")
        check_fields(self, ["poll_seconds"], lambda value: value >= 0, "must not be negative")
        if self.model_config_poll_seconds < 0 or (self.model_config_poll_seconds and self.model_config_file is None):
            raise ValueError(
                "`model_config_poll_seconds` must not be negative, and needs a `model_config_file`. "
                f"Received: {self.model_config_poll_seconds}"
            )
        if self.grpc.allow_reload_config and self.workers > 1:
            raise ValueError(
                "`allow_reload_config` must be off with several workers, because a request reaches only one of them. "
                f"Received: {self.workers} workers. Change and poll the `model_config_file` instead."
            )


@dataclass(frozen=True)
class Ports:
    """TCP ports of a running server."""

    rest: int
    grpc: int | None  # None for no gRPC


@contextlib.contextmanager
def loaded_service(models: Sequence[ServedModel], options: ServerOptions) -> Iterator[Service]:
    """Loads models for a block, yields their service, and unloads them after the current requests."""
    metrics = Metrics(shared=options.workers > 1)

    def load(name: str, folder: Path) -> LoadedVersion:
        if options.trial_load:
            try_version(folder, trusted=options.trust_models)
        count_batch = functools.partial(metrics.batch, name)
        version = LoadedVersion(folder, options.batching, count_batch, trusted=options.trust_models)
        if options.warm_up:
            count = version.warm_up(request_of(log) for log in read_warmup(folder))
            logger.info("ran %d warm-up requests of version %d of %s", count, version.version, name)
        return version

    with contextlib.ExitStack() as stack:
        file = None
        if options.model_config_file is not None and options.model_config_poll_seconds:
            file = ModelConfigFile(options.model_config_file, models)
            # A restarted worker serves the models of the current file.
            file.changed()
            models = file.models
        manager = stack.enter_context(
            ModelManager(models, load, options.poll_seconds, load_threads=options.load_threads)
        )
        if file is not None:
            stack.enter_context(file.watched(manager.reload, options.model_config_poll_seconds))
        yield Service(manager, metrics, Admission(options.max_waiting_bytes), options.max_text_bytes)


def serve(models: str | Path | Sequence[ServedModel], options: ServerOptions | None = None) -> None:
    """Serves models until SIGTERM or Ctrl-C; current requests are answered first.

    Args:
        models: `saved_models/NAME` or its URL, served as NAME, or a list of models.
        options: options of the server.

    Raises:
        FileNotFoundError: if a model has no version.
        ValueError: if no version of a model can be served.
        OSError: if the server cannot listen on an address.

    Example:
        >>> import multiprocessing
        >>> from bert_tf.client import connect
        >>> from bert_tf.serving.server import ServerOptions
        >>> arguments = ("saved_models/my_task", ServerOptions(port=8501, grpc_port=None))
        >>> server = multiprocessing.get_context("spawn").Process(target=bert_tf.serve, args=arguments)
        >>> server.start()
        >>> sorted(connect("http://127.0.0.1:8501/v1/models/my_task", retries=9).predict(["a good film"])[0])
        ['label', 'probabilities']
        >>> server.terminate()
    """
    options = options or ServerOptions()
    if isinstance(models, str | Path):
        models = [model_at(models)]
    for model in models:
        check_has_version(model.base_path)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(bound_socket(options.host, options.port))
        ports = Ports(listener.getsockname()[1], None)
        if options.grpc_port is not None:
            # Also bound by this process, so that no other program takes the port while a worker restarts.
            reserved = stack.enter_context(bound_socket(options.host, options.grpc_port, shared=True))
            ports = Ports(ports.rest, reserved.getsockname()[1])
        factory = functools.partial(application, tuple(models), options, ports)
        if options.workers > 1:
            listener.listen()
            _print_addresses(models, options, ports, None)
            stack.enter_context(shared_folder())
            Workers(_config(factory, options), listener).run()
            return
        app = factory(strict=True)
        stack.callback(app.state.close)
        listener.listen()
        _print_addresses(models, options, ports, app.state.manager)
        with _stopped_by_signals():
            DrainingServer(_config(app, options)).run(sockets=[listener])


def application(
    models: Sequence[ServedModel], options: ServerOptions, ports: Ports, *, strict: bool = False
) -> Starlette:
    """Loads models, starts gRPC, and returns the REST application.

    The application stops gRPC and unloads the models when it shuts down or its `state.close` is called. A model without
    an available version raises ValueError if `strict`; otherwise `/readyz` reports it.
    """
    limit_repeated_messages()
    try:
        # A worker that replaces another one has the options of the start.
        _reread(options)
    except (ValueError, OSError) as error:
        logger.error("tokens are those of the start: %s", error)
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
    server = GrpcServer(service, options.grpc)
    address = f"{_in_url(options.host)}:{port}"
    try:
        server.add_port(address, options.tls and options.tls.grpc_credentials())
    except RuntimeError as error:
        # Ends its thread.
        server.stop(None)
        raise OSError(f"cannot listen on {address}: {error}") from error
    server.start()
    try:
        yield
    finally:
        service.drain()
        server.stop(_GRACE_SECONDS)


def _config(app: Callable[..., Starlette] | Starlette, options: ServerOptions) -> DrainingConfig:
    # The same process also holds the connections of gRPC.
    room = reserve_descriptors(options.connections.connections, 1 if options.grpc_port is None else 2)
    limits = dataclasses.replace(options.connections, connections=room)
    return DrainingConfig(
        app,
        drain_seconds=options.drain_seconds,
        factory=not isinstance(app, Starlette),
        http=functools.partial(BoundedConnection, limits=limits),
        workers=options.workers,
        reread=functools.partial(_reread, options),
        timeout_graceful_shutdown=_GRACE_SECONDS,
        # A worker does not answer for some seconds while it loads a large model.
        timeout_worker_healthcheck=60,
        **(options.tls.http_options() if options.tls else {}),
    )


def _reread(options: ServerOptions) -> None:
    """Reads the tokens again. Raises ConfigError or OSError for these, or for a certificate that cannot be used."""
    if options.tls is not None:
        # Checks the files.
        dataclasses.replace(options.tls)
    if options.rest.access.tokens is not None:
        options.rest.access.tokens.reload()


def _print_addresses(
    models: Sequence[ServedModel], options: ServerOptions, ports: Ports, manager: ModelManager | None
) -> None:
    url = f"http{'s' if options.tls else ''}://{_in_url(options.host)}:{ports.rest}"
    lines = []
    for name in [model.name for model in models] if manager is None else manager.names:
        # Only the workers know the versions that they serve.
        versions = "" if manager is None else f"version {', '.join(map(str, manager.serving(name)))} of "
        lines.append(f"serving {versions}{name} at {url}/v1/models/{name}")
    if ports.grpc is not None:
        lines.append(f"  gRPC on {_in_url(options.host)}:{ports.grpc}")
    if options.workers > 1:
        lines.append(f"  {options.workers} workers; readiness: {url}/readyz")
    lines += [f"  web page for trying the models: {url}/", *_warnings(options), "  stop with Ctrl-C"]
    print("\n".join(lines), file=sys.stderr, flush=True)


def _warnings(options: ServerOptions) -> list[str]:
    """Returns warnings about changes by request, and about other machines without TLS or authentication."""
    warnings = []
    if options.grpc.allow_reload_config:
        warnings.append(
            "  warning: every client of the gRPC port can end models, and make the server load and show any directory "
            "that it can read (--allow_reload_config)"
        )
    missing = {
        "TLS (--tls_certificate, --tls_key)": options.tls is None,
        "authentication (--token_file)": options.rest.access.tokens is None,
    }
    named = " and no ".join(name for name, is_missing in missing.items() if is_missing)
    if not is_loopback(options.host) and named:
        warnings.append(f"  warning: other machines can reach {options.host}, and there is no {named}")
    return warnings


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Ends the block instead of the process if uvicorn raises its stop signals again after its own shutdown."""
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

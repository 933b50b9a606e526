"""`bert-tf serve`: serves SavedModels with TF Serving's REST and gRPC APIs."""

from __future__ import annotations

import argparse
import functools
import tempfile
from pathlib import Path
from typing import Any

from bert_tf.commands.inputs import check_model_directory, check_path, check_stored_model
from bert_tf.config import ConfigError
from bert_tf.entry.flags import boolean
from bert_tf.entry.listening import bound_socket
from bert_tf.storage import input_path, is_url

_DEFAULT_PORT = 8501
# TF Serving's default model name.
_DEFAULT_NAME = "default"
# Flags of files.
_FILES = (
    "batching_parameters_file", "model_config_file", "monitoring_config_file",
    "tls_certificate", "tls_key", "tls_client_authority", "ssl_config_file", "token_file",
)  # fmt: skip
# Minimum value of each numeric flag.
_LOWEST = {
    **dict.fromkeys(("--port", "--rest_api_port", "--drain_seconds"), 0),
    **dict.fromkeys(("--file_system_poll_wait_seconds", "--model_config_file_poll_wait_seconds"), 0),
    **dict.fromkeys(("--workers", "--num_load_threads", "--max_connections", "--rest_api_timeout_in_ms"), 1),
    **dict.fromkeys(("--max_request_bytes", "--max_text_bytes", "--max_waiting"), 1),
    "--grpc_port": -1,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    models = parser.add_mutually_exclusive_group(required=True)
    models.add_argument(
        "--model", type=Path, nargs="+", help="one or more directories saved_models/NAME, or their URLs"
    )
    models.add_argument("--model_config_file", type=Path, help="TF Serving's models.config with names, paths, labels")
    one_model = "TF Serving's flag: directory of one model, named by --model_name"
    models.add_argument("--model_base_path", type=Path, help=one_model)
    this_machine = "address to listen at; default: 127.0.0.1, this machine only"
    parser.add_argument("--host", default="127.0.0.1", help=this_machine)
    number = functools.partial(parser.add_argument, type=int)
    number("--port", help="REST port, 0 for a free one; default: 8501")
    number("--grpc_port", default=8500, help="gRPC port, 0 for a free one, -1 for none; default: 8500")
    number("--workers", default=1, help="number of processes, each with all models loaded; default: 1")
    batching = parser.add_mutually_exclusive_group()
    batching.add_argument("--batching_parameters_file", type=Path, help="TF Serving's batching.config")
    batching.add_argument("--no_batching", action="store_true", help="run each request separately")
    switch = functools.partial(parser.add_argument, action="store_true")
    switch("--no_warmup", help="skip the warm-up requests: the server is ready sooner, the first request is slower")
    switch("--packed_weights", help="keep kernels packed by oneDNN: faster bfloat16 models, more memory")
    _add_loading(parser.add_argument_group("models and versions at run time"))
    _add_limits(parser.add_argument_group("limits"))
    _add_access(parser.add_argument_group("access"))
    _add_tf_serving_names(parser.add_argument_group("TF Serving's names", "its --port is --grpc_port here"))


def _add_loading(group: argparse._ArgumentGroup) -> None:
    seconds = functools.partial(group.add_argument, type=float, metavar="SECONDS")
    checks = "seconds between two checks for new versions, 0 for only at the start; default: 1"
    seconds("--file_system_poll_wait_seconds", default=1.0, help=checks)
    reads = "seconds between two reads of --model_config_file, 0 for only at the start; default: 0"
    seconds("--model_config_file_poll_wait_seconds", default=0.0, help=reads)
    group.add_argument(
        "--allow_reload_config",
        action="store_true",
        help="let HandleReloadConfigRequest (gRPC) change the models; any client of the port can then end models, and "
        "make the server read any directory of this machine, load what is there and show it (but no URL that is not "
        "configured)",
    )
    group.add_argument(
        "--trial_load",
        action="store_true",
        help="load each version in another process first, so that one that crashes TensorFlow does not end the server; "
        "a load takes some seconds more",
    )
    group.add_argument(
        "--trust_models",
        action="store_true",
        help="serve models that read or write files, open connections or run code, as their graph says; by default "
        "they are refused",
    )
    loads = "versions loaded in parallel; default: 4"
    group.add_argument("--num_load_threads", type=int, default=4, metavar="N", help=loads)


def _add_limits(group: argparse._ArgumentGroup) -> None:
    number = functools.partial(group.add_argument, type=int)
    number("--max_request_bytes", default=16 * 2**20, help="maximum size of a request; default: 16 MiB")
    number("--max_text_bytes", default=2**20, help="maximum size of a text; default: 1 MiB")
    number("--max_connections", default=1000, help="maximum open connections, REST and gRPC each; default: 1000")
    number("--max_waiting", help="maximum waiting rows; further rows are rejected")
    drain = "seconds to answer after SIGTERM while /readyz returns 503, for load balancers; default: 1"
    group.add_argument("--drain_seconds", type=float, default=1.0, metavar="SECONDS", help=drain)


def _add_access(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--allowed_hosts",
        nargs="+",
        default=[],
        metavar="NAME",
        help="host names that clients may use and whose web pages may send requests, `*` for any; "
        "default: names of this machine, or any if --host is reachable from other machines",
    )
    file = functools.partial(group.add_argument, type=Path)
    file("--tls_certificate", help="PEM file, for HTTPS and gRPC; needs --tls_key")
    file("--tls_key", help="PEM file of the certificate's private key")
    file(
        "--tls_client_authority",
        help="PEM file of the authority whose certificates clients must have (mTLS); default: clients need none",
    )
    file(
        "--token_file",
        help="file of tokens, one on a line; requests need one as `Authorization: Bearer TOKEN`; default: the token in "
        "the environment variable BERT_TF_SERVE_TOKEN, if set. SIGHUP reads tokens and certificates again",
    )
    group.add_argument("--access_log", action="store_true", help="log each request to standard error")


def _add_tf_serving_names(group: argparse._ArgumentGroup) -> None:
    """Adds TF Serving's flags that have another name here, or one possible value."""
    group.add_argument("--rest_api_port", type=int, metavar="PORT", help="same as --port")
    timeout = "time-out of a REST request in milliseconds; default: 30000"
    group.add_argument("--rest_api_timeout_in_ms", type=int, default=30000, metavar="MS", help=timeout)
    group.add_argument("--model_name", metavar="NAME", help="name of the model of --model_base_path; default: default")
    monitoring = "TF Serving's monitoring.config: metrics on or off, and their path"
    group.add_argument("--monitoring_config_file", type=Path, metavar="FILE", help=monitoring)
    ssl = "TF Serving's SSLConfig, instead of --tls_*; here it is also for REST; read once"
    group.add_argument("--ssl_config_file", type=Path, metavar="FILE", help=ssl)
    switches = {
        "--enable_batching": "batching; default: true; false is the same as --no_batching",
        "--enable_model_warmup": "warm-up requests; default: true; false is the same as --no_warmup",
        "--allow_version_labels_for_unavailable_models": "must be true: labels may name versions that are not loaded",
    }
    for flag, text in switches.items():
        # As in TF Serving, the value may be omitted.
        group.add_argument(flag, type=boolean, nargs="?", const=True, metavar="BOOLEAN", help=text)


def check(args: argparse.Namespace) -> None:
    """Checks the arguments; see `Command`."""
    _check(args)
    if args.model_name and not args.model_base_path:
        raise ConfigError("--model_name needs --model_base_path. Add --model_base_path DIRECTORY.")
    for path in args.model or ():
        _check_model(path, "--model")
    if args.model_base_path:
        _check_model(args.model_base_path, "--model_base_path")
    _check_ports(args)


def _check_model(path: Path | str, name: str) -> None:
    if is_url(path):
        check_stored_model(str(path), name)
    else:
        check_model_directory(Path(path), name)


def _check_ports(args: argparse.Namespace) -> None:
    """Raises OSError if a port is in use. The server binds the ports later, after TensorFlow is imported."""
    with bound_socket(args.host, _rest_port(args)):
        pass
    if args.grpc_port >= 0:
        with bound_socket(args.host, args.grpc_port, shared=True):
            pass


def _rest_port(args: argparse.Namespace) -> int:
    port = args.port if args.rest_api_port is None else args.rest_api_port
    return _DEFAULT_PORT if port is None else port


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Serves until stopped; returns the summary."""
    from bert_tf.export.runtime import keep_packed_weights

    if args.packed_weights:
        keep_packed_weights()
    from bert_tf.serving.server import serve

    models = _models(args)
    with tempfile.TemporaryDirectory() as folder:
        serve(models, _options(args, Path(folder)))
    return {"output": ", ".join(str(model.base_path) for model in models)}


def _models(args: argparse.Namespace) -> list[Any]:
    from bert_tf.serving.configuration import read_model_config
    from bert_tf.serving.models.versions import model_at

    if args.model_base_path:
        return [model_at(args.model_base_path, args.model_name or _DEFAULT_NAME)]
    if args.model_config_file:
        return read_model_config(args.model_config_file)
    models = [model_at(path) for path in args.model]
    if len({model.name for model in models}) < len(models):
        raise ConfigError(f"--model: names must differ. Received: {', '.join(model.name for model in models)}")
    return models


def _options(args: argparse.Namespace, folder: Path) -> Any:
    from bert_tf.serving.access import AccessOptions, read_tokens
    from bert_tf.serving.grpc.server import GrpcOptions
    from bert_tf.serving.http.app import RestOptions
    from bert_tf.serving.http.connection import ConnectionLimits
    from bert_tf.serving.http.request_body import BodyLimits
    from bert_tf.serving.server import ServerOptions

    access = AccessOptions(tuple(args.allowed_hosts), read_tokens(args.token_file))
    return ServerOptions(
        host=args.host,
        port=_rest_port(args),
        grpc_port=None if args.grpc_port < 0 else args.grpc_port,
        workers=args.workers,
        batching=_batching(args),
        poll_seconds=args.file_system_poll_wait_seconds,
        load_threads=args.num_load_threads,
        model_config_file=args.model_config_file,
        model_config_poll_seconds=args.model_config_file_poll_wait_seconds,
        warm_up=not args.no_warmup and args.enable_model_warmup is not False,
        trust_models=args.trust_models,
        trial_load=args.trial_load,
        max_text_bytes=args.max_text_bytes,
        connections=ConnectionLimits(args.max_connections),
        tls=_tls(args, folder),
        drain_seconds=args.drain_seconds,
        access_log=args.access_log,
        rest=RestOptions(
            body=BodyLimits(args.max_request_bytes),
            answer_seconds=args.rest_api_timeout_in_ms / 1000,
            access=access,
            metrics_path=_metrics_path(args),
        ),
        grpc=GrpcOptions(
            max_message_bytes=args.max_request_bytes,
            max_connections=args.max_connections,
            allow_reload_config=args.allow_reload_config,
            tokens=access.tokens,
        ),
    )


def _check(args: argparse.Namespace) -> None:
    """Raises ConfigError for values out of range and conflicting flags, FileNotFoundError for missing files."""
    for flag, least in _LOWEST.items():
        value = getattr(args, flag.removeprefix("--"))
        if value is not None and value < least:
            raise ConfigError(f"{flag} must be at least {least}. Received: {value}")
    _check_tf_serving_names(args)
    if args.model_config_file_poll_wait_seconds and not args.model_config_file:
        raise ConfigError(
            "--model_config_file_poll_wait_seconds needs --model_config_file. Add --model_config_file FILE."
        )
    if args.allow_reload_config and args.workers > 1:
        raise ConfigError(
            "--allow_reload_config needs --workers 1, because a request reaches only one worker. Use "
            f"--model_config_file_poll_wait_seconds instead. Received: --workers {args.workers}"
        )
    if args.ssl_config_file and (args.tls_certificate or args.tls_key or args.tls_client_authority):
        raise ConfigError(
            "--ssl_config_file has the certificate, the key, and the authority of clients in `custom_ca` with "
            "`client_verify`. Remove --tls_certificate, --tls_key and --tls_client_authority."
        )
    for name, other in (("tls_certificate", "tls_key"), ("tls_key", "tls_certificate")):
        if getattr(args, name) and not getattr(args, other):
            raise ConfigError(f"--{name} needs --{other}. Set both, or neither for plain HTTP.")
    if args.tls_client_authority and not args.tls_key:
        raise ConfigError("--tls_client_authority needs --tls_certificate and --tls_key. Set all three.")
    for name in _FILES:
        if path := getattr(args, name):
            check_path(input_path(path), f"--{name}")


def _batching(args: argparse.Namespace) -> Any:
    import dataclasses

    from bert_tf.serving.configuration import read_batching_parameters
    from bert_tf.serving.models.batching import ONE_BY_ONE, BatchingOptions

    batching = ONE_BY_ONE if args.no_batching or args.enable_batching is False else BatchingOptions()
    if args.batching_parameters_file:
        batching = read_batching_parameters(args.batching_parameters_file)
    if args.max_waiting:
        batching = dataclasses.replace(batching, max_enqueued_rows=args.max_waiting)
    return batching


def _tls(args: argparse.Namespace, folder: Path) -> Any:
    from bert_tf.serving.access import TlsFiles
    from bert_tf.serving.configuration import read_ssl_config

    if args.ssl_config_file:
        return read_ssl_config(args.ssl_config_file, folder)
    return TlsFiles(args.tls_certificate, args.tls_key, args.tls_client_authority) if args.tls_key else None


def _check_tf_serving_names(args: argparse.Namespace) -> None:
    """Raises ConfigError for flags that contradict each other."""
    if args.port is not None and args.rest_api_port is not None:
        raise ConfigError(
            "--port and --rest_api_port both set the REST port, so only one of them may be used. TF Serving's --port, "
            f"for gRPC, is --grpc_port here. Received: --port {args.port} --rest_api_port {args.rest_api_port}"
        )
    for on, off in (("enable_batching", "no_batching"), ("enable_model_warmup", "no_warmup")):
        if getattr(args, on) and getattr(args, off):
            raise ConfigError(f"--{on} and --{off} contradict each other. Remove one.")
    if args.enable_batching is False and args.batching_parameters_file:
        raise ConfigError("--batching_parameters_file has no effect with --enable_batching=false. Remove one.")
    if args.allow_version_labels_for_unavailable_models is False:
        raise ConfigError(
            "--allow_version_labels_for_unavailable_models must be true: labels may always name versions that are not "
            "loaded. Remove the flag."
        )


def _metrics_path(args: argparse.Namespace) -> str | None:
    from bert_tf.serving import metrics
    from bert_tf.serving.configuration import read_monitoring_config

    if args.monitoring_config_file:
        return read_monitoring_config(args.monitoring_config_file)
    return metrics.PATH

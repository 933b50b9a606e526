"""`bert-tf serve`: TF Serving's REST and gRPC on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import existing
from bert_tf.config import ConfigError

_DEFAULT_PORT = 8501
# TF Serving's name of a model that is not given one.
_DEFAULT_NAME = "default"
# Least value of each number.
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
    models.add_argument("--model", type=Path, nargs="+", help="saved_models/NAME, several for several models")
    models.add_argument("--model_config_file", type=Path, help="TF Serving's models.config: names, paths, labels")
    models.add_argument("--model_base_path", type=Path, help="as in TF Serving: one model, named by --model_name")
    parser.add_argument("--host", default="127.0.0.1", help="default: this machine only")
    parser.add_argument("--port", type=int, help="REST port; default: 8501, 0 takes a free one")
    parser.add_argument(
        "--grpc_port", type=int, default=8500, help="gRPC port; default: 8500, 0 takes a free one, -1 none"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes, each with the models loaded")
    batching = parser.add_mutually_exclusive_group()
    batching.add_argument("--batching_parameters_file", type=Path, help="TF Serving's batching.config")
    batching.add_argument("--no_batching", action="store_true", help="each request runs by itself")
    parser.add_argument(
        "--no_warmup",
        action="store_true",
        help="do not play the warm-up requests: ready sooner, the first request later",
    )
    parser.add_argument(
        "--packed_weights",
        action="store_true",
        help="keep kernels as oneDNN packs them: for models in bfloat16, which answer sooner and take more memory",
    )
    _add_loading(parser)
    _add_limits(parser)
    _add_access(parser)
    _add_tf_serving_names(parser)


def _add_loading(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("models and versions at run time")
    group.add_argument(
        "--file_system_poll_wait_seconds",
        type=float,
        default=1.0,
        metavar="SECONDS",
        help="how often new versions are looked for; 0 does so at the start only",
    )
    group.add_argument(
        "--model_config_file_poll_wait_seconds",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="how often --model_config_file is read again; default: 0, at the start only",
    )
    group.add_argument(
        "--allow_reload_config",
        action="store_true",
        help="let HandleReloadConfigRequest (gRPC) change the models: whoever reaches the port can then have any "
        "folder of this machine read",
    )
    group.add_argument("--num_load_threads", type=int, default=4, metavar="N", help="versions loaded at once")


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("limits")
    group.add_argument("--max_request_bytes", type=int, default=16 * 2**20, help="larger requests are refused")
    group.add_argument("--max_text_bytes", type=int, default=2**20, help="longer texts are refused")
    group.add_argument("--max_connections", type=int, default=1000, help="open at once, of REST and of gRPC each")
    group.add_argument("--max_waiting", type=int, help="rows that wait at most; more are refused")
    group.add_argument(
        "--drain_seconds",
        type=float,
        default=1.0,
        metavar="SECONDS",
        help="answer for so long after SIGTERM, while /readyz says 503; load balancers need some",
    )


def _add_access(parser: argparse.ArgumentParser) -> None:
    access = parser.add_argument_group("access")
    access.add_argument(
        "--allowed_hosts",
        nargs="+",
        default=[],
        metavar="NAME",
        help="host names that clients may use and whose web pages may send requests; `*` for any; "
        "default: names of this machine only, or any where --host is an address that others reach",
    )
    access.add_argument("--tls_certificate", type=Path, help="PEM file, for HTTPS and gRPC; needs --tls_key")
    access.add_argument("--tls_key", type=Path, help="PEM file of the certificate's private key")
    access.add_argument(
        "--token_file",
        type=Path,
        help="requests need `Authorization: Bearer TOKEN`; default: the variable BERT_TF_SERVE_TOKEN, if set",
    )
    access.add_argument("--access_log", action="store_true", help="log each request to standard error")


def _add_tf_serving_names(parser: argparse.ArgumentParser) -> None:
    """Adds flags of TF Serving that have another name here, or one possible value."""
    group = parser.add_argument_group("TF Serving's names", "its --port is --grpc_port here")
    group.add_argument("--rest_api_port", type=int, metavar="PORT", help="as --port")
    group.add_argument(
        "--rest_api_timeout_in_ms",
        type=int,
        default=30000,
        metavar="MS",
        help="time for a REST request; default: 30000",
    )
    group.add_argument("--model_name", metavar="NAME", help="name of the model of --model_base_path; default: default")
    group.add_argument(
        "--monitoring_config_file", type=Path, metavar="FILE", help="whether there are metrics, and at which path"
    )
    switches = {
        "--enable_batching": "default: true; false is --no_batching",
        "--enable_model_warmup": "default: true; false is --no_warmup",
        "--allow_version_labels_for_unavailable_models": "must be true: labels may name versions that are not loaded",
    }
    for flag, what in switches.items():
        # Like TF Serving's, they may stand without a value.
        group.add_argument(flag, type=_boolean, nargs="?", const=True, metavar="BOOLEAN", help=what)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Serves until stopped; returns the summary."""
    from bert_tf.export.runtime import keep_packed_weights

    if args.packed_weights:
        keep_packed_weights()
    from bert_tf.serving.server import serve

    models = _models(args)
    serve(models, _options(args))
    return {"output": ", ".join(str(model.base_path) for model in models)}


def _models(args: argparse.Namespace) -> list[Any]:
    from bert_tf.serving.configuration import ServedModel, read_model_config

    if args.model_name and not args.model_base_path:
        raise ConfigError("--model_name is the name of the model of --model_base_path. Add --model_base_path FOLDER.")
    if args.model_base_path:
        folder = existing(args.model_base_path, "--model_base_path").resolve()
        return [ServedModel(args.model_name or _DEFAULT_NAME, folder)]
    if args.model_config_file:
        return read_model_config(existing(args.model_config_file, "--model_config_file"))
    folders = [existing(path, "--model").resolve() for path in args.model]
    models = [ServedModel(folder.name, folder) for folder in folders]
    if len({model.name for model in models}) < len(models):
        raise ConfigError(f"--model: names must differ. Received: {', '.join(model.name for model in models)}")
    return models


def _options(args: argparse.Namespace) -> Any:
    from bert_tf.serving.access import AccessOptions, read_token
    from bert_tf.serving.grpc_services import GrpcOptions
    from bert_tf.serving.http_connection import ConnectionLimits
    from bert_tf.serving.request_body import BodyLimits
    from bert_tf.serving.rest import RestOptions
    from bert_tf.serving.server import ServerOptions

    _check(args)
    token_file = existing(args.token_file, "--token_file") if args.token_file else None
    access = AccessOptions(tuple(args.allowed_hosts), read_token(token_file))
    port = args.port if args.rest_api_port is None else args.rest_api_port
    return ServerOptions(
        host=args.host,
        port=_DEFAULT_PORT if port is None else port,
        grpc_port=None if args.grpc_port < 0 else args.grpc_port,
        workers=args.workers,
        batching=_batching(args),
        poll_seconds=args.file_system_poll_wait_seconds,
        load_threads=args.num_load_threads,
        model_config_file=args.model_config_file,
        model_config_poll_seconds=args.model_config_file_poll_wait_seconds,
        warm_up=not args.no_warmup and args.enable_model_warmup is not False,
        max_text_bytes=args.max_text_bytes,
        connections=ConnectionLimits(args.max_connections),
        tls=_tls(args),
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
            token=access.token,
        ),
    )


def _check(args: argparse.Namespace) -> None:
    """Raises ConfigError for values out of range, and flags that do not go together."""
    for flag, least in _LOWEST.items():
        value = getattr(args, flag.removeprefix("--"))
        if value is not None and value < least:
            raise ConfigError(f"{flag} must be at least {least}. Received: {value}")
    _check_tf_serving_names(args)
    if args.model_config_file_poll_wait_seconds and not args.model_config_file:
        raise ConfigError("--model_config_file_poll_wait_seconds needs --model_config_file")
    if args.allow_reload_config and args.workers > 1:
        raise ConfigError(
            "--allow_reload_config needs --workers 1, because a request reaches only one worker. Use "
            f"--model_config_file_poll_wait_seconds instead. Received: --workers {args.workers}"
        )


def _batching(args: argparse.Namespace) -> Any:
    import dataclasses

    from bert_tf.serving.batching import ONE_BY_ONE, BatchingOptions
    from bert_tf.serving.configuration import read_batching_parameters

    batching = ONE_BY_ONE if args.no_batching or args.enable_batching is False else BatchingOptions()
    if args.batching_parameters_file:
        batching = read_batching_parameters(existing(args.batching_parameters_file, "--batching_parameters_file"))
    if args.max_waiting:
        batching = dataclasses.replace(batching, max_enqueued_rows=args.max_waiting)
    return batching


def _tls(args: argparse.Namespace) -> Any:
    from bert_tf.serving.tls import TlsFiles

    files = {"--tls_certificate": args.tls_certificate, "--tls_key": args.tls_key}
    given = {flag: existing(path, flag) for flag, path in files.items() if path is not None}
    if len(given) == 1:
        (missing,) = files.keys() - given.keys()
        raise ConfigError(f"{next(iter(given))} needs {missing}. Give both, or neither for plain HTTP.")
    return TlsFiles(given["--tls_certificate"], given["--tls_key"]) if given else None


def _check_tf_serving_names(args: argparse.Namespace) -> None:
    """Raises ConfigError for flags that contradict each other."""
    if args.port is not None and args.rest_api_port is not None:
        raise ConfigError(
            "--port is the REST port, as --rest_api_port, and only one of them may be given. TF Serving's --port, of "
            f"gRPC, is --grpc_port here. Received: --port {args.port} --rest_api_port {args.rest_api_port}"
        )
    for on, off in (("enable_batching", "no_batching"), ("enable_model_warmup", "no_warmup")):
        if getattr(args, on) and getattr(args, off):
            raise ConfigError(f"--{on} and --{off} contradict each other. Leave one out.")
    if args.enable_batching is False and args.batching_parameters_file:
        raise ConfigError("--batching_parameters_file has no effect with --enable_batching=false. Leave one out.")
    if args.allow_version_labels_for_unavailable_models is False:
        raise ConfigError(
            "--allow_version_labels_for_unavailable_models must be true: labels may always name versions that are not "
            "loaded. Leave the flag out."
        )


def _metrics_path(args: argparse.Namespace) -> str | None:
    from bert_tf.serving import metrics
    from bert_tf.serving.monitoring import read_monitoring_config

    if args.monitoring_config_file:
        return read_monitoring_config(existing(args.monitoring_config_file, "--monitoring_config_file"))
    return metrics.PATH


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"must be true or false. Received: {text!r}")
    return text.lower() == "true"

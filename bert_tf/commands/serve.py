"""`bert-tf serve`: TF Serving's REST and gRPC on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bert_tf.commands.arguments import existing
from bert_tf.config import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    models = parser.add_mutually_exclusive_group(required=True)
    models.add_argument("--model", type=Path, nargs="+", help="saved_models/NAME, several for several models")
    models.add_argument("--model_config_file", type=Path, help="TF Serving's models.config: names, paths, labels")
    parser.add_argument("--host", default="127.0.0.1", help="default: this machine only")
    parser.add_argument("--port", type=int, default=8501, help="REST; TF Serving's by default, 0 takes a free one")
    parser.add_argument("--grpc_port", type=int, default=8500, help="gRPC; likewise; -1 has none")
    parser.add_argument("--workers", type=int, default=1, help="processes, each with the models loaded")
    batching = parser.add_mutually_exclusive_group()
    batching.add_argument("--batching_parameters_file", type=Path, help="TF Serving's batching.config")
    batching.add_argument("--no_batching", action="store_true", help="each request runs by itself")
    parser.add_argument(
        "--file_system_poll_wait_seconds",
        type=float,
        default=1.0,
        metavar="SECONDS",
        help="how often new versions are looked for; 0 does so at the start only",
    )
    parser.add_argument("--max_request_bytes", type=int, default=16 * 2**20, help="larger requests are refused")
    parser.add_argument("--max_waiting", type=int, help="rows that wait at most; more are refused")
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


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Serves until stopped; returns the summary."""
    from bert_tf.export.runtime import keep_packed_weights

    if args.packed_weights:
        keep_packed_weights()
    from bert_tf.export.serving.configuration import ServedModel, read_model_config
    from bert_tf.export.serving.server import serve

    options = _options(args)
    if args.model_config_file:
        models = read_model_config(existing(args.model_config_file, "--model_config_file"))
    else:
        folders = [existing(path, "--model").resolve() for path in args.model]
        models = [ServedModel(folder.name, folder) for folder in folders]
        if len({model.name for model in models}) < len(models):
            raise ConfigError(f"--model: names must differ. Received: {', '.join(model.name for model in models)}")
    serve(models, options)
    return {"output": ", ".join(str(model.base_path) for model in models)}


def _options(args: argparse.Namespace) -> Any:
    import dataclasses

    from bert_tf.export.serving.batching import ONE_BY_ONE, BatchingOptions
    from bert_tf.export.serving.configuration import read_batching_parameters
    from bert_tf.export.serving.grpc_services import GrpcOptions
    from bert_tf.export.serving.rest import RestOptions
    from bert_tf.export.serving.server import ServerOptions

    lowest = {"--port": 0, "--grpc_port": -1, "--workers": 1, "--file_system_poll_wait_seconds": 0}
    lowest |= {"--max_request_bytes": 1, "--max_waiting": 1}
    for flag, least in lowest.items():
        value = getattr(args, flag.removeprefix("--"))
        if value is not None and value < least:
            raise ConfigError(f"{flag} must be at least {least}. Received: {value}")
    batching = ONE_BY_ONE if args.no_batching else BatchingOptions()
    if args.batching_parameters_file:
        batching = read_batching_parameters(existing(args.batching_parameters_file, "--batching_parameters_file"))
    if args.max_waiting:
        batching = dataclasses.replace(batching, max_enqueued_rows=args.max_waiting)
    return ServerOptions(
        host=args.host,
        port=args.port,
        grpc_port=None if args.grpc_port < 0 else args.grpc_port,
        workers=args.workers,
        batching=batching,
        poll_seconds=args.file_system_poll_wait_seconds,
        warm_up=not args.no_warmup,
        rest=RestOptions(max_request_bytes=args.max_request_bytes),
        grpc=GrpcOptions(max_message_bytes=args.max_request_bytes),
    )

"""Clients of TF Serving and of `bert-tf serve`, over REST (standard library only) and over gRPC.

Both return the same predictions, row by row, in plain Python: strings, integers, and floats with the digits of a
float32. A request changes nothing on the server. If the server cannot be reached, or answers UNAVAILABLE, the request
is sent again after a pause that grows; a request that the server refuses is not sent again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from bert_tf.client.base import ModelClient, PredictError
from bert_tf.client.rest import RestClient

__all__ = ["ModelClient", "PredictError", "connect", "predict"]

_GRPC = re.compile(
    r"grpcs?://(?P<server>[^/]+)/(?P<name>[^/:]+)(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
)


def connect(
    url: str,
    *,
    timeout: float = 60.0,
    retries: int = 3,
    token: str | None = None,
    certificate: str | Path | None = None,
) -> ModelClient:
    """Returns a client of a model.

    Args:
        url: `http://HOST:PORT/v1/models/NAME` for REST or `grpc://HOST:PORT/NAME` for gRPC, `https` and `grpcs` for
            TLS; with `/versions/N` or `/labels/L` where it should not be the highest version.
        timeout: seconds without an answer.
        retries: how often a request that the server could not take is sent again.
        token: that the server demands; sent as `Authorization: Bearer TOKEN`.
        certificate: PEM file of the server's certificate, or of the authority that signed it; None for the
            authorities that this machine trusts.

    Raises:
        ValueError: for another URL.
        OSError: where the certificate cannot be read.
    """
    if url.startswith(("http://", "https://")):
        return RestClient(url, timeout, retries, token, certificate)
    if (found := _GRPC.fullmatch(url)) is not None:
        from bert_tf.client.grpc import GrpcClient

        version, label = found["version"], found["label"]
        return GrpcClient(
            found["server"],
            unquote(found["name"]),
            int(version) if version else None,
            unquote(label) if label else None,
            timeout,
            retries,
            token,
            certificate,
            secure=url.startswith("grpcs://"),
        )
    raise ValueError(f"a model's URL must be http://HOST:PORT/v1/models/NAME or grpc://HOST:PORT/NAME. Received: {url}")


def predict(url: str, instances: Sequence[Any], signature_name: str | None = None, timeout: float = 60.0) -> list[Any]:
    """Asks a served model once, without sending anything again.

    Args:
        url: as `connect`.
        instances: one value a row, or one dictionary of inputs a row where the signature has several.
        signature_name: `serving_default` where None.
        timeout: seconds without an answer.

    Returns:
        One prediction a row: a dictionary of outputs, or the bare value where there is one output.

    Raises:
        PredictError: when the server refuses the request, or its answer is not what a model server says.
        ConnectionError: when no server answers.
    """
    return connect(url, timeout=timeout, retries=0).predict(instances, signature_name)

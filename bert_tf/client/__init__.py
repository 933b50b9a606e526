"""Clients for TF Serving and `bert-tf serve`, over REST (standard library only) and gRPC.

Both return the same predictions as plain Python values: strings, integers, and floats with float32 digits. Requests do
not change the state of the server. If the server is unreachable or returns UNAVAILABLE, the request is retried with
exponential backoff; rejected requests are not retried.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bert_tf.client.base import URL_RULE, ClientOptions, ModelClient, PredictError
from bert_tf.client.rest import RestClient

__all__ = ["ModelClient", "PredictError", "connect", "predict"]


def connect(
    url: str,
    *,
    timeout: float = 60.0,
    retries: int = 3,
    token: str | None = None,
    certificate: str | Path | None = None,
    client_certificate: str | Path | None = None,
    client_key: str | Path | None = None,
) -> ModelClient:
    """Returns a client for a served model.

    Args:
        url: `http://HOST:PORT/v1/models/NAME` for REST or `grpc://HOST:PORT/NAME` for gRPC; `https` and `grpcs` for
            TLS. Append `/versions/N` or `/labels/L` to select a version other than the highest one.
        timeout: seconds to wait for a response.
        retries: maximum number of retries if the server is unavailable.
        token: access token, sent as `Authorization: Bearer TOKEN`.
        certificate: PEM file with the server's certificate or its certificate authority; defaults to the authorities
            that the machine trusts.
        client_certificate: PEM file with the certificate that the server asks for; None for none.
        client_key: PEM file with its key.

    Returns:
        The client.

    Raises:
        ValueError: for an invalid URL.
        OSError: if the certificate cannot be read.

    Example:
        >>> from bert_tf.client import connect
        >>> model = connect("http://127.0.0.1:8501/v1/models/my_task")  # or grpc://127.0.0.1:8500/my_task
        >>> prediction = model.predict(["a good film"])[0]
        >>> prediction["label"] in ("negative", "positive"), len(prediction["probabilities"])
        (True, 2)
    """
    options = ClientOptions(timeout, retries, token, certificate, client_certificate, client_key)
    if url.startswith(("http://", "https://")):
        return RestClient(url, options)
    if url.startswith(("grpc://", "grpcs://")):
        from bert_tf.client.grpc import GrpcClient

        return GrpcClient(url, options)
    raise ValueError(f"{URL_RULE}. Received: {url}")


def predict(url: str, instances: Sequence[Any], signature_name: str | None = None, timeout: float = 60.0) -> list[Any]:
    """Requests predictions from a served model, without retries.

    Args:
        url: model URL, see `connect`.
        instances: one value per row, or one dictionary of inputs per row if the signature has several inputs.
        signature_name: signature to call; defaults to `serving_default`.
        timeout: seconds to wait for a response.

    Returns:
        One prediction per row: a dictionary of outputs, or the value itself if there is one output.

    Raises:
        PredictError: if the server rejects the request or returns an invalid response.
        ConnectionError: if the server is unreachable.

    Example:
        >>> from bert_tf.client import predict
        >>> predictions = predict("http://127.0.0.1:8501/v1/models/my_task", ["a good film", "a dull film"])
        >>> [sorted(prediction) for prediction in predictions]
        [['label', 'probabilities'], ['label', 'probabilities']]
    """
    return connect(url, timeout=timeout, retries=0).predict(instances, signature_name)

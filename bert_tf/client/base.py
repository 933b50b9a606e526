"""Protocol, errors and retries of the clients."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

# HTTP status of TF Serving -> canonical status code.
_CODES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
URL_RULE = "a model's URL must be http://HOST:PORT/v1/models/NAME or grpc://HOST:PORT/NAME"
_FIRST_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class ClientOptions:
    """Options of a client, as in `connect`."""

    timeout: float = 60.0
    retries: int = 3
    token: str | None = None
    certificate: str | Path | None = None
    client_certificate: str | Path | None = None
    client_key: str | Path | None = None


class PredictError(RuntimeError):
    """Raised if the server rejects a request.

    Args:
        message: error message of the server.
        status: HTTP status; None over gRPC.
        code: canonical status code, for example `INVALID_ARGUMENT`; derived from `status` by default, `UNKNOWN` if the
            status has no code.

    Example:
        >>> from bert_tf.client import PredictError, predict
        >>> try:
        ...     predict("http://127.0.0.1:8501/v1/models/other", ["a good film"])
        ... except PredictError as error:
        ...     print(error.status, error.code)
        404 NOT_FOUND
    """

    def __init__(self, message: str, status: int | None = None, code: str | None = None) -> None:
        self.status = status
        self.code = code or _CODES.get(status or 0, "UNKNOWN")
        super().__init__(f"the server returned {status or self.code}: {message}")


class ModelClient(Protocol):
    """Interface of the clients that `connect` returns.

    Example:
        >>> from bert_tf.client import ModelClient, connect
        >>> def label(model: ModelClient, text: str) -> str:
        ...     return model.predict([text])[0]["label"]
        >>> label(connect("http://127.0.0.1:8501/v1/models/my_task"), "a good film") in ("negative", "positive")
        True
    """

    def predict(self, instances: Sequence[Any], signature_name: str | None = None) -> list[Any]:
        """Requests predictions.

        Args:
            instances: one value per row, or one dictionary of inputs per row if the signature has several inputs.
            signature_name: signature to call; defaults to `serving_default`.

        Returns:
            One prediction per row: a dictionary of outputs, or the value itself if there is one output.

        Raises:
            PredictError: if the server rejects the request or returns an invalid response.
            ConnectionError: if the server is unreachable.
        """

    def classify(self, examples: Sequence[Mapping[str, Any]], signature_name: str | None = None) -> list[list[Any]]:
        """Requests a list of `[label, score]` for each dictionary of features. Raises the errors of `predict`."""

    def regress(self, examples: Sequence[Mapping[str, Any]], signature_name: str | None = None) -> list[float]:
        """Requests one number for each dictionary of features. Raises the errors of `predict`."""

    def status(self) -> list[dict[str, Any]]:
        """Returns `version`, `state` and `error` of each version, highest first. Raises the errors of `predict`."""

    def metadata(self) -> dict[str, Any]:
        """Returns the model's signatures in the JSON format of TF Serving. Raises the errors of `predict`."""


def retry(ask: Callable[[], T], retries: int) -> T:
    """Calls `ask`, and up to `retries` times again after a ConnectionError or an `UNAVAILABLE` PredictError."""
    for attempt in range(retries):
        try:
            return ask()
        except ConnectionError:
            pass
        except PredictError as error:
            if error.code != "UNAVAILABLE":
                raise
        # Random jitter, so that clients rejected at the same time do not retry at the same time.
        time.sleep(_FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1.5))
    return ask()
